"""Estimate of the work to judge an object, from counts, so that every machine agrees on it.

The unit is a microsecond of the machine of docs/performance.md; weights are the largest measured.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.cel.references import measure_json
from jobflow.core.manifests.layers import count_containers

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
VARIABLE = 3
"""A variable that env sets in a container."""
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
    spec = facts.flow.spec
    changed = spec.job_defaults is not None or spec.volume_claims
    plain = not facts.steps_with_options and not facts.probes and not spec.outputs
    if plain and not changed:
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
    yield from _of_child_flows(facts)
    yield from _of_merges(facts)
    for layer in facts.resolved_layers:
        yield effort_of_json(layer.content)
    yield effort_of_json(facts.flow.spec.volume_claims)


def _of_child_flows(facts: FlowFacts) -> Iterator[float]:
    """Yield the costs of child flows: of their JSON first, before anything is read in them."""
    for _, step in facts.steps_with_options:
        for raw in step.child_flows:
            yield effort_of_json(raw)
    for child in facts.children:
        if child.facts is not None:
            yield _of_templates(child.facts)
            yield STEP * len(child.facts.steps)
            yield from _of_options(child.facts)


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
    spec = facts.flow.spec
    changed = spec.job_defaults is not None or spec.volume_claims
    specs: list[Mapping[str, Any]] = [
        templates[name].spec for name in (facts.templates if changed else ()) if name in templates
    ]
    variables: dict[int, int] = {}
    for layer in facts.resolved_layers:
        variables[layer.step] = variables.get(layer.step, 0) + layer.layer.variables
    for layer in facts.work:
        specs.append(layer.content)
        yield VARIABLE * variables[layer.step] * count_containers(layer.content)
    containers: dict[str, int] = {}
    for position, count in variables.items():
        step = facts.steps[position]
        for name in map(step.template_for, step.switch or (None,)):
            if (template := templates.get(name)) is not None:
                specs.append(template.spec)
                if count and name not in containers:
                    containers[name] = count_containers(template.spec)
                yield VARIABLE * count * containers.get(name, 0)
    costs: dict[int, float] = {}
    for each in specs:
        if id(each) not in costs:
            costs[id(each)] = _of_merge(each)
        yield costs[id(each)]


def _of_merge(spec: Mapping[str, Any]) -> float:
    size = measure_json(spec)
    return MERGE + PATCHED_TASK * _tasks(spec) + PATCHED_BYTE * size


def _tasks(spec: Mapping[str, Any]) -> int:
    tasks = spec.get("tasks")
    return len(tasks) if isinstance(tasks, list) else 0
