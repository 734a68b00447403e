"""The inputs and results of a step: decisions, outputs, params, vars, and its probe."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec

from jobflow.api.flow.status import RunCondition
from jobflow.api.flow.step import Step
from jobflow.client.manifests.write_yaml import yaml_text
from jobflow.core.explain.progress import format_case
from jobflow.core.spec.items import get_items
from jobflow.core.spec.param_values import params_of
from jobflow.core.text import format_count, join_names
from jobflow.page.flow_view import SelectedStep
from jobflow.page.web.fragments import Fragment, value_text

MAX_VALUE = 2000
"""Characters of a value that are shown."""
_Value = tuple[str, str | datetime]
"""A name and its value, as text; or a time to come."""


def values(selected: SelectedStep) -> Fragment | None:
    """Return the values of a step or an item, None if it has none."""
    step, run = selected.step, selected.run
    probe = step.depends_on.probe if step.depends_on is not None else None
    probed = yaml_text(msgspec.to_builtins(probe)).strip() if probe is not None else ""
    groups = (
        ("Decisions", "", [*_decisions(selected), *_retries(step, run)]),
        ("Outputs", "", _listed(run.outputs)),
        ("Params", "of the flow", _listed(params_of(selected.flow))),
        ("Vars", "computed for each attempt", _listed(step.vars)),
        ("Probe", "", [("dependsOn.probe", probed)] if probed else []),
    )
    shown = [group for group in groups if group[-1]]
    return Fragment("step-values", "step-values.html", shown) if shown else None


def _listed(found: Mapping[str, Any] | None) -> list[_Value]:
    return [(name, value_text(value, MAX_VALUE)) for name, value in (found or {}).items()]


def _decisions(selected: SelectedStep) -> Iterator[_Value]:
    step, condition = selected.step, selected.condition
    decided = condition.decisions
    if step.when is not None:
        made = {None: "not decided yet", True: "true", False: "false"}
        yield "when", f"{made[decided.when if decided else None]}: {step.when}"
    if step.switch is not None:
        yield "switch", format_case(step, condition) or "not decided yet"
    if (each := step.fan_out) is not None:
        items = get_items(step, decided)
        yield "forEach", "not computed yet" if items is None else format_count(len(items), "item")
        if each.when is not None:
            yield "forEach.when", each.when


def _retries(step: Step, run: RunCondition) -> Iterator[_Value]:
    if step.retry is not None:
        if run.failures:
            failed = format_count(run.failures, "attempt")
            yield "retry", f"{failed} failed, limit {step.retry.limit or 0}"
        if run.disruptions:
            yield "disruptions", f"{run.disruptions}, which do not count"
    if run.next_attempt_time is not None:
        yield "next attempt", run.next_attempt_time
    if run.deadline is not None:
        yield "timeout", run.deadline
    if run.avoid_nodes:
        yield "avoids nodes", join_names(run.avoid_nodes, shown=10)
