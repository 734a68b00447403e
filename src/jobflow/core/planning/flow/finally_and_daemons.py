"""When `spec.finally` starts, and when daemons end.

The steps of `finally` start in parallel when all other steps have ended, in any way. That cannot be
undone, so they start only once the stored status says so.
"""

from collections.abc import Iterator, Sequence
from functools import partial

from jobflow.api.flow.status import ENDED_STEP_PHASES, StepPhase
from jobflow.api.flow.step import Strategy
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.decision import StepDecision
from jobflow.core.planning.observed.steps import has_begun
from jobflow.core.reasons import StepReason
from jobflow.core.spec.graph import find_reachable
from jobflow.core.spec.readiness import awaits_end


def may_begin(ctx: PlanContext) -> bool:
    """Whether every other step has ended by the stored status, and so have all their vcjobs."""
    others, gone = ctx.observed[: ctx.layout.last_from], ctx.view.deleted
    return all(each.stored.phase in ENDED_STEP_PHASES for each in others) and all(
        job.ended or job.metadata.name in gone for each in others for job in each.jobs
    )


def wait_for_status(ctx: PlanContext, decisions: Sequence[StepDecision]) -> bool:
    """Whether the other steps end in this plan, so that `finally` waits for the status."""
    others = range(ctx.layout.last_from)
    return all(decisions[i].condition.phase in ENDED_STEP_PHASES for i in others) and any(
        ctx.observed[i].stored.phase not in ENDED_STEP_PHASES for i in others
    )


def first_left(ctx: PlanContext) -> int:
    """Return the position of the first step that has not ended by the stored status and may still
    do so, without daemons; the number of steps if there is none."""
    gone, never = ctx.view.deleted, ctx.layout.never_start
    for position, each in enumerate(ctx.observed):
        has_ended = each.stored.phase in ENDED_STEP_PHASES or (
            position in never and each.stored.phase == StepPhase.WAITING and not each.started
        )
        is_alive = any(not job.ended and job.metadata.name not in gone for job in each.jobs)
        if not each.step.daemon and (is_alive or not has_ended):
            return position
    return len(ctx.observed)


def ending_daemons(ctx: PlanContext, decisions: Sequence[StepDecision]) -> frozenset[int]:
    """Return the daemons that no step needs to run any more: all of them if only they have not
    ended; those whose end is awaited if everything else that is left waits for the end of daemons,
    with the daemons that need these."""
    left = [i for i in range(ctx.layout.last_from) if not _has_ended(decisions[i])]
    # nothing else is left that could need them
    if all(ctx.layout.steps[i].daemon for i in left):
        return frozenset(left)
    lasting = {i for i in left if ctx.layout.steps[i].daemon and has_begun(decisions[i].condition)}
    waiting = [i for i in left if i not in lasting]
    # an end that is being stored may let a step begin
    is_storing = any(ctx.progress.ends[i] is None for i, d in enumerate(decisions) if _has_ended(d))
    if not lasting or ctx.pause is not None or is_storing:
        return frozenset()
    awaited, graph = set[int](), ctx.layout.graph
    for position in waiting:
        # it waits for a person, a retry or a template: daemons may still be needed
        if not _waits_for_others(decisions[position]):
            return frozenset()
        # targets that have run are in `passedTargets`
        passed, names = decisions[position].condition.passed_targets or (), graph.names
        targets = (t for t in graph.targets[position] if names[t] not in passed)
        unmet = [target for target in targets if not _has_ended(decisions[target])]
        step = ctx.layout.steps[position]
        ends = {target for target in unmet if awaits_end(step, ctx.layout.steps[target])}
        begins = lasting.intersection(unmet) - ends
        if begins if ctx.layout.needs[position].how is Strategy.ANY else len(begins) == len(unmet):
            return frozenset()  # it goes on once these run
        awaited |= ends & lasting
    # by what waits, or by daemons that this needs
    may_start = [i for i in waiting if not _is_stopped(decisions[i])]
    in_use = find_reachable(partial(_used, ctx), may_start)
    ends = awaited - in_use or awaited  # all of them: an earlier version has admitted the flow
    # a daemon whose own daemon ends cannot work any more
    for position in graph.order:
        if position in lasting and not ends.isdisjoint(_used(ctx, position)):
            ends.add(position)
    return frozenset(ends)


def _has_ended(decision: StepDecision) -> bool:
    return decision.condition.phase in ENDED_STEP_PHASES


def _is_stopped(decision: StepDecision) -> bool:
    return decision.condition.reason == StepReason.STOPPED


def _waits_for_others(decision: StepDecision) -> bool:
    """Whether only other steps, or items of them, keep a step from going on."""
    condition = decision.condition
    if condition.phase == StepPhase.WAITING:
        return not condition.reason or _is_stopped(decision)
    runs = () if decision.drafts else condition.runs or ()
    return bool(runs) and all(run.phase in ENDED_STEP_PHASES for run in runs)


def _used(ctx: PlanContext, position: int) -> Iterator[int]:
    """Yield the daemons among the targets of a step that it needs to run."""
    steps = ctx.layout.steps
    for target in ctx.layout.graph.targets[position]:
        if steps[target].daemon and not awaits_end(steps[position], steps[target]):
            yield target
