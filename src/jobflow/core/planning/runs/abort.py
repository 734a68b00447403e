"""Abort of running vcjobs, also if Volcano does not react.

Aborting is level-triggered (docs/decisions/commands-and-cancel.md). The intent is stored first: the
reason and `abortTime` of the condition. Then Volcano gets an AbortJob Command, again every AGAIN
without effect, and after PATIENCE the vcjob is deleted; a child flow gets TerminateJob and is not
deleted. When it has ended or is gone, the stored intent gives the reason. The facts about the flow
decide whether to abort; the steps of `finally` are aborted only by a suspension with AbortJob and
by TerminateNow.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from operator import attrgetter
from typing import NamedTuple

import msgspec

from jobflow.api import labels
from jobflow.api.flow.control import FailurePolicy
from jobflow.api.flow.status import ENDED_STEP_PHASES, TIMEOUT, RunCondition
from jobflow.api.volcano.command import Action
from jobflow.api.volcano.job import Job, JobPhase
from jobflow.core.planning.actions import AbortJob, CommandFlow, DeleteJob
from jobflow.core.planning.children import COMMAND_AGAIN, ChildFlow
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.decision import RunDecision
from jobflow.core.planning.flow.failure_policy import policy_of, stored_failures
from jobflow.core.planning.lifecycle import HALTS
from jobflow.core.planning.observed import ObservedRun
from jobflow.core.reasons import StepReason
from jobflow.core.spec.readiness import fails_flow
from jobflow.core.text import shorten
from jobflow.core.timestamps import add, ceil_to_second

AGAIN = timedelta(seconds=10)
"""Time until another Command for a vcjob that is not Aborting."""
PATIENCE = timedelta(seconds=60)
"""Time until a vcjob that has not ended is deleted."""

_WHY: Mapping[str, str] = {
    StepReason.CANCELLED: "the flow was cancelled",
    StepReason.SUSPENDED: "the flow was suspended",
    StepReason.DAEMON_ENDED: "no other step needs it any more",
}


def brings_to_end(ctx: PlanContext) -> bool:
    """Whether the stored status says that all running steps are aborted for good."""
    flow = ctx.flow
    if flow.status.state.reason in HALTS:
        return True
    if policy_of(flow) is not FailurePolicy.ABORT:
        return False
    return any(fails_flow(each.step, each.stored) for each in ctx.observed[: ctx.last_from])


def intent(run: ObservedRun, ctx: PlanContext) -> str:
    """Return the reason to abort this run, or "" if it may continue. A stored reason wins."""
    return ending_reason(run, ctx) if run.stored.abort_time is None else run.stored.reason


def ending_reason(run: ObservedRun, ctx: PlanContext) -> str:
    """Return the reason to abort this run by the facts about the flow, or ""."""
    lifecycle, name = ctx.lifecycle, run.step.name
    if name not in ctx.layout.finally_names:
        if lifecycle.ending_reason:
            return lifecycle.ending_reason
        if ctx.facts.aborted_for and name not in ctx.facts.spared:
            return StepReason.FAILURE_POLICY
        if name in ctx.facts.ending_daemons:
            return StepReason.DAEMON_ENDED
    elif lifecycle.finally_too:
        return StepReason.CANCELLED
    if isinstance(run.job, ChildFlow):
        return ""  # it reads the suspension from the status of its parent
    return StepReason.SUSPENDED if lifecycle.aborts_what_runs else ""


def why_in_words(why: str, run: ObservedRun, ctx: PlanContext) -> str:
    """Return the clause for the reason of an abort."""
    if why == StepReason.FAILURE_POLICY:
        return ctx.facts.aborted_for or stored_failures(ctx)
    if why != TIMEOUT:
        return _WHY.get(why, why or "it was aborted")
    if ctx.lifecycle.ending_reason == TIMEOUT and run.step.name not in ctx.layout.finally_names:
        return ctx.lifecycle.ending_message
    return f"it took longer than its timeout of {run.step.timeout}"


def aborted(why: str, what: str, run: ObservedRun, ctx: PlanContext) -> str:
    """Return the message of an aborted step. `what`: what happened to its vcjob."""
    return shorten(f"{why_in_words(why, run, ctx)}; {what}")


def abort(
    run: ObservedRun, job: Job, running: RunCondition, why: str, ctx: PlanContext
) -> RunDecision:
    """Return the decision about a vcjob that has not ended. `running`: its run's condition."""
    stored = run.stored
    since = stored.abort_time
    condition = msgspec.structs.replace(
        running,
        reason=why,
        message=shorten(f"is being aborted: {why_in_words(why, run, ctx)}"),
        abort_time=since or ceil_to_second(ctx.now),
    )
    condition = stored if condition == stored else condition
    if since is None:
        return RunDecision(condition, urgent=True)
    if isinstance(job, ChildFlow):
        asks_child = cancel_child(job, ctx)
        return RunDecision(condition, asks_child.actions, wake_at=asks_child.wake_at)
    if job.metadata.deletion_timestamp is not None:
        return RunDecision(condition)
    deadline = add(since, PATIENCE)
    if ctx.now >= deadline:
        return RunDecision(condition, (DeleteJob.of(job),))
    if job.phase == JobPhase.ABORTING:
        return RunDecision(condition, wake_at=deadline)
    asked = ctx.view.aborts.get(job.metadata.uid)
    if asked is not None and ctx.now < add(asked, AGAIN):
        return RunDecision(condition, wake_at=min(add(asked, AGAIN), deadline))
    asks = AbortJob(job.metadata.name, job.metadata.uid)
    return RunDecision(condition, (asks,), wake_at=min(add(ctx.now, AGAIN), deadline))


class _CommandAndTime(NamedTuple):
    actions: tuple[CommandFlow, ...] = ()
    wake_at: datetime | None = None


def cancel_child(child: ChildFlow, ctx: PlanContext) -> _CommandAndTime:
    """Return the Command that cancels a child flow, again every COMMAND_AGAIN without effect. The
    child is not deleted, because its `finally` runs, unless that of its parent is cancelled."""
    now_too = ctx.lifecycle.finally_too
    action = Action.TERMINATE_NOW if now_too else Action.TERMINATE_JOB
    if child.ending and (child.finally_too or not now_too):
        return _CommandAndTime()
    command = CommandFlow(child.metadata.name, child.metadata.uid, action)
    asked = ctx.view.aborts.get(command.key)
    if asked is not None and ctx.now < add(asked, COMMAND_AGAIN):
        return _CommandAndTime(wake_at=add(asked, COMMAND_AGAIN))
    return _CommandAndTime((command,), add(ctx.now, COMMAND_AGAIN))


def _end_stray(job: Job, ctx: PlanContext) -> Iterator[DeleteJob | CommandFlow]:
    if isinstance(job, ChildFlow):
        yield from cancel_child(job, ctx).actions
    else:
        yield DeleteJob.of(job)


def left_over(ctx: PlanContext) -> Iterator[DeleteJob | CommandFlow]:
    """Yield deletes of running vcjobs of earlier attempts and of runs that have ended, which would
    delay the end of the flow. Child flows are cancelled."""
    for observed in ctx.observed:
        for run in observed.each:
            has_ended = run.stored.phase in ENDED_STEP_PHASES
            for job in run.jobs:
                if (has_ended or job is not run.job) and _is_there(job, ctx):
                    yield from _end_stray(job, ctx)


def unheard_of(ctx: PlanContext) -> Iterator[DeleteJob | CommandFlow]:
    """Yield deletes of running vcjobs that were created after their run or the flow had ended.
    Child flows are cancelled.

    Those are vcjobs that this version created (they have the annotation of their targets' ends) and
    that the stored status does not know: a user may have resumed one that it knows.
    """
    for observed in filter(attrgetter("jobs"), ctx.observed):
        for run, job in observed.list_unheard_of():
            phases = {run.stored.phase, observed.stored.phase}
            has_ended = ctx.flow.final or not phases.isdisjoint(ENDED_STEP_PHASES)
            is_ours = labels.TARGET_ENDS in (job.metadata.annotations or {})
            if has_ended and is_ours and _is_there(job, ctx):
                yield from _end_stray(job, ctx)


def _is_there(job: Job, ctx: PlanContext) -> bool:
    meta = job.metadata
    going = meta.deletion_timestamp is not None or meta.name in ctx.view.deleted
    return not job.ended and not going
