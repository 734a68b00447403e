"""States of the targets of a step with `items: Matching`, for each of its items.

Item i of the step depends on item i of each target that has items; other targets count as a whole.
The state of an item follows from the same tables as that of a step (`spec/readiness.py`).
"""

from collections.abc import Mapping

import msgspec

from jobflow.api.flow.dependencies import Condition, Strategy
from jobflow.api.flow.status import RunCondition, StepPhase
from jobflow.api.flow.step import Step
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.observed.steps import ObservedRun, ObservedStep, has_run, has_run_once
from jobflow.core.spec.readiness import (
    TARGET_STATES,
    Requirement,
    StepEnd,
    TargetState,
    combine_states,
)
from jobflow.core.text import MAX_NAMES, join_names

_NEVER_BEGUN: Mapping[Condition, TargetState] = {
    Condition.COMPLETED: TargetState.UPSTREAM_FAILED,
    Condition.RUNNING: TargetState.UPSTREAM_FAILED,
    Condition.FAILED: TargetState.NOT_TAKEN,
    Condition.FINISHED: TargetState.NOT_TAKEN,
}
"""The state of an item of a target that failed before the item began: it neither completed nor
failed."""


class _Target(msgspec.Struct, frozen=True):
    """A target that has items."""

    step: Step
    want: Condition
    end: StepEnd | None
    runs: Mapping[int | None, RunCondition]
    """The conditions of its items, by index."""
    observed: Mapping[int | None, ObservedRun]


class ItemStates:
    """The states of the dependencies of one step, by item."""

    def __init__(self, position: int, ctx: PlanContext, *, completing: bool = False) -> None:
        """`completing`: every vcjob that exists completes, for a forecast."""
        need = ctx.layout.needs[position]
        self._ctx = ctx
        self._completing = completing
        self._need = need
        self._targets = [
            _target(ctx, target, want)
            for target, want in zip(need.targets, need.wants, strict=True)
            if target in need.matched
        ]
        whole = [place for place, t in enumerate(need.targets) if t not in need.matched]
        self._whole = {_whole_state(ctx, need, ctx.observed[position], place) for place in whole}
        self._known: dict[int, TargetState] = {}
        self._names = [ctx.graph.names[need.targets[place]] for place in whole]

    def of(self, index: int) -> TargetState:
        """Return the state of all targets for an item."""
        if (found := self._known.get(index)) is None:
            states = [self._state(target, index) for target in self._targets]
            found = combine_states(self._need.how, [*self._whole, *states])
            self._known[index] = found
        return found

    def message(self, index: int) -> str:
        """Return what an item waits for, or why it is skipped: `item 2 of train (Running)`."""
        wanted = self.of(index)
        names = []
        for target in self._targets:
            if self._state(target, index) is wanted:
                run = target.runs.get(index)
                phase = f" ({run.phase})" if run is not None and run.phase else ""
                names.append(f"item {index} of {target.step.name}{phase}")
        if wanted in self._whole:
            names += self._names
        last = "or" if self._need.how is Strategy.ANY else "and"
        return join_names(names[:MAX_NAMES], total=len(names), last=last)

    def _state(self, target: _Target, index: int) -> TargetState:
        run = target.runs.get(index)
        end = None if run is None else self._ctx.end_of(target.step, run)
        if end is None and run is not None and self._completing and run.phase != StepPhase.WAITING:
            end = StepEnd.COMPLETED
        if end is None and target.end is StepEnd.FAILED:
            return _NEVER_BEGUN[target.want]
        end = end or target.end
        if target.want is Condition.RUNNING and run is not None:
            known = target.observed.get(index)
            if known is not None and has_run_once(known, run, self._ctx.records):
                return TargetState.MET
        return TARGET_STATES[target.want][end]


def _target(ctx: PlanContext, position: int, want: Condition) -> _Target:
    shown, observed = ctx.shown_to_dependants(position), ctx.observed[position]
    return _Target(
        ctx.steps[position],
        want,
        ctx.progress.ends[position],
        {run.index: run for run in shown.runs or ()},
        {run.index: run for run in observed.runs},
    )


def _whole_state(
    ctx: PlanContext, need: Requirement, observed: ObservedStep, place: int
) -> TargetState:
    """Return the state of a target without items. With strategy `all`, it was met when the step
    began."""
    if observed.started and need.how is Strategy.ALL:
        return TargetState.MET
    target = need.targets[place]
    if place in need.to_run:
        passed = observed.stored.passed_targets or ()
        other, shown = ctx.observed[target], ctx.shown_to_dependants(target)
        if ctx.graph.names[target] in passed or has_run(other, shown, ctx.records):
            return TargetState.MET
    return need.rows[place][ctx.progress.ends[target]]
