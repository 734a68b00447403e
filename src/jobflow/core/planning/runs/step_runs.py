"""Decisions about steps that have begun. A step without forEach and repeat is its own run."""

from __future__ import annotations

from typing import cast

from jobflow.api.flow_status import ENDED_STEP_PHASES
from jobflow.core.planning.context import PlanContext, StepDecision
from jobflow.core.planning.observed import ObservedStep
from jobflow.core.planning.runs import loop as looping
from jobflow.core.planning.runs.create import first_attempt, refused_for_good
from jobflow.core.planning.runs.loop_summary import summarize
from jobflow.core.planning.runs.run import decide_run, next_attempt_when_due
from jobflow.core.planning.target_ends import (
    as_told,
    is_all_that_is_known,
    named,
    told,
    told_or_guessed,
)


def begun_steps(ctx: PlanContext) -> list[StepDecision | None]:
    """Return the decision about each step that has begun, by position; None for the others. Targets
    are decided first, because a run may use their outputs."""
    found: list[StepDecision | None] = [None] * len(ctx.steps)
    answered = bool(ctx.view.refusals or ctx.view.holders)
    named_ends = named(ctx)
    for position in ctx.layout.order:
        if (ended := ctx.facts.ended.get(position)) is not None:
            found[position] = ended
            ctx.standing[position] = ended.condition
            continue
        observed = ctx.observed[position]
        stored = observed.stored
        if stored.phase in ENDED_STEP_PHASES:
            found[position] = StepDecision(stored)
            continue
        end = told(position, ctx) if position in named_ends else None
        if end is not None and is_all_that_is_known(end, observed):
            ctx.standing[position] = as_told(end, observed)
            found[position] = StepDecision(ctx.standing[position])
            continue
        known = stored.attempts > stored.past_attempts or observed.job is not None
        if not (known or answered or observed.loops):
            continue
        decision = _carried_on(position, observed, ctx)
        if decision is not None:
            found[position] = decision
            ctx.standing[position] = decision.condition
    return found


def begin(observed: ObservedStep, ctx: PlanContext) -> StepDecision:
    """Start a step; after a retry of the flow, the runs that are left."""
    if observed.loops:
        return summarize(looping.begin(observed, ctx))
    start = next_attempt_when_due if observed.attempts else first_attempt
    return cast(StepDecision, start(observed, ctx))


def _carried_on(position: int, observed: ObservedStep, ctx: PlanContext) -> StepDecision | None:
    if observed.loops:
        loop = looping.continue_loop(observed, ctx, lambda: told_or_guessed(position, ctx))
        return None if loop is None else summarize(loop)
    decision = decide_run(observed, ctx, lambda: told_or_guessed(position, ctx))
    if decision is None:
        decision = refused_for_good(observed, ctx)
    return cast(StepDecision | None, decision)  # the condition of a step that is its own run
