"""How vcjobs that are not to go on are brought to their end, whether Volcano listens or not.

The theory (DESIGN §2, "Aborting is level-triggered"). First the intent is written: the reason and
`abortTime` of the step's condition. Once it is stored, Volcano is asked to abort the vcjob, again
every AGAIN while that shows no effect, and after PATIENCE the vcjob is deleted. When it has ended,
or is gone, the recorded intent gives the reason. Whether to abort at all is decided by what holds
for the flow as a whole; `finally` is aborted by a suspension and by TerminateNow alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta

import msgspec

from jobflow.api import labels
from jobflow.api.control import FailurePolicy
from jobflow.api.flow_status import ENDED_STEP_PHASES, TIMEOUT, RunCondition
from jobflow.api.job import Job, JobPhase
from jobflow.core.planning.actions import AbortJob, Action, DeleteJob
from jobflow.core.planning.context import PlanContext, RunDecision
from jobflow.core.planning.flow.failure_policy import policy_of, stored_failures
from jobflow.core.planning.lifecycle import HALTS
from jobflow.core.planning.observed import ObservedRun, ObservedStep
from jobflow.core.reasons import StepReason
from jobflow.core.spec.readiness import breaks
from jobflow.core.text import short
from jobflow.core.timestamps import add, ceil_to_second

AGAIN = timedelta(seconds=10)
"""Until a vcjob that is not Aborting is asked again."""
PATIENCE = timedelta(seconds=60)
"""Until a vcjob that has not ended is deleted."""

_WHY: Mapping[str, str] = {
    StepReason.CANCELLED: "the flow was cancelled",
    StepReason.SUSPENDED: "the flow was suspended",
    StepReason.DAEMON_ENDED: "all other steps are over",
}


def brings_to_end(ctx: PlanContext) -> bool:
    """Whether the stored status says that all that runs is to be aborted for good, as what is
    irreversible needs it."""
    flow = ctx.flow
    if flow.status.state.reason in HALTS:
        return True
    if policy_of(flow) is not FailurePolicy.ABORT:
        return False
    return any(breaks(each.step, each.stored) for each in ctx.observed[: ctx.last_from])


def intent(run: ObservedRun, ctx: PlanContext) -> str:
    """Why a run is not to go on, nor its vcjob; the recorded reason first; empty: it is."""
    return halted(run, ctx) if run.stored.abort_time is None else run.stored.reason


def halted(run: ObservedRun, ctx: PlanContext) -> str:
    """The same from what holds for the flow as a whole, whatever is recorded of the run."""
    course, name = ctx.lifecycle, run.step.name
    if name not in ctx.layout.finally_names:
        if course.ending_reason:
            return course.ending_reason
        if ctx.facts.aborted_for and name not in ctx.facts.spared:
            return StepReason.FAILURE_POLICY
        if ctx.facts.daemons_done and run.step.daemon:
            return StepReason.DAEMON_ENDED
    elif course.finally_too:
        return StepReason.CANCELLED
    return StepReason.SUSPENDED if course.aborts_what_runs else ""


def why_in_words(why: str, run: ObservedRun, ctx: PlanContext) -> str:
    """The intent in words."""
    if why == StepReason.FAILURE_POLICY:
        return ctx.facts.aborted_for or stored_failures(ctx)
    if why != TIMEOUT:
        return _WHY.get(why, why or "it was to be aborted")
    if ctx.lifecycle.ending_reason == TIMEOUT and run.step.name not in ctx.layout.finally_names:
        return ctx.lifecycle.ending_message
    return f"it took longer than its timeout of {run.step.timeout}"


def aborted(why: str, what: str, run: ObservedRun, ctx: PlanContext) -> str:
    """The message of a step that was aborted."""
    return short(f"{why_in_words(why, run, ctx)}; {what}")


def abort(
    run: ObservedRun, job: Job, running: RunCondition, why: str, ctx: PlanContext
) -> RunDecision:
    """What to do about a vcjob that is there and has not ended. `running`: its run's condition."""
    memory = run.stored
    since = memory.abort_time
    condition = msgspec.structs.replace(
        running,
        reason=why,
        message=short(f"is being aborted: {why_in_words(why, run, ctx)}"),
        abort_time=since or ceil_to_second(ctx.now),
    )
    condition = memory if condition == memory else condition
    if since is None:
        return RunDecision(condition, urgent=True)
    if job.metadata.deletion_timestamp is not None:
        return RunDecision(condition)
    deadline = add(since, PATIENCE)
    if ctx.now >= deadline:
        return RunDecision(condition, _delete(job))
    if job.phase == JobPhase.ABORTING:
        return RunDecision(condition, wake_at=deadline)
    asked = ctx.view.aborts.get(job.metadata.uid)
    if asked is not None and ctx.now < add(asked, AGAIN):
        return RunDecision(condition, wake_at=min(add(asked, AGAIN), deadline))
    action: Action = AbortJob(job.metadata.name, job.metadata.uid)
    return RunDecision(condition, action, wake_at=min(add(ctx.now, AGAIN), deadline))


def left_over(ctx: PlanContext) -> Iterator[DeleteJob]:
    """Vcjobs of a flow brought to its end that do not matter to any step, and that it would wait
    for: of an earlier attempt, or of a run that has ended. How they end changes nothing."""
    for observed in ctx.observed:
        for run in observed.each:
            over = run.stored.phase in ENDED_STEP_PHASES
            for job in run.jobs:
                if (over or job is not run.job) and _is_there(job, ctx):
                    yield _delete(job)


def unheard_of(ctx: PlanContext) -> Iterator[DeleteJob]:
    """Vcjobs whose create landed after their run, or the whole flow, was over.

    Deleted is only a vcjob that this version made for this very flow (it carries the annotation of
    its target's ends, and the View holds no vcjobs of other flows), that has not ended, and that
    the stored status does not know: one that it knows may have been resumed by somebody.
    """
    for observed in ctx.observed:
        for run in observed.each:
            for job in run.unheard_of:
                over = ctx.flow.final or _is_over(run, observed)
                made = labels.TARGET_ENDS in (job.metadata.annotations or {})
                if over and made and _is_there(job, ctx):
                    yield _delete(job)


def _is_over(run: ObservedRun, observed: ObservedStep) -> bool:
    """Whether the stored status says that the run has ended, or its step."""
    phases = (run.stored.phase, observed.stored.phase)
    return any(phase in ENDED_STEP_PHASES for phase in phases)


def _is_there(job: Job, ctx: PlanContext) -> bool:
    meta = job.metadata
    going = meta.deletion_timestamp is not None or meta.name in ctx.view.deleted
    return not job.ended and not going


def _delete(job: Job) -> DeleteJob:
    return DeleteJob(job.metadata.name, job.metadata.uid)
