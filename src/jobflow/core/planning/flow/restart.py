"""Retry of a failed flow: the status from which it continues.

Failed, UpstreamFailed and Stopped steps go back to Waiting, and so does every Skipped step behind
one of them, without its decisions; `finally` runs again. A daemon that was ended with its flow goes
back too if a step behind it does, because that needs its service. Completed steps, items and
repeats stay. `pastAttempts` is the number of attempts before. Nothing is started here.
"""

from datetime import datetime
from typing import Any

import msgspec

from jobflow.api.flow_status import (
    FlowPhase,
    FlowState,
    JobFlowStatus,
    RunCondition,
    StepCondition,
    StepPhase,
)
from jobflow.api.job import JobPhase
from jobflow.api.jobflow import JobFlow
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.observed import ObservedStep
from jobflow.core.planning.view import View
from jobflow.core.reasons import StepReason
from jobflow.core.text import format_progress
from jobflow.core.timestamps import truncate_to_second


def restarted(flow: JobFlow, now: datetime, handled: list[str] | None) -> JobFlowStatus:
    """Return the status from which a Failed flow continues. `handled`: UIDs of Commands."""
    ctx = PlanContext.of(flow, View(), now)
    back = _back(ctx)
    changed = _behind(ctx, back)
    conditions = {observed.key: observed.stored for observed in ctx.observed}
    for position in back:
        observed = ctx.observed[position]
        fresh = position >= ctx.last_from or _runs_all_again(observed, position in changed)
        conditions[observed.key] = _back_to_waiting(ctx, position, again=fresh)
    stored = flow.status
    begun = any(record.state != JobPhase.PENDING for record in stored.job_status_list or ())
    return msgspec.structs.replace(
        stored,
        state=FlowState(phase=FlowPhase.RUNNING if begun else FlowPhase.PENDING),
        progress=format_progress(conditions.values()),
        start_time=truncate_to_second(now),
        completion_time=None,
        duration="",
        observed_generation=flow.metadata.generation,
        conditions=conditions,
        next_jobs=None,
        suspended_seconds=None,
        suspended_at=None,
        suspended_by="",
        finally_cancelled=False,
        handled_commands=handled,
    )


def _back(ctx: PlanContext) -> set[int]:
    conditions, graph = [observed.stored for observed in ctx.observed], ctx.graph
    back = {p for p, stored in enumerate(conditions) if _failed(stored) or p >= ctx.last_from}
    for position in graph.order:
        if conditions[position].phase == StepPhase.SKIPPED:
            if not back.isdisjoint(graph.targets[position]):
                back.add(position)
    return back | _services(ctx, back)


def _failed(stored: StepCondition) -> bool:
    if stored.phase == StepPhase.SKIPPED:
        return stored.reason != StepReason.NOT_TAKEN
    return stored.phase != StepPhase.COMPLETED


def _services(ctx: PlanContext, back: set[int]) -> set[int]:
    """Return the daemons that ended with the flow and that a step going back depends on."""
    graph, ahead = ctx.graph, set[int]()
    for position in reversed(graph.order):
        if position in back or position in ahead:
            ahead.update(graph.targets[position])
    return {p for p in ahead if ctx.observed[p].stored.reason == StepReason.DAEMON_ENDED}


def _behind(ctx: PlanContext, back: set[int]) -> set[int]:
    found: set[int] = set()
    for position in ctx.graph.order:
        if any(target in back or target in found for target in ctx.graph.targets[position]):
            found.add(position)
    return found


def _runs_all_again(observed: ObservedStep, changed: bool) -> bool:
    """Whether all runs of a loop run again: its items may differ now, or all of its repeats have
    completed and `until` did not hold."""
    if (each := observed.step.for_each) is not None:
        return each.from_ is not None and changed
    return all(run.phase == StepPhase.COMPLETED for run in observed.stored.runs or ())


def _back_to_waiting(ctx: PlanContext, position: int, *, again: bool) -> StepCondition:
    stored = ctx.observed[position].stored
    runs = [
        RunCondition(index=run.index, **_kept_fields(run))
        if again or run.phase != StepPhase.COMPLETED
        else msgspec.structs.replace(run, past_attempts=run.attempts)
        for run in stored.runs or ()
    ]
    kept = _kept_fields(stored)
    return StepCondition(last_transition_time=ctx.second, runs=runs or None, **kept)


def _kept_fields(stored: RunCondition) -> dict[str, Any]:
    return {
        "phase": StepPhase.WAITING,
        "message": "runs again, because the flow was retried",
        "job": stored.job,
        "attempts": stored.attempts,
        "past_attempts": stored.attempts,
        "requested_hours": stored.requested_hours,
    }
