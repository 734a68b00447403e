"""Which vcjobs come next: `nextJobs`. It foretells; it decides nothing and makes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jobflow.api.control import ForEach
from jobflow.api.flow_status import ENDED_STEP_PHASES, StepPhase
from jobflow.api.jobflow import Condition
from jobflow.core.limits import MAX_NEXT_JOBS
from jobflow.core.names import format_job_name
from jobflow.core.planning.actions import CreateJob
from jobflow.core.planning.context import PlanContext, StepDecision
from jobflow.core.planning.flow.failure_policy import FailureStop, runs_every_item
from jobflow.core.planning.observed import has_run
from jobflow.core.reasons import StepReason
from jobflow.core.spec.items import get_items
from jobflow.core.spec.readiness import (
    SKIPS,
    TARGET_STATES,
    StepEnd,
    TargetState,
    combine_states,
    get_condition_for,
    get_end,
    get_probe,
)


def next_jobs(ctx: PlanContext, decisions: Sequence[StepDecision]) -> list[str]:
    """Names of the vcjobs that would be made once every vcjob that is there now, or is about to be
    made, has completed, in the order of `spec.flows`, those of `finally` behind them.

    A probe counts as passed by a target that completes; what `when`, `switch`, `until` and
    `forEach.from` will come to nobody knows, so such steps are told as if they ran, once.
    """
    if ctx.terminating or ctx.suspended:
        return []
    most = ctx.flow.spec.parallelism
    return Forecast(ctx, decisions).next()[: MAX_NEXT_JOBS if most is None or most < 1 else most][
        :MAX_NEXT_JOBS
    ]


_WAITING = StepPhase.WAITING.value


def _makes(decision: StepDecision) -> bool:
    return any(isinstance(action, CreateJob) for action in decision.actions)


class Forecast:
    """The flow as it will be when its vcjobs have completed."""

    def __init__(self, ctx: PlanContext, decisions: Sequence[StepDecision]) -> None:
        self._ctx = ctx
        self._conditions = [decision.condition for decision in decisions]
        self._ends: dict[int, StepEnd] = {}
        """Of steps that have not ended yet."""
        self._touched = bytearray(len(decisions))
        """Which steps depend on one of these."""
        self._goes_on: list[int] = []
        """Steps with runs that are still to come."""
        self._decisions = decisions
        self._stopping = FailureStop(ctx, decisions)

    def next(self) -> list[str]:
        """The names of what would start."""
        self._let_complete()
        if not self._ends and not self._goes_on and not self._held_back():
            return []
        found = sorted([*self._goes_on, *self._starting()])
        if not found and self._rest_is_over():
            found = [p for p in range(self._ctx.last_from, len(self._conditions)) if self._new(p)]
        return [name for position in found for name in self._names(position)]

    def _let_complete(self) -> None:
        """The steps that have a vcjob which has not ended, or are about to get one."""
        steps = self._ctx.steps
        for position, decision in enumerate(self._decisions):
            phase = decision.condition.phase
            if phase in ENDED_STEP_PHASES:
                continue
            if phase == _WAITING and not (decision.actions and _makes(decision)):
                continue
            items = steps[position].for_each
            if items is not None and next(self._more(position, items), None) is not None:
                self._goes_on.append(position)
            else:
                self._end(position, self._end_of_runs(position))

    def _end_of_runs(self, position: int) -> StepEnd:
        """How a step ends when all its vcjobs complete: an item may have failed before."""
        if not self._has_failed(position):
            return StepEnd.COMPLETED
        forgiven = self._ctx.steps[position].continue_on_failure
        return StepEnd.FORGIVEN if forgiven else StepEnd.FAILED

    def _has_failed(self, position: int) -> bool:
        runs = self._conditions[position].runs or ()
        return any(run.phase == StepPhase.FAILED for run in runs)

    def _end(self, position: int, how: StepEnd) -> None:
        self._ends[position] = how
        for dependant in self._ctx.graph.dependants[position]:
            self._touched[dependant] = True

    def _starting(self) -> Iterator[int]:
        """By one walk in the order of the dependencies: what a step waits for is known before."""
        stopping, last_from = self._stopping, self._ctx.last_from
        holds_up, touched = stopping.holds_up, self._touched
        parallelism = StepReason.PARALLELISM if self._held_back() else None
        for position in self._ctx.graph.order:
            if position >= last_from:
                continue
            condition = self._conditions[position]
            if holds_up:
                began = position in self._ends or not self._new(position)
                met = self._met(position) if began else None
                stopping.note(position, condition.phase, met)
            if condition.reason == parallelism or touched[position]:
                if self._starts(position):
                    yield position

    def _starts(self, position: int) -> bool:
        """Whether a step begins then; one that is skipped is noted."""
        if position in self._ends or not self._new(position):
            return False
        if self._conditions[position].reason == StepReason.PARALLELISM:
            return True
        need = self._ctx.layout.needs[position]
        reach = combine_states(
            need.how, [self._stands(position, target) for target in need.targets]
        )
        if reach in SKIPS:
            self._end(position, SKIPS[reach])
        if reach is not TargetState.MET:
            return False
        stopping = self._stopping
        return not stopping.failed or stopping.admits(position, self._met(position))

    def _met(self, position: int) -> list[int]:
        targets = self._ctx.graph.targets[position]
        return [target for target in targets if self._stands(position, target) is TargetState.MET]

    def _held_back(self) -> bool:
        if self._ctx.flow.spec.parallelism is None:
            return False
        parallelism = StepReason.PARALLELISM
        return any(condition.reason == parallelism for condition in self._conditions)

    def _new(self, position: int) -> bool:
        """Whether a step waits to begin, and could."""
        condition = self._conditions[position]
        return condition.phase == StepPhase.WAITING and condition.reason != StepReason.BLOCKED

    def _rest_is_over(self) -> bool:
        if self._ctx.last_from == len(self._conditions):
            return False
        return all(
            position in self._ends or condition.phase in ENDED_STEP_PHASES
            for position, condition in enumerate(self._conditions[: self._ctx.last_from])
        )

    def _stands(self, position: int, target: int) -> TargetState:
        """How a target will stand to a step."""
        ctx, condition = self._ctx, self._conditions[target]
        passed = self._conditions[position].passed_targets
        if passed is not None and ctx.graph.names[target] in passed:
            return TargetState.MET
        step, other = ctx.steps[position], ctx.steps[target]
        want = get_condition_for(step, other) if get_probe(step) is None else Condition.COMPLETED
        if want is Condition.RUNNING and has_run(ctx.observed[target], condition, ctx.records):
            return TargetState.MET
        end = self._ends.get(target)
        return TARGET_STATES[want][end if end is not None else get_end(other, condition)]

    # ------------------------------------------------------------------------- names

    def _names(self, position: int) -> Iterator[str]:
        step = self._ctx.steps[position]
        if not self._ctx.layout.loops[position]:
            yield self._ctx.observed[position].key
            return
        indices = iter((0,)) if step.for_each is None else self._more(position, step.for_each)
        for index in indices:
            yield format_job_name(self._ctx.flow.metadata.name, step.name, index=index)

    def _more(self, position: int, each: ForEach) -> Iterator[int]:
        """The items of a step that are to begin next, by index; at most MOST."""
        step, condition = self._ctx.steps[position], self._conditions[position]
        if self._has_failed(position) and not runs_every_item(self._ctx.flow, step):
            return
        items = get_items(step, condition.decisions)
        count = 1 if items is None else len(items)
        begun = {run.index for run in condition.runs or ()}
        left = MAX_NEXT_JOBS if each.parallelism is None else each.parallelism
        for index in range(count):
            if left < 1:
                return
            if index not in begun:
                left -= 1
                yield index
