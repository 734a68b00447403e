"""Abort of running attempts: why, and in which order.

Aborting is level-triggered (docs/decisions/commands-and-cancel.md). The intent is stored first: the
reason and `abortTime` of the condition. Then the kind of work asks its object to end, as often as
that has no effect. When it has ended or is gone, the stored intent gives the reason.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

import msgspec

from jobflow.api.flow.control import FailurePolicy
from jobflow.api.flow.status import TIMEOUT, RunCondition
from jobflow.core.planning.actions import AbortJob, CommandFlow, DeleteJob
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.flow.failure_policy import policy_of, stored_failures
from jobflow.core.planning.observed.steps import ObservedRun
from jobflow.core.reasons import BY_HAND, DECIDES_ITEMS, StepReason, ordered
from jobflow.core.text import shorten
from jobflow.core.timestamps import ceil_to_second
from jobflow.core.work import work_of_object

_WHY: Mapping[str, str] = {
    StepReason.CANCELLED: "the flow was cancelled",
    StepReason.SUSPENDED: "the flow was suspended",
    StepReason.DAEMON_ENDED: "no other step needs it any more",
    StepReason.NOT_NEEDED: "its step completes without it",
}


class Asked(NamedTuple):
    """The actions that ask an object to end, and the time to look again."""

    actions: tuple[AbortJob | CommandFlow | DeleteJob, ...] = ()
    wake_at: datetime | None = None


def intent(run: ObservedRun, ctx: PlanContext) -> str:
    """Return the reason to abort this run, or "" if it may continue."""
    # a stored reason wins: its object may have been asked to end already
    return ending_reason(run, ctx) if run.stored.abort_time is None else run.stored.reason


def ending_reason(run: ObservedRun, ctx: PlanContext) -> str:
    """Return the reason to abort this run by the facts about the flow, or ""."""
    if ctx.orders and (order := ctx.order_for(run)) is not None:
        return BY_HAND[order.action]
    lifecycle, name = ctx.facts.lifecycle, run.step.name
    if name not in ctx.layout.finally_names:
        if lifecycle.ending_reason:
            return lifecycle.ending_reason
        # spared: what handles the failure
        if ctx.facts.aborted_for and name not in ctx.facts.spared:
            return StepReason.FAILURE_POLICY
        if name in ctx.facts.ending_daemons:
            return StepReason.DAEMON_ENDED
    elif lifecycle.finally_too:
        return StepReason.CANCELLED
    if run.index is not None and (why := _judged(run, ctx)):
        return why
    if run.job is not None and work_of_object(run.job).has_steps:
        return ""  # its steps are suspended: it reads that from the status of its parent
    return StepReason.SUSPENDED if lifecycle.aborts_what_runs else ""


def _judged(run: ObservedRun, ctx: PlanContext) -> str:
    """Return the reason to end an item because it is decided, by the stored status, how its step
    ends; or ""."""
    if not run.step.tolerates_items:
        return ""
    reason = ctx.observed[ctx.layout.graph.index[run.step.name]].stored.reason
    if reason == StepReason.NOT_NEEDED:
        return reason
    is_failing = reason in DECIDES_ITEMS and policy_of(ctx.flow) is FailurePolicy.ABORT
    return StepReason.FAILURE_POLICY if is_failing else ""


def why_in_words(why: str, run: ObservedRun, ctx: PlanContext) -> str:
    """Return the clause for the reason of an abort."""
    if why == StepReason.FAILURE_POLICY:
        judged = run.index is not None and _judged(run, ctx)
        failed = f"{run.step.name} fails" if judged else stored_failures(ctx)
        return ctx.facts.aborted_for or failed
    order = ctx.order_for(run)
    if order is not None and why == BY_HAND[order.action]:
        return f"it was {ordered(order)}"
    if why == StepReason.QUEUE_TIMEOUT:
        return f"it was longer in the queue than its queueTimeout of {run.step.queue_timeout}"
    if why != TIMEOUT:
        return _WHY.get(why, why or "it was aborted")
    lifecycle = ctx.facts.lifecycle
    if lifecycle.ending_reason == TIMEOUT and run.step.name not in ctx.layout.finally_names:
        return lifecycle.ending_message
    return f"it took longer than its timeout of {run.timeout or run.step.attempt_timeout}"


def aborted(why: str, what: str, run: ObservedRun, ctx: PlanContext) -> str:
    """Return the message of an aborted step. `what`: what happened to its vcjob."""
    return shorten(f"{why_in_words(why, run, ctx)}; {what}")


def being_aborted(
    run: ObservedRun, running: RunCondition, why: str, ctx: PlanContext
) -> RunCondition:
    """Return the condition of a run whose object is asked to end. `running`: without that."""
    condition = msgspec.structs.replace(
        running,
        reason=why,
        message=shorten(f"is being aborted: {why_in_words(why, run, ctx)}"),
        # rounded up: a vcjob is never deleted before ABORT_PATIENCE is over
        abort_time=run.stored.abort_time or ceil_to_second(ctx.now),
    )
    return run.stored if condition == run.stored else condition
