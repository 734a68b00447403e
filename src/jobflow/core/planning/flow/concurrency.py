"""`spec.concurrency`: when a flow gets its place, and what it does without one.

The place is taken by the write of `startTime`, before anything else is created. Two flows cannot
take the last place at once, because the controller notes who takes one before it plans another flow
(`controller/places.py`).
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from jobflow.api.flow.control import ConcurrencyPolicy
from jobflow.api.flow.jobflow import JobFlow
from jobflow.core.planning.actions import CancelFlow
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.lifecycle import Lifecycle
from jobflow.core.planning.view import View
from jobflow.core.reasons import FlowReason
from jobflow.core.spec.concurrency import Member, get_group, get_limit, get_policy
from jobflow.core.text import join_names
from jobflow.core.timestamps import add
from jobflow.core.violations import quote

AGAIN = timedelta(seconds=10)
"""Time until another Command for a flow that is not ending."""


def with_place(ctx: PlanContext, lifecycle: Lifecycle) -> Lifecycle:
    """Return the lifecycle with the place that the flow gets now, or ended if it is forbidden to
    wait for one."""
    if not _is_in_line(ctx, lifecycle):
        return lifecycle
    flow, group = ctx.flow, ctx.view.group
    if not group.before and len(group.holders) < get_limit(flow):
        return lifecycle.placed()
    if _forbids(flow) and not group.moves:
        return lifecycle.forbidden(_taken(flow, ctx.view))
    return lifecycle


def cancels(ctx: PlanContext) -> Iterator[CancelFlow]:
    """Yield the Commands by which a flow that replaces others cancels them, once its stored status
    says that it waits."""
    for member in _replaced(ctx):
        if not _is_asked(ctx, member):
            message = f"replaced by the JobFlow {ctx.flow.metadata.name}"
            yield CancelFlow(member.name, member.uid, message)


def cancels_again_at(ctx: PlanContext) -> datetime | None:
    """Return when the next Command is sent to a flow that has not reacted to one."""
    asked = (ctx.view.cancels.get(member.uid) for member in _replaced(ctx))
    return min((add(at, AGAIN) for at in asked if at is not None), default=None)


def refuses_retry(flow: JobFlow, view: View) -> str:
    """Return why a failed flow cannot be retried now, or "": it may not wait for a place, and a
    flow that has succeeded because there was none could not be retried later."""
    if flow.spec.concurrency is None or get_policy(flow) is not ConcurrencyPolicy.FORBID:
        return ""
    group = view.group
    if not group.before and len(group.holders) < get_limit(flow):
        return ""
    return f"there is {_taken(flow, view)}, and its policy is Forbid"


def _is_in_line(ctx: PlanContext, lifecycle: Lifecycle) -> bool:
    passed_over = lifecycle.suspended_at is not None or lifecycle.ending_reason
    return bool(lifecycle.waits) and not passed_over and not ctx.terminating


def _forbids(flow: JobFlow) -> bool:
    """Whether the flow ends instead of waiting. A flow that was retried waits in any case."""
    return get_policy(flow) is ConcurrencyPolicy.FORBID and flow.status.queued_time is None


def _taken(flow: JobFlow, view: View) -> str:
    names = join_names([member.name for member in (*view.group.holders, *view.group.before)])
    return f"no place in the concurrency group {quote(get_group(flow))} because of {names}"


def _replaced(ctx: PlanContext) -> Iterator[Member]:
    """Yield the flows to cancel. While the first of those that wait can start, the flow waits too:
    it may find a place behind it."""
    flow, group = ctx.flow, ctx.view.group
    if flow.spec.concurrency is None or get_policy(flow) is not ConcurrencyPolicy.REPLACE:
        return
    stored = flow.status.state.reason == FlowReason.CONCURRENCY
    if stored and _is_in_line(ctx, ctx.lifecycle) and not group.moves:
        yield from (each for each in (*group.holders, *group.before) if not each.ending)


def _is_asked(ctx: PlanContext, member: Member) -> bool:
    at = ctx.view.cancels.get(member.uid)
    return at is not None and ctx.now < add(at, AGAIN)
