"""Decisions about steps that have begun, and what ends objects that run although no run needs them.

A step without forEach and repeat is its own run.
"""

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import cast

from jobflow.api import labels
from jobflow.api.flow.control import FailurePolicy
from jobflow.api.flow.status import ENDED_STEP_PHASES
from jobflow.api.volcano.job import Job
from jobflow.core.planning.actions import Action
from jobflow.core.planning.context import PlanContext, must_be_stored
from jobflow.core.planning.decision import StepDecision
from jobflow.core.planning.flow.failure_policy import policy_of
from jobflow.core.planning.lifecycle import HALTS
from jobflow.core.planning.observed.steps import ObservedStep
from jobflow.core.planning.started import loop as looping
from jobflow.core.planning.started.loop_summary import summarize
from jobflow.core.planning.started.run import decide_run, refused_for_good, start_run
from jobflow.core.planning.target_ends import (
    end_beyond_all_known,
    ended_as_recorded,
    known_or_inferred_end,
    recorded_ends,
)
from jobflow.core.planning.work.kinds import object_work_of
from jobflow.core.spec.readiness import fails_flow


def begun_steps(ctx: PlanContext, among: Iterable[int] | None = None) -> list[StepDecision | None]:
    """Return the decision about each step that has begun, by position; None for the others. Targets
    are decided first, because a run may use their outputs. `among`: the steps to decide, in this
    order; default: all."""
    found: list[StepDecision | None] = [None] * len(ctx.layout.steps)
    answered = bool(ctx.view.refusals or ctx.view.holders)
    ends, ended = recorded_ends(ctx), ctx.facts.ended
    for position in ctx.layout.order if among is None else among:
        observed = ctx.observed[position]
        stored = observed.stored
        if stored.phase in ENDED_STEP_PHASES:
            found[position] = StepDecision(stored)
            continue
        if position in ended:
            decision: StepDecision | None = ended[position]
        elif position in ends and (end := end_beyond_all_known(position, ctx)) is not None:
            decision = StepDecision(ended_as_recorded(end, observed))
        elif stored.attempts > stored.past_attempts or observed.job or observed.loops or answered:
            decision = continue_step(position, observed, ctx)
        else:
            continue
        if decision is not None:
            found[position] = decision
            ctx.progress.standing[position] = decision.condition
            if not must_be_stored(observed.step, decision.condition):
                ctx.progress.ends[position] = ctx.end_of(observed.step, decision.condition)
    return found


def begin(observed: ObservedStep, ctx: PlanContext) -> StepDecision:
    """Start a step; after a retry of the flow, the runs that are left."""
    if observed.loops:
        return summarize(looping.begin(observed, ctx))
    return cast(StepDecision, start_run(observed, ctx))


def continue_step(position: int, observed: ObservedStep, ctx: PlanContext) -> StepDecision | None:
    """Return the decision about a step that has begun, or None if it has not."""
    if observed.loops:
        loop = looping.continue_loop(observed, ctx, lambda: known_or_inferred_end(position, ctx))
        return None if loop is None else summarize(loop)
    decision = decide_run(observed, ctx, lambda: known_or_inferred_end(position, ctx))
    if decision is None:
        decision = refused_for_good(observed, ctx)
    return cast(StepDecision | None, decision)  # the condition of a step that is its own run


def ends_all_steps(ctx: PlanContext) -> bool:
    """Whether the stored status says that all running steps are aborted for good."""
    flow = ctx.flow
    if flow.status.state.reason in HALTS:
        return True
    if policy_of(flow) is not FailurePolicy.ABORT:
        return False
    return any(fails_flow(each.step, each.stored) for each in ctx.observed[: ctx.layout.last_from])


def end_left_over(ctx: PlanContext) -> Iterator[Action]:
    """Yield what ends running objects of earlier attempts and of runs that have ended, which would
    delay the end of the flow."""
    for observed in ctx.observed:
        for run in observed.each:
            has_ended = run.stored.phase in ENDED_STEP_PHASES
            for job in run.jobs:
                if (has_ended or job is not run.job) and _is_there(job, ctx):
                    yield from object_work_of(job).abort(job, None, ctx).actions


def end_unknown(ctx: PlanContext) -> Iterator[Action]:
    """Yield what ends running objects that were created after their run or the flow had ended.

    Those are objects that this version created (they have the annotation of their targets' ends)
    and that the stored status does not know: a user may have resumed one that it knows.
    """
    for observed in filter(attrgetter("jobs"), ctx.observed):
        for run, job in observed.list_unknown():
            phases = {run.stored.phase, observed.stored.phase}
            has_ended = ctx.flow.final or not phases.isdisjoint(ENDED_STEP_PHASES)
            is_ours = labels.TARGET_ENDS in (job.metadata.annotations or {})
            if has_ended and is_ours and _is_there(job, ctx):
                yield from object_work_of(job).abort(job, None, ctx).actions


def _is_there(job: Job, ctx: PlanContext) -> bool:
    meta = job.metadata
    going = meta.deletion_timestamp is not None or meta.name in ctx.view.deleted
    return not job.ended and not going
