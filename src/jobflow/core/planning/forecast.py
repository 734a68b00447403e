"""`nextJobs`: the vcjobs that come next if every vcjob completes. Nothing is created here."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from operator import attrgetter

from jobflow.api.flow.status import RunCondition, StepPhase
from jobflow.api.flow.step import Condition, Probe
from jobflow.core.limits import MAX_NEXT_JOBS
from jobflow.core.names import format_run_name
from jobflow.core.planning.actions import CreateJob
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.decision import StepDecision
from jobflow.core.planning.observed.steps import ObservedStep, has_begun
from jobflow.core.planning.pending.probes import ProbeState
from jobflow.core.planning.pending.step import PendingSteps
from jobflow.core.planning.started.matched_items import ItemStates
from jobflow.core.planning.started.tolerance import starts_no_more
from jobflow.core.reasons import StepReason
from jobflow.core.spec.items import get_items, get_parallelism
from jobflow.core.spec.readiness import TARGET_STATES, StepEnd, TargetState, is_tolerated
from jobflow.core.work import work_of


def next_jobs(ctx: PlanContext, decisions: Sequence[StepDecision]) -> list[str]:
    """Return the names of the vcjobs that would be created once every vcjob that exists, or is
    created now, has completed, in start order.

    A probe passes on a target that completes. A step whose `when`, `switch`, `until` or
    `forEach.from` is not evaluated yet is listed once, as if it ran.
    """
    if ctx.terminating or ctx.pause is not None:
        return []
    most = get_parallelism(ctx.flow)
    # the list is for people: a wide flow would fill its status
    room = MAX_NEXT_JOBS if most is None or most < 1 else min(most, MAX_NEXT_JOBS)
    standing = list(map(attrgetter("condition"), decisions))
    # the pass notes ends that have not happened
    progress = replace(ctx.progress, standing=standing, ends=list(ctx.progress.ends))
    steps = _Completing(replace(ctx, progress=progress), dict(enumerate(decisions)))
    steps.complete(decisions)
    names = (name for position in sorted(steps.starting) for name in steps.names(position))
    return list(islice(names, room))


class _Completing(PendingSteps):
    """The pass of every plan once more, over the steps alone that depend on what completes."""

    evaluates = False
    starting: list[int]
    """Steps that create vcjobs next."""

    def look(self, position: int, probe: Probe, target: int) -> ProbeState:
        return ProbeState(TARGET_STATES[Condition.COMPLETED][self.ends[target]])

    def begin(self, observed: ObservedStep) -> StepDecision:
        self.starting.append(self.layout.graph.index[observed.step.name])
        return StepDecision(observed.stored)

    def complete(self, decisions: Sequence[StepDecision]) -> None:
        """Note the steps that create vcjobs once every vcjob has completed: those that then begin,
        that wait for room, or that have items left."""
        ctx, ends, self.starting = self.ctx, self.ends, []
        freed: list[int] = []
        continued: list[int] = []
        ended: list[int] = []
        for position, decision in enumerate(decisions):
            condition, actions = decision.condition, decision.actions
            creates = actions and any(isinstance(action, CreateJob) for action in actions)
            if condition.phase == StepPhase.WAITING and not creates:
                if condition.reason == StepReason.PARALLELISM:
                    (self.starting if has_begun(condition) else freed).append(position)
            elif ends[position] is None:
                step = self.layout.steps[position]
                end = ctx.end_of(step, condition)  # an answer that is being stored
                if end is None and not (step.for_each is not None and self._left(position)):
                    failed = any(run.phase == StepPhase.FAILED for run in condition.runs or ())
                    failed = failed and not step.tolerates_items
                    tolerated = StepEnd.TOLERATED if is_tolerated(step, condition) else None
                    end = (tolerated or StepEnd.FAILED) if failed else StepEnd.COMPLETED
                ends[position] = end
                (continued if end is None else ended).append(position)
        self.starting += continued
        if not (self.starting or freed or ended):
            return
        for position in self.layout.matching if continued else ():
            matched = self.layout.needs[position].matched
            if not matched.isdisjoint(continued) and self._may_begin(position):
                freed.append(position)  # its items depend on those of steps that continue
        self.run_again(freed, dependants_of=ended)
        last_from = self.layout.last_from
        # `finally` comes next only if nothing else does
        if not self.starting and None not in ends[:last_from]:
            self.finally_may_begin = True
            last = range(last_from, len(decisions))
            self.run_again(position for position in last if self._may_begin(position))

    def names(self, position: int) -> Iterator[str]:
        """Yield the names of the vcjobs that a step creates next."""
        step, key = self.layout.steps[position], self.ctx.observed[position].key
        if not work_of(step).has_objects:
            return
        if step.for_each is None:
            yield key if step.repeat is None else f"{key}-0"
            return
        most = get_parallelism(self.ctx.flow, step)
        room = MAX_NEXT_JOBS if most is None else most
        states = None
        if position in self.layout.matching:
            states = ItemStates(position, self.ctx, completing=True)
        for index in self._left(position):
            if room < 1:
                return
            if states is None or states.of(index) is TargetState.MET:
                room -= 1
                yield format_run_name(key, index)

    def _may_begin(self, position: int) -> bool:
        condition = self.ctx.progress.standing[position]
        return condition.phase == StepPhase.WAITING and not has_begun(condition)

    def _left(self, position: int) -> Sequence[int]:
        """Return the indices of the items that have not begun and may still begin."""
        step, condition = self.layout.steps[position], self.ctx.progress.standing[position]
        runs: Sequence[RunCondition] = condition.runs or ()
        if starts_no_more(self.ctx.flow, step, condition):
            return ()
        items = get_items(step, condition.decisions)
        begun = {run.index for run in runs}
        return [i for i in range(1 if items is None else len(items)) if i not in begun]
