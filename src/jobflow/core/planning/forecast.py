"""`nextJobs`: the vcjobs that come next if every vcjob completes. Nothing is created here.

It is the pass over the steps of every plan (`pending/step.py`), once more, over those alone that
depend on what completes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter

from jobflow.api.flow import dependencies as api
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
from jobflow.core.planning.observed.steps import has_begun
from jobflow.core.planning.pending.probes import ProbeState
from jobflow.core.planning.pending.step import PendingSteps
from jobflow.core.planning.started.matched_items import ItemStates
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
    standing = [decision.condition for decision in decisions]
    progress = replace(ctx.progress, standing=standing, ends=list(ctx.progress.ends))
    ctx = replace(ctx, progress=progress)
    positions = in_start_order(ctx, _steps_that_start(ctx, decisions))
    return [name for position in positions for name in _names(ctx, position)][:room]


@dataclass(slots=True)
class _Completing:
    """The course of a flow in which every vcjob completes."""

    ctx: PlanContext
    starting: list[int] = field(default_factory=list)
    """Steps that create vcjobs next."""
    evaluates: bool = False

    def look(self, position: int, probe: api.Probe, target: int) -> ProbeState:
        return ProbeState(TARGET_STATES[Condition.COMPLETED][self.ctx.progress.ends[target]])

    def begin(self, position: int) -> StepDecision:
        self.starting.append(position)
        return StepDecision(self.ctx.observed[position].stored)


def _steps_that_start(ctx: PlanContext, decisions: Sequence[StepDecision]) -> list[int]:
    """Return the steps that create vcjobs after every vcjob has completed: those that then begin,
    those that wait for room, and those with items left."""
    course, ends = _Completing(ctx), ctx.progress.ends
    freed: list[int] = []
    continued: list[int] = []
    ended: list[int] = []
    for position, decision in enumerate(decisions):
        condition = decision.condition
        if condition.phase == _WAITING and not (decision.actions and _creates(decision.actions)):
            if condition.reason == _PARALLELISM:
                (course.starting if has_begun(condition) else freed).append(position)
        elif ends[position] is None:
            ends[position] = end = _end_of(ctx, position, condition)
            (continued if end is None else ended).append(position)
    course.starting += continued
    if not (course.starting or freed or ended):
        return []
    steps = PendingSteps(ctx, decisions, course)
    changed = [*freed, *_waiting_for_items_of(ctx, continued)]
    steps.run_again(changed, dependants_of=ended)
    if not course.starting and None not in ends[: ctx.layout.last_from]:
        steps.finally_may_begin = True
        last = range(ctx.layout.last_from, len(decisions))
        steps.run_again(position for position in last if _may_begin(ctx, position))
    return course.starting


def _end_of(ctx: PlanContext, position: int, condition: StepCondition) -> StepEnd | None:
    """Return how a step ends when its vcjobs complete, those of now and those that are created now;
    None if it has further items."""
    step = ctx.layout.steps[position]
    if (end := ctx.end_of(step, condition)) is not None:  # an answer that is being stored
        return end
    if step.for_each is not None and _left(ctx, position):
        return None
    if not _has_failed(condition):
        return StepEnd.COMPLETED
    return StepEnd.TOLERATED if is_tolerated(step, condition) else StepEnd.FAILED


def _waiting_for_items_of(ctx: PlanContext, continued: Sequence[int]) -> Iterator[int]:
    """Yield the steps whose items depend on those of steps that continue."""
    for position in ctx.layout.matching if continued else ():
        matched = ctx.layout.needs[position].matched
        if not matched.isdisjoint(continued) and _may_begin(ctx, position):
            yield position


def _may_begin(ctx: PlanContext, position: int) -> bool:
    condition = ctx.progress.standing[position]
    return condition.phase == _WAITING and not has_begun(condition)


def _names(ctx: PlanContext, position: int) -> Iterator[str]:
    step = ctx.layout.steps[position]
    if not work_of(step).has_objects:
        return
    if not ctx.layout.loops[position]:
        yield ctx.observed[position].key
        return
    for index in (0,) if step.for_each is None else _items(ctx, position, step.for_each):
        yield format_job_name(ctx.flow.metadata.name, step.name, index=index)


def _items(ctx: PlanContext, position: int, each: ForEach) -> Iterator[int]:
    """Yield the indices of the items that begin next; at most MAX_NEXT_JOBS."""
    most = to_number(each.parallelism)
    room = MAX_NEXT_JOBS if most is None else most
    states = None
    if position in ctx.layout.matching:
        states = ItemStates(position, ctx, completing=True)
    for index in _left(ctx, position):
        if room < 1:
            return
        if states is None or states.of(index) is TargetState.MET:
            room -= 1
            yield index


def _left(ctx: PlanContext, position: int) -> Sequence[int]:
    """Return the indices of the items that have not begun and may still begin."""
    step, condition = ctx.layout.steps[position], ctx.progress.standing[position]
    if _has_failed(condition) and not runs_every_item(ctx.flow, step):
        return ()
    items = get_items(step, condition.decisions)
    begun = {run.index for run in condition.runs or ()}
    return [i for i in range(1 if items is None else len(items)) if i not in begun]


def _creates(actions: Sequence[Action]) -> bool:
    return any(isinstance(action, CreateJob) for action in actions)


def _has_failed(condition: StepCondition) -> bool:
    return StepPhase.FAILED in map(_PHASE, condition.runs or ())
