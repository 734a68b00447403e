"""An estimate of the work to judge an object, from counts, so that it is the same on every machine.

The unit is a microsecond of the machine of docs/performance.md. Each weight is the most that was
measured for its kind of thing, an expression's also what any library for them may take.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from jobflow.api.jobflow import Probe
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.spec.expressions import list_expressions

STEERED = 20
"""A step with a loop, a retry or a timeout."""
ITEM = 6
"""An item of forEach."""
PROBE, PROBED = 5, 3
"""A probe, and each thing that it asks."""
EXPRESSION, CHARACTER = 150, 8
"""An expression that differs from all others, and each of its characters."""
ANOTHER_EXPRESSION = 6
"""Each place of one that was read before."""
MAP, COMMA, REFERENCE = 5, 4, 12
"""A map, a comma and a reference in free-form JSON."""
MERGE, PATCHED_TASK = 60, 6
"""A patch, or jobDefaults, merged onto a template, and each task of the template."""
TASK = 0.5
"""A task of a template that is used as it is."""
PATCHED_BYTE = 0.02
"""A byte of a template that is patched."""


def effort_of_json(value: Any) -> float:
    """Of free-form JSON: a patch, or the spec of a template."""
    try:
        written = msgspec.json.encode(value)
    except (RecursionError, UnicodeEncodeError, ValueError):
        return math.inf
    marks = ((b"{", MAP), (b",", COMMA), (b"$(", REFERENCE))
    return sum(cost * written.count(mark) for mark, cost in marks)


def exceeds(facts: FlowFacts, most: float) -> bool:
    """Whether it is more work than `most` to judge a flow; counting stops there."""
    if most == math.inf:
        return False
    left = most - _of_templates(facts)
    if not facts.steps_with_options and not facts.probes and facts.flow.spec.job_defaults is None:
        return left < 0
    for cost in _of_steps(facts):
        left -= cost
        if left < 0:
            return True
    return False


def _of_steps(facts: FlowFacts) -> Iterator[float]:
    """The cost of each thing that a step need not have. A name, a template and targets cost a tenth
    of a microsecond a byte and are not counted here."""
    for _, probe in facts.probes:
        yield PROBE + PROBED * _entries(probe)
    yield STEERED * len(facts.controlled_steps)
    for _, step in facts.controlled_steps:
        if step.for_each is not None and step.for_each.items:
            yield ITEM * len(step.for_each.items)
    yield from _of_expressions(facts)
    yield from _of_merges(facts)
    for change in facts.changes:
        yield effort_of_json(change.said)


def _entries(probe: Probe) -> int:
    lists: Iterable[Any] = (probe.http_get_list, probe.tcp_socket_list, probe.task_status_list)
    return sum(len(each or ()) for each in lists)


def _of_expressions(facts: FlowFacts) -> Iterator[float]:
    seen: set[str] = set()
    for _, step in facts.steps_with_expressions:
        for written in list_expressions(step):
            if written.text in seen:
                yield ANOTHER_EXPRESSION
            else:
                seen.add(written.text)
                yield EXPRESSION + CHARACTER * len(written.text)


def _of_templates(facts: FlowFacts) -> float:
    """Of each template once, as it is."""
    templates = facts.known.templates
    if not templates:
        return 0
    known = map(templates.get, facts.templates)
    return TASK * sum(_tasks(template.spec) for template in known if template is not None)


def _of_merges(facts: FlowFacts) -> Iterator[float]:
    """Of each template once for every patch that is merged onto it."""
    templates = facts.known.templates or {}
    costs: dict[str, float] = {}
    for name in _merged(facts):
        if (template := templates.get(name)) is None:
            continue
        if name not in costs:
            costs[name] = MERGE + PATCHED_TASK * _tasks(template.spec)
            costs[name] += PATCHED_BYTE * len(msgspec.json.encode(template.spec))
        yield costs[name]


def _merged(facts: FlowFacts) -> Iterator[str]:
    """The template of each merge, by name."""
    if facts.flow.spec.job_defaults is not None:
        yield from facts.templates
    for position in dict.fromkeys(patched.step for patched in facts.patches):
        step = facts.steps[position]
        yield from (step.template_for(case) for case in step.switch or (None,))


def _tasks(spec: Mapping[str, Any]) -> int:
    tasks = spec.get("tasks")
    return len(tasks) if isinstance(tasks, list) else 0
