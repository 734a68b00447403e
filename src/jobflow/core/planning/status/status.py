"""Puts a flow's status together from what was decided; equal to the stored one if nothing changed.

It decides about no step: `begun` and `unstarted` did.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from jobflow.api.flow_status import FINAL_PHASES, FlowPhase, FlowState, JobFlowStatus
from jobflow.core.planning.context import PlanContext, StepDecision
from jobflow.core.planning.job_records import job_lists, job_records
from jobflow.core.planning.status.flow_state import (
    completion_time,
    flow_state,
    pod_failure_ratio,
    progress,
)
from jobflow.core.planning.status.size_limit import fitted
from jobflow.core.reasons import FlowReason
from jobflow.core.text import SHOWN, go_duration, short
from jobflow.core.timestamps import truncate_to_second
from jobflow.core.violations import Violation


def flow_status(
    ctx: PlanContext,
    decisions: Sequence[StepDecision],
    next_jobs: list[str],
    handled: list[str] | None = None,
) -> JobFlowStatus:
    """The whole status; the stored one itself if it says the same but for the duration, which time
    alone changes. `handled`: Commands."""
    stored = ctx.flow.status
    records = job_records(ctx, decisions)
    state = flow_state(ctx, decisions, records)
    course = ctx.lifecycle
    if state.phase in FINAL_PHASES:
        course = course.resumed(ctx.second)
    ended = completion_time(ctx, state)
    duration = go_duration((ended or ctx.second) - course.started)
    known = msgspec.structs.replace(stored, duration=duration)
    lists = job_lists(records, decisions)
    status = JobFlowStatus(
        state=state,
        progress=progress(decisions),
        start_time=course.started,
        completion_time=ended,
        duration=duration,
        observed_generation=ctx.flow.metadata.generation,
        conditions={
            observed.key: decision.condition
            for observed, decision in zip(ctx.observed, decisions, strict=True)
        },
        job_status_list=records or None,
        next_jobs=next_jobs or None,
        pod_failure_ratio=pod_failure_ratio(decisions),
        handled_commands=handled,
        suspended_seconds=course.suspended_seconds,
        suspended_at=course.suspended_at,
        suspended_by=course.suspended_by,
        finally_cancelled=course.finally_too,
        **lists,
    )
    found = known if status == known else fitted(status, known)
    return stored if found is known else found


def invalid_status(ctx: PlanContext, violations: Iterable[Violation]) -> JobFlowStatus:
    """Of a flow that came past a switched-off webhook: Failed, in the webhook's words."""
    words = [str(violation) for violation in violations]
    more = f"; and {len(words) - SHOWN} more" if len(words) > SHOWN else ""
    said = "; ".join(words[:SHOWN])
    now = truncate_to_second(ctx.now)
    return JobFlowStatus(
        state=FlowState(
            phase=FlowPhase.FAILED, reason=FlowReason.INVALID, message=short(said + more)
        ),
        progress=f"0/{len(ctx.steps)}",
        start_time=now,
        completion_time=now,
        duration="0s",
        observed_generation=ctx.flow.metadata.generation,
    )
