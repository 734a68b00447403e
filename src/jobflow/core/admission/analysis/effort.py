"""Estimate of the work to judge an object, from counts, so that every machine agrees on it.

It counts JSON values, characters and tasks as they are written, before anything is read in them.
The unit is a microsecond of the machine of docs/performance.md; weights are the largest measured.
"""

import math
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from jobflow.api.flow.jobflow import STEP_LISTS
from jobflow.api.flow.step import Step
from jobflow.api.flow.traits import Runs, fields_of
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.analysis.tree_budget import MAX_REFERENCED
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
_TEXT = rb'"(?:[^"\\]|\\.)*"'
_EXPRESSIONS = re.compile(
    rb'"(?:when|until|from)":' + _TEXT + rb'|"(?:vars|outputs)":\{(?:' + _TEXT + rb"[:,]?)*"
)
"""Fields of expressions in JSON, of child flows too."""

_WORK = frozenset(
    field.json for field in fields_of(Step) if field.get(Runs) not in (None, Runs())
) - {"template"}
"""Fields that say that a case runs something else than a template."""


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
            msgspec.structs.replace(facts.flow.spec, **dict.fromkeys(STEP_LISTS)),
        )
    )
    if text is None:
        yield math.inf
        return
    yield VALUE * count_values(text) + FLOW * text.count(b'"flow":')
    yield CHARACTER * sum(len(found[0]) for found in _EXPRESSIONS.finditer(text))
    if count := text.count(b"$("):
        params = facts.flow.spec.params or ()
        largest = max((measure_json(param.value) for param in params), default=0)
        yield REFERENCE * count + INSERTED_BYTE * min(count * largest, MAX_REFERENCED)
    spec = facts.flow.spec
    if spec.job_defaults is not None or spec.volume_claims:
        yield MERGED_VALUE * sum(map(templates.count_values, facts.templates))
    layered = (step for _, step in facts.steps_with_options if may_have_layers(step))
    for step in layered:
        yield from _merges(msgspec.to_builtins(step), templates)


def _merges(step: dict[str, Any], templates: "_Templates") -> Iterator[float]:
    """Yield the costs of merging the layers of a step, and of the steps of its child flows, onto
    their templates. They are JSON of any shape."""
    pending: list[Any] = [step]
    while pending:
        raw = pending.pop()
        if not isinstance(raw, dict):
            continue
        cases, retry, variables = raw.get("switch"), raw.get("retry"), raw.get("env")
        # layers are merged for the first attempt, and for one after a failure
        attempts = 2 if isinstance(retry, dict) and retry.get("patch") else 1
        for each in (raw, *(cases if isinstance(cases, list) else ())):
            if not isinstance(each, dict):
                continue
            # a case with work of its own merges nothing onto the template of its step
            name = each.get("template", raw.get("template", raw.get("name")))
            if isinstance(name, str) and not (each is not raw and _WORK & each.keys()):
                yield MERGED_VALUE * attempts * templates.count_values(name)
                if isinstance(variables, dict):
                    yield VARIABLE * len(variables) * templates.count_containers(name)
            if isinstance(flow := each.get("flow"), dict):
                for steps in (flow.get("flows"), flow.get("finally")):
                    pending += steps if isinstance(steps, list) else ()


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
