"""Estimate of the work to judge an object, from counts, so that every machine agrees on it.

The unit is a microsecond of the machine of docs/performance.md; weights are the largest measured.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from jobflow.core.admission.analysis.flow_facts import FlowFacts

STEP = 20
"""A step with options."""
ITEM = 6
"""An item of forEach."""
PROBE, PROBE_ENTRY = 5, 3
EXPRESSION, CHARACTER = 150, 8
"""A distinct expression, and each of its characters."""
REPEATED_EXPRESSION = 6
MAP, COMMA, REFERENCE = 5, 4, 12
"""A map, a comma and a reference in free-form JSON."""
MERGE, PATCHED_TASK = 60, 6
"""A patch, or jobDefaults, merged onto a template, and each task of the template."""
TASK = 0.5
"""A task of a template without a patch."""
PATCHED_BYTE = 0.02
"""A byte of a template with a patch."""


def effort_of_json(value: Any) -> float:
    """Return the work for free-form JSON: a patch, or the spec of a template."""
    try:
        text = msgspec.json.encode(value)
    except (RecursionError, UnicodeEncodeError, ValueError):
        return math.inf
    marks = ((b"{", MAP), (b",", COMMA), (b"$(", REFERENCE))
    return sum(cost * text.count(mark) for mark, cost in marks)


def exceeds(facts: FlowFacts, limit: float) -> bool:
    """Whether it is more work than `limit` to judge a flow; counting stops there."""
    if limit == math.inf:
        return False
    remaining = limit - _of_templates(facts)
    if not facts.steps_with_options and not facts.probes and facts.flow.spec.job_defaults is None:
        return remaining < 0
    for cost in _of_options(facts):
        remaining -= cost
        if remaining < 0:
            return True
    return False


def _of_options(facts: FlowFacts) -> Iterator[float]:
    """Yield the cost of each optional part. A name, a template and targets cost a tenth of a
    microsecond a byte and do not count."""
    yield PROBE * len(facts.probes) + PROBE_ENTRY * len(facts.entries)
    yield STEP * len(facts.steps_with_options)
    for _, step in facts.steps_with_options:
        if step.for_each is not None and step.for_each.items:
            yield ITEM * len(step.for_each.items)
    yield from _of_expressions(facts)
    yield from _of_merges(facts)
    for patch in facts.resolved_patches:
        yield effort_of_json(patch.content)


def _of_expressions(facts: FlowFacts) -> Iterator[float]:
    seen: set[str] = set()
    for each in facts.written_expressions:
        if each.text in seen:
            yield REPEATED_EXPRESSION
        else:
            seen.add(each.text)
            yield EXPRESSION + CHARACTER * len(each.text)


def _of_templates(facts: FlowFacts) -> float:
    templates = facts.known.templates
    if not templates:
        return 0
    known = map(templates.get, facts.templates)
    return TASK * sum(_tasks(template.spec) for template in known if template is not None)


def _of_merges(facts: FlowFacts) -> Iterator[float]:
    templates = facts.known.templates or {}
    costs: dict[str, float] = {}
    names = list(facts.templates) if facts.flow.spec.job_defaults is not None else []
    for position in dict.fromkeys(patch.step for patch in facts.patches):
        step = facts.steps[position]
        names += [step.template_for(case) for case in step.switch or (None,)]
    for name in names:
        if (template := templates.get(name)) is None:
            continue
        if name not in costs:
            costs[name] = MERGE + PATCHED_TASK * _tasks(template.spec)
            costs[name] += PATCHED_BYTE * len(msgspec.json.encode(template.spec))
        yield costs[name]


def _tasks(spec: Mapping[str, Any]) -> int:
    tasks = spec.get("tasks")
    return len(tasks) if isinstance(tasks, list) else 0
