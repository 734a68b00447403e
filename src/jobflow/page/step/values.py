"""The inputs and results of a step: decisions, outputs, params, vars, and its probe."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from jobflow.api.flow.status import RunCondition
from jobflow.api.flow.step import Step
from jobflow.client.manifests.write_yaml import write_yaml
from jobflow.core.explain.progress import format_case
from jobflow.core.spec.items import get_items
from jobflow.core.spec.param_values import params_of
from jobflow.core.text import format_count, join_names
from jobflow.page.flow_view import SelectedStep
from jobflow.page.web.fragments import Fragment

MAX_VALUE = 2000
"""Characters of a value that are shown."""


@dataclass(frozen=True, slots=True)
class Value:
    """A name and its value, as text; or a time to come."""

    name: str
    text: str
    time: datetime | None = None


@dataclass(frozen=True, slots=True)
class ValueGroup:
    """Values of one kind."""

    title: str
    values: tuple[Value, ...]
    note: str = ""


def values(selected: SelectedStep) -> Fragment | None:
    """Return the values of a step or an item, None if it has none."""
    step, run = selected.step, selected.run
    groups = (
        ValueGroup("Decisions", tuple(_decisions(selected))),
        ValueGroup("Outputs", _listed(run.outputs or {})),
        ValueGroup("Params", _listed(params_of(selected.flow)), "of the flow"),
        ValueGroup("Vars", _listed(step.vars or {}), "computed for each attempt"),
        ValueGroup("Probe", tuple(_probe(step))),
    )
    shown = tuple(group for group in groups if group.values)
    return Fragment("step-values", "step-values.html", shown) if shown else None


def _listed(found: Mapping[str, Any]) -> tuple[Value, ...]:
    return tuple(Value(name, value_text(value, MAX_VALUE)) for name, value in found.items())


def value_text(value: Any, most: int) -> str:
    """Return a text as it is, and another value as JSON; at most so many characters."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= most else f"{text[:most]}…"


def _decisions(selected: SelectedStep) -> Iterator[Value]:
    step, condition, run = selected.step, selected.condition, selected.run
    decided = condition.decisions
    if step.when is not None:
        made = {None: "not decided yet", True: "true", False: "false"}
        yield Value("when", f"{made[decided.when if decided else None]}: {step.when}")
    if step.switch is not None:
        yield Value("switch", format_case(step, condition) or "not decided yet")
    if step.fan_out is not None:
        items = get_items(step, decided)
        count = "not computed yet" if items is None else format_count(len(items), "item")
        yield Value("forEach", count)
    yield from _retries(step, run)


def _retries(step: Step, run: RunCondition) -> Iterator[Value]:
    if step.retry is not None:
        if run.failures:
            counted = f"{format_count(run.failures, 'attempt')} failed"
            yield Value("retry", f"{counted}, limit {step.retry.limit or 0}")
        if run.disruptions:
            yield Value("disruptions", f"{run.disruptions}, which do not count")
    if run.next_attempt_time is not None:
        yield Value("next attempt", "", run.next_attempt_time)
    if run.deadline is not None:
        yield Value("timeout", "", run.deadline)
    if run.avoid_nodes:
        yield Value("avoids nodes", join_names(run.avoid_nodes, shown=10))


def _probe(step: Step) -> Iterator[Value]:
    probe = step.depends_on.probe if step.depends_on is not None else None
    if probe is not None:
        text = io.StringIO()
        write_yaml([msgspec.to_builtins(probe)], text)
        yield Value("dependsOn.probe", text.getvalue().strip())
