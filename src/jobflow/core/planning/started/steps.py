"""Decisions about steps that have begun, and what ends objects that run although no run needs them.

A step without forEach and repeat is its own run.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from operator import attrgetter
from typing import cast

from jobflow.api import labels
from jobflow.api.flow.control import FailurePolicy
from jobflow.api.flow.status import ENDED_STEP_PHASES, HALTS
from jobflow.api.volcano.command import Action as CommandAction
from jobflow.api.volcano.job import Job
from jobflow.core.planning import target_ends
from jobflow.core.planning.actions import Action
from jobflow.core.planning.context import PlanContext, must_be_stored
from jobflow.core.planning.decision import StepDecision
from jobflow.core.planning.flow.failure_policy import policy_of
from jobflow.core.planning.flow.restart import step_again
from jobflow.core.planning.started.loop import continue_loop
from jobflow.core.planning.started.loop_summary import summarize
from jobflow.core.planning.started.run import decide_run, refused_for_good
from jobflow.core.planning.work.kinds import OBJECT_WORK
from jobflow.core.spec.readiness import fails_flow
from jobflow.core.work import work_of_object


def begun_steps(ctx: PlanContext, among: Iterable[int] | None = None) -> dict[int, StepDecision]:
    """Return the decision about each step that has begun, by position. Targets are decided first,
    because a run may use their outputs. `among`: the steps to decide, in this order; default:
    all."""
    found: dict[int, StepDecision] = {}
    answered = bool(ctx.view.refusals or ctx.view.holders)
    ended, in_status = ctx.facts.ended, ctx.layout.ends_in_status
    ends = target_ends.recorded_ends(ctx)
    for position in ctx.layout.order if among is None else among:
        observed = ctx.observed[position]
        stored = observed.stored
        if stored.phase in ENDED_STEP_PHASES:
            found[position] = StepDecision(stored)
            continue
        # decided by an earlier round of this plan: more facts do not change it
        if position in ended:
            decision: StepDecision | None = ended[position]
        elif position in ends and (end := target_ends.end_beyond_all_known(position, ctx)):
            decision = StepDecision(target_ends.ended_as_recorded(end, observed))
        elif stored.attempts > stored.past_attempts or observed.job or observed.loops or answered:
            decision = continue_step(position, ctx)
        else:
            continue
        if decision is not None:
            found[position] = decision
            ctx.progress.standing[position] = decision.condition
            if position not in in_status or not must_be_stored(observed.step, decision.condition):
                ctx.progress.ends[position] = ctx.end_of(observed.step, decision.condition)
                if ctx.layout.may_end_at_once:
                    ctx.note_unstored(position, decision.condition)
    return found


def continue_step(position: int, ctx: PlanContext) -> StepDecision | None:
    """Return the decision about a step that has begun, or None if it has not."""
    observed = ctx.observed[position]
    find_end = partial(target_ends.known_or_inferred_end, position, ctx)
    if observed.loops:
        loop = continue_loop(observed, ctx, find_end)
        order = ctx.order_for(observed)
        runs_again = order is not None and order.action == CommandAction.RETRY_STEPS
        if loop is not None and runs_again:
            loop.verdict = None
        so_far = None if loop is None else summarize(loop)
        if runs_again and (loop is None or not any(each.is_alive for each in loop.conditions)):
            ctx.progress.failed_again = True
            last = observed.stored if so_far is None else so_far.condition
            again = step_again(last, ctx.second, anew=ctx.layout.runs_steps[position])
            return StepDecision(again, urgent=True)
        return so_far
    decision = decide_run(observed, ctx, find_end) or refused_for_good(observed, ctx)
    return cast(StepDecision | None, decision)  # the condition of a step that is its own run


def end_strays(ctx: PlanContext) -> Iterator[Action]:
    """Yield what ends running objects that no run needs.

    If the stored status says that all running steps are aborted for good, those are the objects of
    earlier attempts and of runs that have ended, which would delay the end of the flow. Otherwise
    they are objects that were created after their run or the flow had ended: objects that this
    version created (they have the annotation of their targets' ends) and that the stored status
    does not know. A user may have resumed one that it knows.
    """
    strays: list[Job] = []
    flow, steps = ctx.flow, ctx.observed[: ctx.layout.last_from]
    is_halted = flow.status.state.reason in HALTS
    if policy_of(flow) is FailurePolicy.ABORT:
        is_halted = is_halted or any(fails_flow(each.step, each.stored) for each in steps)
    if is_halted and not flow.final:
        for observed in ctx.observed:
            for run in observed.each:
                has_ended = run.stored.phase in ENDED_STEP_PHASES
                strays += (job for job in run.jobs if has_ended or job is not run.job)
    else:
        for observed in filter(attrgetter("jobs"), ctx.observed):
            for run, job in observed.list_unknown():
                phases = {run.stored.phase, observed.stored.phase}
                has_ended = ctx.flow.final or not phases.isdisjoint(ENDED_STEP_PHASES)
                if has_ended and labels.TARGET_ENDS in (job.metadata.annotations or {}):
                    strays.append(job)
    for job in strays:
        if not (job.ended or ctx.view.is_going(job)):
            yield from OBJECT_WORK[work_of_object(job).kind].abort(job, None, ctx).actions
