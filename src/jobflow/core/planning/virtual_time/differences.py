"""The runs of a flow that is reused, and why a run of the new flow does not have their results."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from jobflow.api.flow.control import ReusePolicy
from jobflow.api.flow.jobflow import JobFlow, JobTemplate
from jobflow.api.flow.status import StepPhase
from jobflow.api.flow.step import Strategy
from jobflow.core.json_values import maps
from jobflow.core.manifests.fingerprint import digest, find_differences
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.observed.steps import ObservedRun, ObservedStep
from jobflow.core.planning.observed.view import View
from jobflow.core.planning.reuse import are_reused
from jobflow.core.planning.started.run import compared
from jobflow.core.reasons import StepReason
from jobflow.core.text import format_count, join_names, printable, shorten
from jobflow.core.work import has_own_job, may_run_steps

_SHOWN = 2
"""Differences in a line; others are counted."""
_LONGEST = 60
"""Characters of a value."""
_CONTAINER = re.compile(r"tasks\[[^\]]*\]\.template\.spec\.containers\[[^\]]*\]\.")
_TAKEN = frozenset({StepReason.REUSED, StepReason.NOT_TAKEN})
_CANCELLED = frozenset({StepReason.CANCELLED, StepReason.CANCELLED_BY_USER})
_NEVER_REACHED = frozenset({StepReason.UPSTREAM_FAILED, StepReason.STOPPED, StepReason.BLOCKED})


class FormerFlow:
    """A flow that is reused, as its last plan knew it."""

    def __init__(self, flow: JobFlow, templates: Sequence[JobTemplate], now: datetime) -> None:
        self.name = flow.metadata.name
        view = View(templates={each.metadata.name: each for each in templates})
        self.ctx = PlanContext.of(flow, view, now)
        self._by_item: dict[str, dict[str, list[ObservedRun]]] = {}

    def step(self, name: str) -> ObservedStep | None:
        position = self.ctx.layout.graph.index.get(name)
        is_step = position is not None and position < self.ctx.layout.last_from
        return self.ctx.observed[position] if is_step and position is not None else None

    def run_for(self, run: ObservedRun, taken: frozenset[str]) -> ObservedRun | None:
        """Return the former run of a run: one with an equal item, else that with its index."""
        step = self.step(run.step.name)
        if step is None or not step.loops:
            return step
        equal: Sequence[ObservedRun] = ()
        if run.step.for_each is not None and step.step.for_each is not None:
            equal = self._items_of(step).get(digest(run.item), ())
        with_results = (each for each in equal if has_result(each) and each.job_name not in taken)
        if (found := next(with_results, None)) is not None or equal:
            return found or equal[0]
        return next((each for each in step.each if each.index == run.index), None)

    def _items_of(self, step: ObservedStep) -> dict[str, list[ObservedRun]]:
        """Return the runs of a step by their items."""
        if (found := self._by_item.get(step.step.name)) is None:
            found = self._by_item[step.step.name] = {}
            for run in step.each:
                found.setdefault(digest(run.item), []).append(run)
        return found


def has_result(run: ObservedRun) -> bool:
    return run.stored.phase == StepPhase.COMPLETED and bool(run.stored.fingerprint)


def targets_again(
    position: int, index: int | None, ctx: PlanContext, old: FormerFlow | None
) -> str:
    """Return which targets of a run are not reused, or ""."""
    need, names = ctx.layout.needs[position], ctx.layout.graph.names
    again, asked = list[str](), list[str]()
    for target in need.targets:
        observed = ctx.observed[target]
        if observed.step.daemon and observed.step.reuse_policy == ReusePolicy.IF_UNCHANGED:
            continue
        if target in need.matched and index is not None:
            runs = [run for run in observed.runs if run.index == index]
            is_taken = any(run.stored.origin or run.stored.reason in _TAKEN for run in runs)
        else:
            is_taken = are_reused([target], ctx)
        if not is_taken:
            (asked if observed.work.asks else again).append(names[target])
    if again:
        return f"its target{_s(again)} {join_names(again)} run{_s(again, of_verb=True)} again"
    if asked:
        is_are = "is" if len(asked) == 1 else "are"
        return f"its target{_s(asked)} {join_names(asked)} {is_are} asked for again"
    # their ends are not in the fingerprint
    if need.how is Strategy.ANY and old is not None:
        for target in need.targets:
            if not are_reused([target], ctx, as_before=old.ctx.flow):
                return f"its target {names[target]} has ended otherwise than in {old.name}"
    return ""


def _s(names: Sequence[str], *, of_verb: bool = False) -> str:
    return "s" if (len(names) == 1) is of_verb else ""


def no_result(
    run: ObservedRun, former: ObservedRun | None, ctx: PlanContext, old: FormerFlow
) -> str:
    """Return why the former run of a run, if there is one, has no result."""
    if old.step(run.step.name) is None:
        return f"{old.name} has no such step"
    if may_run_steps(run.step):
        return f"{old.name} has no child flow for it that has the same before it"
    if former is None:
        return f"{old.name} has no such item"
    phase, stored = former.stored.phase, former.stored
    if phase == StepPhase.FAILED and stored.reason in _CANCELLED:
        return f"it was cancelled in {old.name}"
    if phase == StepPhase.FAILED and stored.attempts:
        return f"it failed in {old.name}{_since_failure(run, former, ctx, old)}"
    if phase == StepPhase.COMPLETED:
        lost = "an earlier version of JobFlow made it, or there was no room in the status"
        return f"{old.name} has no fingerprint of it: {lost}"
    if phase == StepPhase.SKIPPED and stored.reason not in _NEVER_REACHED:
        return f"it was skipped in {old.name}"
    return f"{old.name} never reached it"


def _since_failure(run: ObservedRun, former: ObservedRun, ctx: PlanContext, old: FormerFlow) -> str:
    """Return the end of a sentence: what has changed since a run failed."""
    before, after = compared(former, old.ctx), compared(run, ctx)
    if before is None or after is None:
        return ""
    if digest(before) != digest(after):
        return f"; {_describe_change(before, after)}"
    # no fingerprint says which template it had
    is_known = has_own_job(former.step, former.case)
    unless = "" if is_known else ", unless its template has changed since"
    return f", and would run the same again{unless}"


def difference(
    run: ObservedRun, former: ObservedRun, ctx: PlanContext, old: FormerFlow, taken: frozenset[str]
) -> str:
    """Return what differs between a run and its former run, which has a result."""
    before, after = compared(former, old.ctx), compared(run, ctx)
    if before is None or after is None or digest(before) != former.stored.fingerprint:
        return f"its template or JobFlow has changed since {old.name}"
    if digest(after) == former.stored.fingerprint:
        if former.job_name in taken:
            return f"another item has the result of {old.name}"
        if former.stored.outputs is None:
            return f"its outputs were not read in {old.name}"
        return "there is no room for its outputs"
    return _describe_change(before, after)


def _describe_change(before: Sequence[Any], after: Sequence[Any]) -> str:
    """Return what differs between two runs, as `started.run.compared` has them."""
    if differences := [*find_differences(before[0], after[0])]:
        return _describe_all(differences, after[0])
    if names := [path for path, _, _ in find_differences(before[1][0], after[1][0])]:
        targets = "target" if len(names) == 1 else "targets"
        return f"it is made of something else: its {targets} {join_names(names)}"
    return "the end of its repeat differs"


def _describe_all(differences: Sequence[tuple[str, Any, Any]], spec: Mapping[str, Any]) -> str:
    """Return `args[1] differs: 0.01 → 0.1` for differences as `find_differences` has them. `spec`:
    the new one; in its only container, paths begin with a field of that."""
    pods = [(task.get("template") or {}).get("spec") or {} for task in maps(spec.get("tasks"))]
    is_single = [len(maps(pod.get("containers"))) for pod in pods] == [1]
    parts = [_describe(*each, is_single=is_single) for each in differences[:_SHOWN]]
    if (more := len(differences) - _SHOWN) > 0:
        parts.append(format_count(more, "more difference"))
    return "; ".join(parts)


def _describe(path: str, old: Any, new: Any, *, is_single: bool) -> str:
    path = _CONTAINER.sub("", path) if is_single else path.replace(".template.spec", "")
    if isinstance(old, str) and isinstance(new, str) and "\n" in old + new:
        olds, news = old.splitlines(), new.splitlines()
        pairs = zip(olds, news, strict=False)
        line = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(olds), len(news)))
        path = f"{path} line {line + 1}"
        old, new = ("".join(side[line : line + 1]).strip() for side in (olds, news))
    return f"{printable(path)} differs: {_value(old)} → {_value(new)}"


def _value(value: Any) -> str:
    if value is None:
        return "not set"
    text = value if isinstance(value, str) and value else msgspec.json.encode(value).decode()
    return shorten(printable(text), _LONGEST)
