"""Objects that run although no run needs them: each is ended as its kind of work says."""

from collections.abc import Iterator
from operator import attrgetter

from jobflow.api import labels
from jobflow.api.flow.control import FailurePolicy
from jobflow.api.flow.status import ENDED_STEP_PHASES
from jobflow.api.volcano.job import Job
from jobflow.core.planning.actions import Action
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.flow.failure_policy import policy_of
from jobflow.core.planning.lifecycle import HALTS
from jobflow.core.planning.work.kinds import object_work_of
from jobflow.core.spec.readiness import fails_flow


def ends_all_steps(ctx: PlanContext) -> bool:
    """Whether the stored status says that all running steps are aborted for good."""
    flow = ctx.flow
    if flow.status.state.reason in HALTS:
        return True
    if policy_of(flow) is not FailurePolicy.ABORT:
        return False
    return any(fails_flow(each.step, each.stored) for each in ctx.observed[: ctx.last_from])


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
