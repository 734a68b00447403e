"""Child flows: how an attempt that is a flow is made, cancelled, retried and settled.

A child flow is never deleted while it runs, because its `finally` runs too. It reads a suspension
from the status of its parent.
"""

from datetime import datetime

import msgspec

from jobflow.api.flow.jobflow import JobFlow, JobTemplate
from jobflow.api.flow.status import RequestedHours, StepCondition, StepPhase
from jobflow.api.flow.step import Step
from jobflow.api.volcano.command import Action
from jobflow.api.volcano.job import Job
from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.manifests.fingerprint import digest, identity_of
from jobflow.core.manifests.job import Attempt, build_child
from jobflow.core.names import stored_condition
from jobflow.core.planning.actions import COMMAND_AGAIN, CommandFlow
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.decision import Continuation, RunDecision, wait
from jobflow.core.planning.observed.child_flow import ChildFlow
from jobflow.core.planning.observed.children import goes_on, has_to_take_over, hours_of
from jobflow.core.planning.observed.steps import FAILURES, ObservedRun
from jobflow.core.planning.work.abort import Asked
from jobflow.core.planning.work.end import AttemptEnd, ended, is_aborted, take_outputs
from jobflow.core.pods.resources import replace_hours
from jobflow.core.reasons import FlowReason, StepReason
from jobflow.core.timestamps import add


def build(
    flow: JobFlow, step: Step, template: JobTemplate | None, attempt: Attempt
) -> dict[str, object] | EvaluationFailure:
    """Return the manifest of a child flow, or the Failure of a reference without a value."""
    return build_child(flow, step, step.flow_for(attempt.case) or {}, attempt)


def longest_suffix(run: ObservedRun, ctx: PlanContext) -> int:
    """Return 0: the pods of a child flow have the names of its own jobs."""
    return 0


def resume(run: ObservedRun, ctx: PlanContext) -> RunDecision | None:
    """Return the decision that retries the child flow of a run with its parent, or None."""
    # a new child flow would run its completed steps once more
    stored = run.stored
    if run.started or not stored.job:
        return None
    child = next((job for job in run.jobs if job.metadata.name == stored.job), None)
    if child is None or ctx.view.is_going(child):
        return None
    by_hand = has_to_take_over(child, ctx.flow)
    if not (by_hand or goes_on(child, tolerated=ctx.flow.status.tolerated_retried)):
        return None
    condition = wait(run, StepReason.STARTING, f"the flow {stored.job} is being retried")
    return RunDecision(condition, drafts=(Continuation(stored.job, child.metadata.uid),))


def abort(job: Job, since: datetime | None, ctx: PlanContext) -> Asked:
    """Cancel a child flow, with a Command every COMMAND_AGAIN as long as it has no effect."""
    assert isinstance(job, ChildFlow)
    now_too = ctx.facts.lifecycle.finally_too
    action = Action.TERMINATE_NOW if now_too else Action.TERMINATE_JOB
    if job.ending and (job.finally_too or not now_too):  # it has taken the Command
        return Asked()
    command = CommandFlow(job.metadata.name, job.metadata.uid, action)
    if (again := ctx.command_again(command.key)) is not None:
        return Asked(wake_at=again)
    return Asked((command,), add(ctx.now, COMMAND_AGAIN))


def settle(run: ObservedRun, job: Job, ctx: PlanContext) -> RunDecision:
    """Return the end of a run whose child flow has ended."""
    assert isinstance(job, ChildFlow)
    state, failure, reason = job.status.state, job.failure, ""
    if job.phase in FAILURES:
        failure = None if is_aborted(run, job) else failure
        by_hand = state.reason == StepReason.CANCELLED
        reason = StepReason.CANCELLED if by_hand else StepReason.FLOW_FAILED
    end = AttemptEnd(
        reason=reason,
        detail=state.message if failure is not None else state.message or state.reason,
        failure=failure,
        within=failure if state.reason == FlowReason.STEP_FAILED else None,
        outputs=take_outputs(job.metadata.uid, lambda: job.outputs, ctx),
        hours=hours(run, job, ctx),
        flow_error=job.flow_error,
    )
    condition = ended(run, job, end, ctx)
    if condition.phase == StepPhase.COMPLETED and job.counterpart:
        origin = _origin(run, job.counterpart, ctx)
        condition = msgspec.structs.replace(condition, origin=origin)
    return RunDecision(condition)


def _origin(run: ObservedRun, name: str, ctx: PlanContext) -> str:
    """Return the identity of the child flow of this name in the flow that is reused."""
    bound, source = ctx.flow.status.reuse, ctx.source
    if source is not None:
        condition = stored_condition(source, run.step.name) or StepCondition()
        for old in condition.runs or (condition,):
            if old.flow == name:
                return identity_of(old, "", source)
    return "" if bound is None else digest([bound.uid, name])


def hours(run: ObservedRun, job: Job, ctx: PlanContext) -> RequestedHours | None:
    """Return the requested hours of a run with those of its latest child flow."""
    return replace_hours(run.stored.requested_hours, None, hours_of(job))
