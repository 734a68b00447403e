"""Estimate of the work to judge an object, from counts, so that every machine agrees on it.

It counts JSON values, characters and tasks as they are written, before anything is read in them.
The unit is a microsecond of the machine of docs/performance.md; weights are the largest measured.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from jobflow.api.flow.step import Step
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.analysis.jobs.constants import MAX_REFERENCED
from jobflow.core.cel.references import measure_json
from jobflow.core.json_values import count_values
from jobflow.core.manifests.layers import count_containers, may_have_layers

MOST_BYTES = 256 * 1024
"""Size of an object that the event loop judges at most. Decoding it and walking its steps takes up
to a tenth of a microsecond per byte."""
MOST_EFFORT = 40_000
"""Effort of the other checks that the event loop makes at most, in about microseconds."""
VALUE = 20
"""A value in a step with options or in the rest of the spec."""
SPEC_VALUE = 5
"""A value in the spec of a JobTemplate."""
FLOW = 150
"""A child flow, besides its values."""
CHARACTER = 8
"""A character of an expression."""
TASK = 2
"""A task of a template that stays as it is."""
MERGED_VALUE = 2.5
"""A value of a template onto which layers are merged."""
VARIABLE = 3
"""A variable that env sets in a container."""
REFERENCE, INSERTED_BYTE = 12, 0.01
_EXPRESSIONS = (b'"when":', b'"until":', b'"from":', b'"vars":', b'"outputs":')


def effort_of_template(spec: Any) -> float:
    """Return the work to judge the spec of a JobTemplate."""
    text = _encode(spec)
    return math.inf if text is None else SPEC_VALUE * count_values(text)


def exceeds(facts: FlowFacts, limit: float) -> bool:
    """Whether it is more work than `limit` to judge a flow; counting stops there."""
    if limit == math.inf:
        return False
    templates = _Templates(facts)
    remaining = limit - TASK * sum(map(templates.count_tasks, facts.templates))
    if facts.is_plain:
        return remaining < 0
    for cost in _costs(facts, templates):
        remaining -= cost
        if remaining < 0:
            return True
    return False


def _costs(facts: FlowFacts, templates: "_Templates") -> Iterator[float]:
    """Yield the cost of each part that a plain flow has not. A plain step costs some microseconds
    and does not count."""
    text = _encode(
        (
            [step for _, step in facts.steps_with_options],
            [depends_on for _, depends_on in facts.dependencies_with_options],
            msgspec.structs.replace(facts.flow.spec, flows=None, finally_=None),
        )
    )
    if text is None:
        yield math.inf
        return
    yield VALUE * count_values(text) + FLOW * text.count(b'"flow":')
    yield CHARACTER * sum(len(each.text) for each in facts.written_expressions)
    yield _of_references(facts, text)
    spec = facts.flow.spec
    if spec.job_defaults is not None or spec.volume_claims:
        yield MERGED_VALUE * sum(map(templates.count_values, facts.templates))
    for _, step in facts.steps_with_options:
        if may_have_layers(step):
            yield from _of_merges(step, templates)
            yield from _of_child_flows(step, templates)


def _of_references(facts: FlowFacts, text: bytes) -> float:
    count = text.count(b"$(")
    params = facts.flow.spec.params if count else None
    largest = max((measure_json(param.value) for param in params or ()), default=0)
    return REFERENCE * count + INSERTED_BYTE * min(count * largest, MAX_REFERENCED)


def _of_merges(step: Step, templates: "_Templates") -> Iterator[float]:
    """Yield the costs of the layers of a step, which are merged for its first attempt and for one
    after a failure."""
    attempts = 1 if step.retry is None or step.retry.patch is None else 2
    for case in step.switch or (None,):
        name = step.template_for(case)
        yield MERGED_VALUE * attempts * templates.count_values(name)
        if step.env:
            yield VARIABLE * len(step.env) * templates.count_containers(name)


def _of_child_flows(step: Step, templates: "_Templates") -> Iterator[float]:
    """Yield the costs of the child flows of a step, and of those in them, that are more than those
    of their values."""
    pending: list[Any] = list(step.child_flows)
    while pending:
        raw = pending.pop()
        if not isinstance(raw, dict):
            continue
        yield CHARACTER * measure_json(raw["outputs"]) if "outputs" in raw else 0
        for steps in (raw.get("flows"), raw.get("finally")):
            for each in steps if isinstance(steps, list) else ():
                if isinstance(each, dict):
                    yield from _of_child_step(each, templates)
                    cases = each.get("switch")
                    pending.append(each.get("flow"))
                    pending += [
                        case.get("flow")
                        for case in (cases if isinstance(cases, list) else ())
                        if isinstance(case, dict)
                    ]


def _of_child_step(raw: Mapping[str, Any], templates: "_Templates") -> Iterator[float]:
    text = _encode(raw) or b""
    if any(key in text for key in _EXPRESSIONS):
        yield CHARACTER * len(text)
    cases = raw.get("switch")
    for each in (raw, *(cases if isinstance(cases, list) else ())):
        name = each.get("template", raw.get("name")) if isinstance(each, dict) else None
        if isinstance(name, str):
            yield MERGED_VALUE * (2 if "retry" in raw else 1) * templates.count_values(name)
            if isinstance(variables := raw.get("env"), dict):
                yield VARIABLE * len(variables) * templates.count_containers(name)


class _Templates:
    """Sizes of the templates that are known, each counted once."""

    def __init__(self, facts: FlowFacts) -> None:
        templates = facts.known.templates
        self._known = {} if templates is None else templates
        self._values: dict[str, int] = {}
        self._containers: dict[str, int] = {}

    def count_tasks(self, name: str) -> int:
        template = self._known.get(name)
        tasks = None if template is None else template.spec.get("tasks")
        return len(tasks) if isinstance(tasks, list) else 0

    def count_values(self, name: str) -> int:
        if name not in self._values:
            template = self._known.get(name)
            text = b"" if template is None else _encode(template.spec) or b""
            self._values[name] = count_values(text)
        return self._values[name]

    def count_containers(self, name: str) -> int:
        if name not in self._containers:
            template = self._known.get(name)
            self._containers[name] = 0 if template is None else count_containers(template.spec)
        return self._containers[name]


def _encode(value: Any) -> bytes | None:
    """Return a value as JSON, or None if it is nested too deep or is no JSON."""
    try:
        return msgspec.json.encode(value)
    except (RecursionError, UnicodeEncodeError, ValueError):
        return None
