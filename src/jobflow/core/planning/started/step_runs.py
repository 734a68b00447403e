"""Decisions about steps that have begun. A step without forEach and repeat is its own run."""

from collections.abc import Iterable
from typing import cast

from jobflow.api.flow.status import ENDED_STEP_PHASES
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.decision import StepDecision
from jobflow.core.planning.observed.steps import ObservedStep
from jobflow.core.planning.started import loop as looping
from jobflow.core.planning.started.create import refused_for_good
from jobflow.core.planning.started.loop_summary import summarize
from jobflow.core.planning.started.run import decide_run, start_run
from jobflow.core.planning.target_ends import (
    end_beyond_all_known,
    ended_as_recorded,
    known_or_inferred_end,
    recorded_ends,
)
from jobflow.core.spec.approvals import is_to_be_stored


def begun_steps(ctx: PlanContext, among: Iterable[int] | None = None) -> list[StepDecision | None]:
    """Return the decision about each step that has begun, by position; None for the others. Targets
    are decided first, because a run may use their outputs. `among`: the steps to decide, in this
    order; default: all."""
    found: list[StepDecision | None] = [None] * len(ctx.steps)
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
            ctx.standing[position] = decision.condition
            if not is_to_be_stored(observed.step, decision.condition):
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
