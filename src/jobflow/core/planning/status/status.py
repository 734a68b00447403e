"""The status of a flow, put together from the decisions about its steps."""

from collections.abc import Iterable, Sequence

import msgspec

from jobflow.api.flow_status import FINAL_PHASES, FlowPhase, FlowState, JobFlowStatus
from jobflow.core.planning.context import PlanContext, StepDecision
from jobflow.core.planning.job_records import job_lists, job_records
from jobflow.core.planning.status.flow_state import flow_state, pod_failure_ratio
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
    lifecycle = ctx.lifecycle
    if state.phase in FINAL_PHASES:
        lifecycle = lifecycle.resumed(ctx.second)
    ended = stored.completion_time or ctx.second if state.phase in FINAL_PHASES else None
    conditions = [decision.condition for decision in decisions]
    duration = format_go_duration((ended or ctx.second) - lifecycle.started)
    known = msgspec.structs.replace(stored, duration=duration)
    lists = job_lists(records, decisions)
    status = JobFlowStatus(
        state=state,
        progress=format_progress(conditions),
        start_time=lifecycle.started,
        completion_time=ended,
        duration=duration,
        observed_generation=ctx.flow.metadata.generation,
        conditions=dict(zip(ctx.layout.keys, conditions, strict=True)),
        job_status_list=records or None,
        next_jobs=next_jobs or None,
        pod_failure_ratio=pod_failure_ratio(decisions),
        handled_commands=handled,
        suspended_seconds=lifecycle.suspended_seconds,
        suspended_at=lifecycle.suspended_at,
        suspended_by=lifecycle.suspended_by,
        finally_cancelled=lifecycle.finally_too,
        **lists,
    )
    found = known if status == known else fitted(status, known)
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
