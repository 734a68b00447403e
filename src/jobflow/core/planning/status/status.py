"""The status of a flow, put together from the decisions about its steps."""

from collections.abc import Iterable, Sequence

import msgspec

from jobflow.api.flow.status import (
    FINAL_PHASES,
    FlowPhase,
    FlowState,
    JobFlowStatus,
)
from jobflow.core.planning.context import PlanContext, with_job_as_child
from jobflow.core.planning.decision import StepDecision
from jobflow.core.planning.flow.volume_claims import created_claims
from jobflow.core.planning.observed.children import has_tolerated_children
from jobflow.core.planning.status.flow_state import flow_state, pod_failure_ratio
from jobflow.core.planning.status.job_records import job_lists, job_records
from jobflow.core.planning.status.outputs import end_with_outputs
from jobflow.core.planning.status.size_limit import fitted
from jobflow.core.reasons import FlowReason
from jobflow.core.text import MAX_NAMES, format_go_duration, format_progress, shorten
from jobflow.core.violations import Violation


def flow_status(
    ctx: PlanContext,
    decisions: Sequence[StepDecision],
    next_jobs: list[str],
    handled: list[str] | None = None,
) -> JobFlowStatus:
    """Return the whole status; the stored object itself if only the duration would change.
    `handled`: UIDs of Commands."""
    stored = ctx.flow.status
    records = job_records(ctx, decisions)
    state = flow_state(ctx, decisions, records)
    lifecycle, outputs = ctx.lifecycle, stored.outputs
    if state.phase in FINAL_PHASES:
        unfinished = FlowState(phase=stored.state.phase or FlowPhase.PENDING)
        state, outputs = end_with_outputs(ctx, state) or (unfinished, None)
    if state.phase in FINAL_PHASES:
        lifecycle = lifecycle.resumed(ctx.second)
    ended = stored.completion_time or ctx.second if state.phase in FINAL_PHASES else None
    conditions = [decision.condition for decision in decisions]
    tolerated = stored.tolerated_in_children
    if ctx.layout.has_children:
        conditions = [
            with_job_as_child(condition, step, ctx)
            for condition, step in zip(conditions, ctx.steps, strict=True)
        ]
        tolerated = tolerated or has_tolerated_children(conditions, ctx.view.jobs)
    has_started = not lifecycle.waits
    ran = (ended or ctx.second) - lifecycle.started
    duration = format_go_duration(ran) if has_started else ""
    known = msgspec.structs.replace(stored, duration=duration)
    lists = job_lists(records, decisions, ctx)
    status = JobFlowStatus(
        state=state,
        progress=format_progress(conditions),
        queued_time=stored.queued_time,
        start_time=lifecycle.started if has_started else None,
        completion_time=ended,
        duration=duration,
        observed_generation=ctx.flow.metadata.generation,
        conditions=dict(zip(ctx.layout.keys, conditions, strict=True)),
        outputs=outputs,
        job_status_list=records or None,
        next_jobs=next_jobs or None,
        pod_failure_ratio=pod_failure_ratio(decisions),
        volume_claims=created_claims(ctx),
        handled_commands=handled,
        suspended_seconds=lifecycle.suspended_seconds,
        suspended_at=lifecycle.suspended_at,
        suspended_by=lifecycle.suspended_by,
        retries=stored.retries,
        tolerated_retried=stored.tolerated_retried,
        tolerated_in_children=tolerated,
        finally_cancelled=lifecycle.finally_too,
        **lists,
    )
    found = known if status == known else fitted(status, known, lambda: ctx.layout.named_failures)
    return stored if found is known else found


def invalid_status(ctx: PlanContext, violations: Iterable[Violation]) -> JobFlowStatus:
    """Return the Failed status of a flow that admission would have refused, with its message."""
    words = [str(violation) for violation in violations]
    more = f"; and {len(words) - MAX_NAMES} more" if len(words) > MAX_NAMES else ""
    message = "; ".join(words[:MAX_NAMES]) + more
    return JobFlowStatus(
        state=FlowState(
            phase=FlowPhase.FAILED, reason=FlowReason.INVALID, message=shorten(message)
        ),
        progress=f"0/{len(ctx.steps)}",
        start_time=ctx.second,
        completion_time=ctx.second,
        duration="0s",
        observed_generation=ctx.flow.metadata.generation,
    )
