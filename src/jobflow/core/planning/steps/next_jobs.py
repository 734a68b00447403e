"""`nextJobs`: the vcjobs that come next. They are a forecast; nothing is created here."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from jobflow.api import jobflow as api
from jobflow.api.control import ForEach
from jobflow.api.flow_status import StepCondition, StepPhase
from jobflow.api.jobflow import Condition
from jobflow.core.limits import MAX_NEXT_JOBS
from jobflow.core.names import format_job_name
from jobflow.core.planning.actions import Action, CreateJob
from jobflow.core.planning.context import PlanContext, StepDecision
from jobflow.core.planning.flow.failure_policy import runs_every_item
from jobflow.core.planning.flow.parallelism import in_start_order
from jobflow.core.planning.steps.pending import PendingSteps
from jobflow.core.planning.steps.probes import ProbeState
from jobflow.core.planning.steps.target_messages import TargetStates
from jobflow.core.reasons import StepReason
from jobflow.core.spec.items import get_items
from jobflow.core.spec.readiness import TARGET_STATES, StepEnd, TargetState

_WAITING, _PARALLELISM = StepPhase.WAITING, StepReason.PARALLELISM


def next_jobs(ctx: PlanContext, decisions: Sequence[StepDecision]) -> list[str]:
    """Return the names of the vcjobs that would be created once every vcjob that exists, or is
    created now, has completed, in start order.

    A probe passes on a target that completes. A step whose `when`, `switch`, `until` or
    `forEach.from` is not evaluated yet is listed once, as if it ran.
    """
    if ctx.terminating or ctx.suspended:
        return []
    most = ctx.flow.spec.parallelism
    room = MAX_NEXT_JOBS if most is None or most < 1 else min(most, MAX_NEXT_JOBS)
    return Forecast(ctx, decisions).names()[:room]


class Forecast(PendingSteps):
    """The pass over the steps after every vcjob has completed. It decides the steps that wait for
    one that ends, and those that wait for room. All others keep their decision."""

    def __init__(self, ctx: PlanContext, decisions: Sequence[StepDecision]) -> None:
        standing = [decision.condition for decision in decisions]
        progress = replace(ctx.progress, standing=standing)
        super().__init__(replace(ctx, progress=progress), decisions)
        self._starting: list[int] = []
        """Steps that create vcjobs next."""
        self._changes = False
        """Whether any step ends, or waits for room."""
        for position, decision in enumerate(decisions):
            condition = decision.condition
            creates = decision.actions and _creates(decision.actions)
            if condition.phase == _WAITING and not creates:
                if condition.reason == _PARALLELISM:
                    self._give_room(position, condition)
            elif self.ends[position] is None:
                self._complete(position, condition)

    def names(self) -> list[str]:
        """Return the names of the vcjobs that are created next."""
        if not self._changes:
            return []
        decisions, last_from = self.run(), self.ctx.last_from
        starting = self._starting
        if not starting and None not in self.ends[:last_from]:
            last = range(last_from, len(decisions))
            starting = [p for p in last if decisions[p].condition.phase == StepPhase.WAITING]
        positions = in_start_order(self.ctx, starting)
        return [name for position in positions for name in self._names(position)]

    def _give_room(self, position: int, condition: StepCondition) -> None:
        self._changes = True
        if _has_begun(condition):
            self._starting.append(position)
        else:
            self._decide_again(position)

    def _complete(self, position: int, condition: StepCondition) -> None:
        """Let a step's vcjobs complete, those of now and those that are created now."""
        step = self.ctx.steps[position]
        self._changes = True
        if step.for_each is not None and any(True for _ in self._items(position, step.for_each)):
            self._starting.append(position)
            return
        failed = StepEnd.FORGIVEN if step.continue_on_failure else StepEnd.FAILED
        self.ends[position] = failed if _has_failed(condition) else StepEnd.COMPLETED
        self._decide_dependants_again(position)

    def _decide_again(self, position: int) -> None:
        if position < self.ctx.last_from:
            self.decisions[position] = None

    def _decide_dependants_again(self, position: int) -> None:
        for dependant in self.ctx.graph.dependants[position]:
            condition = self.ctx.standing[dependant]
            if condition.phase == StepPhase.WAITING and not _has_begun(condition):
                self._decide_again(dependant)

    def _take(self, position: int, decision: StepDecision) -> None:
        super()._take(position, decision)
        if self.ends[position] is not None:
            self._decide_dependants_again(position)

    def _ready(self, position: int, targets: TargetStates) -> StepDecision:
        observed = self.ctx.observed[position]
        if (stopped := self._stopped_by_failure(position, observed, targets)) is not None:
            return stopped
        self._starting.append(position)
        return StepDecision(observed.stored)

    def _look(self, position: int, probe: api.Probe, target: int) -> ProbeState:
        if self._met_before(position, target):
            return ProbeState(TargetState.MET)
        return ProbeState(TARGET_STATES[Condition.COMPLETED][self.ends[target]])

    def _wait_for_targets(self, position: int, targets: TargetStates) -> StepCondition:
        return self.ctx.observed[position].stored

    def _names(self, position: int) -> Iterator[str]:
        step = self.ctx.steps[position]
        if not self.ctx.layout.loops[position]:
            yield self.ctx.observed[position].key
            return
        for index in (0,) if step.for_each is None else self._items(position, step.for_each):
            yield format_job_name(self.ctx.flow.metadata.name, step.name, index=index)

    def _items(self, position: int, each: ForEach) -> Iterator[int]:
        """The indices of the items that begin next; at most MAX_NEXT_JOBS."""
        step, condition = self.ctx.steps[position], self.ctx.standing[position]
        if _has_failed(condition) and not runs_every_item(self.ctx.flow, step):
            return
        items = get_items(step, condition.decisions)
        begun = {run.index for run in condition.runs or ()}
        room = MAX_NEXT_JOBS if each.parallelism is None else each.parallelism
        for index in range(1 if items is None else len(items)):
            if room < 1:
                return
            if index not in begun:
                room -= 1
                yield index


def _creates(actions: Sequence[Action]) -> bool:
    return any(isinstance(action, CreateJob) for action in actions)


def _has_begun(condition: StepCondition) -> bool:
    return condition.attempts > condition.past_attempts


def _has_failed(condition: StepCondition) -> bool:
    return any(run.phase == StepPhase.FAILED for run in condition.runs or ())
