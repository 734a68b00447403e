"""The steps of `spec.finally`: they run, in parallel, when the rest is over, whatever came of it.

They stand behind all others in the PlanContext. That the rest is over is irreversible for them, so
they begin only once the stored status says it.
"""

from __future__ import annotations

from collections.abc import Sequence

from jobflow.api.flow_status import ENDED_STEP_PHASES
from jobflow.core.planning.context import PlanContext, StepDecision


def may_begin(ctx: PlanContext) -> bool:
    """Whether every other step has ended by the stored status, and none of their vcjobs is left
    that may do anything."""
    rest = ctx.observed[: ctx.last_from]
    if any(observed.stored.phase not in ENDED_STEP_PHASES for observed in rest):
        return False
    gone = ctx.view.deleted
    return all(job.ended or job.metadata.name in gone for observed in rest for job in observed.jobs)


def wait_for_status(ctx: PlanContext, decisions: Sequence[StepDecision]) -> bool:
    """Whether the rest is over by what is decided now, and only the status has yet to say so."""
    if ctx.last_from == len(ctx.steps):
        return False
    rest = range(ctx.last_from)
    return all(decisions[i].condition.phase in ENDED_STEP_PHASES for i in rest) and any(
        ctx.observed[i].stored.phase not in ENDED_STEP_PHASES for i in rest
    )


def are_done(ctx: PlanContext, decisions: Sequence[StepDecision]) -> bool:
    """Whether there are daemons that have not ended, and nobody left who could need them."""
    left = False
    for step, decision in zip(ctx.steps[: ctx.last_from], decisions, strict=False):
        if decision.condition.phase not in ENDED_STEP_PHASES:
            if not step.daemon:
                return False
            left = True
    return left
