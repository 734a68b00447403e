"""`nextJobs`: the vcjobs that come next. They are a forecast; nothing is created here."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import attrgetter

from jobflow.api.flow import probe as api
from jobflow.api.flow.control import ForEach, to_number
from jobflow.api.flow.dependencies import Condition
from jobflow.api.flow.status import StepCondition, StepPhase
from jobflow.core.limits import MAX_NEXT_JOBS
from jobflow.core.names import format_job_name
from jobflow.core.planning.actions import Action, CreateJob
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.decision import StepDecision
from jobflow.core.planning.flow.failure_policy import runs_every_item
from jobflow.core.planning.flow.parallelism import in_start_order
from jobflow.core.planning.runs.item_states import ItemStates
from jobflow.core.planning.steps.pending import PendingSteps
from jobflow.core.planning.steps.probes import ProbeState
from jobflow.core.planning.steps.target_messages import TargetStates
from jobflow.core.reasons import StepReason
from jobflow.core.spec.items import get_items
from jobflow.core.spec.readiness import TARGET_STATES, StepEnd, TargetState, is_tolerated
from jobflow.core.work import work_of

_PHASE = attrgetter("phase")
_WAITING, _PARALLELISM = StepPhase.WAITING, StepReason.PARALLELISM


def next_jobs(ctx: PlanContext, decisions: Sequence[StepDecision]) -> list[str]:
    """Return the names of the vcjobs that would be created once every vcjob that exists, or is
    created now, has completed, in start order.

    A probe passes on a target that completes. A step whose `when`, `switch`, `until` or
    `forEach.from` is not evaluated yet is listed once, as if it ran.
    """
    if ctx.terminating or ctx.pause is not None:
        return []
    most = to_number(ctx.flow.spec.parallelism)
    room = MAX_NEXT_JOBS if most is None or most < 1 else min(most, MAX_NEXT_JOBS)
    return Forecast(ctx, decisions).names()[:room]


class Forecast(PendingSteps):
    """The pass over the steps after every vcjob has completed. It decides the steps that wait for
    one that ends, and those that wait for room. All others keep their decision."""

    def __init__(self, ctx: PlanContext, decisions: Sequence[StepDecision]) -> None:
        standing = [decision.condition for decision in decisions]
        progress = replace(ctx.progress, standing=standing, ends=list(ctx.progress.ends))
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
        self.run()
        if not self._starting and None not in self.ends[: self.ctx.last_from]:
            self._begin_finally()
            self.run()
        positions = in_start_order(self.ctx, self._starting)
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
        if (end := self.ctx.end_of(step, condition)) is not None:  # an answer that is being stored
            self.ends[position] = end
            self._decide_dependants_again(position)
            return
        if step.for_each is not None and self._left(position):
            self._starting.append(position)
            self._decide_matching_again(position)
            return
        failed = StepEnd.TOLERATED if is_tolerated(step, condition) else StepEnd.FAILED
        self.ends[position] = failed if _has_failed(condition) else StepEnd.COMPLETED
        self._decide_dependants_again(position)

    def _decide_matching_again(self, position: int) -> None:
        """Decide again the steps whose items depend on those of a step that continues."""
        needs = self.ctx.layout.needs
        for dependant in self.ctx.layout.matching:
            condition = self.ctx.standing[dependant]
            if position in needs[dependant].matched and condition.phase == StepPhase.WAITING:
                if not _has_begun(condition):
                    self._decide_again(dependant)

    def _begin_finally(self) -> None:
        self._finally_may_begin = True
        for position in range(self.ctx.last_from, len(self.decisions)):
            condition = self.ctx.standing[position]
            if condition.phase == StepPhase.WAITING and not _has_begun(condition):
                self.decisions[position] = None

    def _decide_again(self, position: int) -> None:
        if position < self.ctx.last_from or self._finally_may_begin:
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
        if not work_of(step).has_objects:
            return
        if not self.ctx.layout.loops[position]:
            yield self.ctx.observed[position].key
            return
        for index in (0,) if step.for_each is None else self._items(position, step.for_each):
            yield format_job_name(self.ctx.flow.metadata.name, step.name, index=index)

    def _items(self, position: int, each: ForEach) -> Iterator[int]:
        """The indices of the items that begin next; at most MAX_NEXT_JOBS."""
        most = to_number(each.parallelism)
        room = MAX_NEXT_JOBS if most is None else most
        states = None
        if position in self.ctx.layout.matching:
            states = ItemStates(position, self.ctx, completing=True)
        for index in self._left(position):
            if room < 1:
                return
            if states is None or states.of(index) is TargetState.MET:
                room -= 1
                yield index

    def _left(self, position: int) -> Sequence[int]:
        """The indices of the items that have not begun and may still begin."""
        step, condition = self.ctx.steps[position], self.ctx.standing[position]
        if _has_failed(condition) and not runs_every_item(self.ctx.flow, step):
            return ()
        items = get_items(step, condition.decisions)
        begun = {run.index for run in condition.runs or ()}
        return [i for i in range(1 if items is None else len(items)) if i not in begun]


def _creates(actions: Sequence[Action]) -> bool:
    return any(isinstance(action, CreateJob) for action in actions)


def _has_begun(condition: StepCondition) -> bool:
    return condition.attempts > condition.past_attempts


def _has_failed(condition: StepCondition) -> bool:
    return StepPhase.FAILED in map(_PHASE, condition.runs or ())
