"""`spec.concurrency`: when a flow gets its place, and what it does without one.

The place is taken by the write of `startTime`, before anything else is created. Two flows cannot
take the last place at once, because the controller notes who takes one before it plans another flow
(`controller/places.py`).
"""

from datetime import datetime
from typing import NamedTuple

from jobflow.api.flow.control import ConcurrencyPolicy
from jobflow.api.flow.jobflow import JobFlow
from jobflow.core.planning.actions import COMMAND_AGAIN, CancelFlow
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.lifecycle import Lifecycle
from jobflow.core.planning.observed.view import View
from jobflow.core.reasons import FlowReason
from jobflow.core.spec.concurrency import get_group, get_limit, get_policy
from jobflow.core.text import join_names
from jobflow.core.timestamps import add
from jobflow.core.violations import quote


def with_place(ctx: PlanContext, lifecycle: Lifecycle) -> Lifecycle:
    """Return the lifecycle with the place that the flow gets now, or ended if it may not wait."""
    if not _is_in_line(ctx, lifecycle):
        return lifecycle
    flow, group = ctx.flow, ctx.view.group
    # the line is kept: a flow does not overtake one that waits longer
    if not group.before and len(group.holders) < get_limit(flow):
        return lifecycle.placed()
    # a flow that was retried waits in any case
    forbids = get_policy(flow) is ConcurrencyPolicy.FORBID and flow.status.queued_time is None
    if forbids and not group.moves:
        return lifecycle.forbidden(_taken(flow, ctx.view))
    return lifecycle


class Replaced(NamedTuple):
    """The flows that a flow replaces."""

    cancels: tuple[CancelFlow, ...] = ()
    again_at: datetime | None = None
    """When the next Command is sent to one that has not reacted to one."""


def replace_others(ctx: PlanContext) -> Replaced:
    """Return how a flow that replaces others cancels them, once its stored status says that it
    waits."""
    flow, group, now = ctx.flow, ctx.view.group, ctx.now
    if flow.spec.concurrency is None or get_policy(flow) is not ConcurrencyPolicy.REPLACE:
        return Replaced()
    stored = flow.status.state.reason == FlowReason.CONCURRENCY
    # while the first of those that wait can start, the flow may find a place behind it
    if not stored or group.moves or not _is_in_line(ctx, ctx.facts.lifecycle):
        return Replaced()
    # one that ends already frees its place by itself
    others = [each for each in (*group.holders, *group.before) if not each.ending]
    asked = {uid: add(at, COMMAND_AGAIN) for uid, at in ctx.view.cancels.items()}
    message = f"replaced by the JobFlow {flow.metadata.name}"
    return Replaced(
        tuple(
            CancelFlow(each.name, each.uid, message)
            for each in others
            if each.uid not in asked or asked[each.uid] <= now
        ),
        min((asked[each.uid] for each in others if each.uid in asked), default=None),
    )


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


def _taken(flow: JobFlow, view: View) -> str:
    names = join_names([member.name for member in (*view.group.holders, *view.group.before)])
    return f"no place in the concurrency group {quote(get_group(flow))} because of {names}"
