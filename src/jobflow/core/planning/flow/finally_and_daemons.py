"""When `spec.finally` starts, and when daemons end.

The steps of `finally` start in parallel when all other steps have ended, in any way. That cannot be
undone, so they start only once the stored status says so.
"""

from collections.abc import Sequence

from jobflow.api.flow.status import ENDED_STEP_PHASES
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.decision import StepDecision


def may_begin(ctx: PlanContext) -> bool:
    """Whether every other step has ended by the stored status, and so have all their vcjobs."""
    others, gone = ctx.observed[: ctx.last_from], ctx.view.deleted
    return all(each.stored.phase in ENDED_STEP_PHASES for each in others) and all(
        job.ended or job.metadata.name in gone for each in others for job in each.jobs
    )


def wait_for_status(ctx: PlanContext, decisions: Sequence[StepDecision]) -> bool:
    """Whether the other steps end in this plan, so that `finally` waits for the status."""
    if ctx.last_from == len(ctx.steps):
        return False
    others = range(ctx.last_from)
    return all(decisions[i].condition.phase in ENDED_STEP_PHASES for i in others) and any(
        ctx.observed[i].stored.phase not in ENDED_STEP_PHASES for i in others
    )


def are_done(ctx: PlanContext, decisions: Sequence[StepDecision]) -> bool:
    """Whether only daemons have not ended, so that no step needs them any more."""
    pairs = zip(ctx.steps[: ctx.last_from], decisions, strict=False)
    lasting = [s.daemon for s, d in pairs if d.condition.phase not in ENDED_STEP_PHASES]
    return bool(lasting) and all(lasting)
