"""Retry of a failed flow: the status from which it continues.

Failed, UpstreamFailed and Stopped steps go back to Waiting, and so does every Skipped step behind
one of them, without its decisions; `finally` runs again. A daemon that was ended with its flow goes
back too if a step behind it does, because that needs its service. Completed steps, items and
repeats stay. `pastAttempts` is the number of attempts before. Volume claims stay too; one that was
deleted since is created again before it is needed. A flow of a concurrency group waits for a place
again. Nothing is started here.
"""

from datetime import datetime
from typing import Any, TypeVar

import msgspec

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import (
    FlowPhase,
    FlowState,
    JobFlowStatus,
    RunCondition,
    StepCondition,
    StepPhase,
)
from jobflow.api.volcano.job import JobPhase
from jobflow.core.planning.children import ChildFlow
from jobflow.core.planning.context import PlanContext, with_job_as_child
from jobflow.core.planning.view import View
from jobflow.core.pods.resources import replace_hours
from jobflow.core.reasons import StepReason
from jobflow.core.spec.expressions import reads_of_text
from jobflow.core.spec.items import takes_items
from jobflow.core.text import format_progress
from jobflow.core.timestamps import truncate_to_second

C = TypeVar("C", bound=RunCondition)


def restarted(flow: JobFlow, view: View, now: datetime, handled: list[str] | None) -> JobFlowStatus:
    """Return the status from which a Failed flow continues. `handled`: UIDs of Commands."""
    ctx = PlanContext.of(flow, View(), now)
    back = _back(ctx)
    changed = _behind(ctx, back)
    conditions = {observed.key: observed.stored for observed in ctx.observed}
    again = set[int]()
    """Steps of which all runs run again."""
    for position in ctx.graph.order:
        if position in back and _runs_all_again(ctx, position, back, again):
            again.add(position)
    for position in back:
        observed = ctx.observed[position]
        fresh = position >= ctx.last_from or position in again
        is_behind = position in changed or position >= ctx.last_from
        condition = _back_to_waiting(ctx, position, again=fresh)
        if ctx.layout.runs_flow[position]:
            condition = _with_children(condition, view, continued=not is_behind)
        conditions[observed.key] = condition
    conditions = {
        key: with_job_as_child(condition, step, ctx)
        for step, (key, condition) in zip(ctx.steps, conditions.items(), strict=True)
    }
    stored = flow.status
    waits = flow.spec.concurrency is not None
    records = () if waits else stored.job_status_list or ()
    begun = any(record.state != JobPhase.PENDING for record in records) or (
        not waits and any(isinstance(job, ChildFlow) for job in view.jobs.values())
    )
    return msgspec.structs.replace(
        stored,
        state=FlowState(phase=FlowPhase.RUNNING if begun else FlowPhase.PENDING),
        progress=format_progress(conditions.values()),
        queued_time=truncate_to_second(now) if waits else None,
        start_time=None if waits else truncate_to_second(now),
        completion_time=None,
        duration="",
        observed_generation=flow.metadata.generation,
        conditions=conditions,
        next_jobs=None,
        suspended_seconds=None,
        suspended_at=None,
        suspended_by="",
        finally_cancelled=False,
        volume_claims=None,
        outputs=None,
        retries=_retries(ctx, view),
        handled_commands=handled,
    )


def _back(ctx: PlanContext) -> set[int]:
    conditions, graph = [observed.stored for observed in ctx.observed], ctx.graph
    back = {p for p, stored in enumerate(conditions) if _failed(stored) or p >= ctx.last_from}
    for position in graph.order:
        if conditions[position].phase == StepPhase.SKIPPED and position not in ctx.layout.left_out:
            if not back.isdisjoint(graph.targets[position]):
                back.add(position)
    return back | _services(ctx, back)


def _failed(stored: StepCondition) -> bool:
    if stored.phase == StepPhase.SKIPPED:
        return stored.reason not in (StepReason.NOT_TAKEN, StepReason.NOT_TARGETED)
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


def _runs_all_again(ctx: PlanContext, position: int, back: set[int], again: set[int]) -> bool:
    """Return whether all runs of a loop run again: its items may differ now, because
    `forEach.from` reads a step that goes back, or all of its repeats have completed and `until` did
    not hold. `again`: the steps before it of which this is known."""
    observed = ctx.observed[position]
    if takes_items(observed.step):
        return not again.isdisjoint(ctx.layout.needs[position].matched)
    if (each := observed.step.for_each) is not None:
        reads = reads_of_text(each.from_ or "")
        return any(ctx.graph.index.get(read.step) in back for read in reads)
    return all(run.phase == StepPhase.COMPLETED for run in observed.stored.runs or ())


def _back_to_waiting(ctx: PlanContext, position: int, *, again: bool) -> StepCondition:
    stored = ctx.observed[position].stored
    runs = [
        RunCondition(index=run.index, **_kept_fields(run))
        if again or run.phase != StepPhase.COMPLETED
        else msgspec.structs.replace(run, past_attempts=run.attempts)
        for run in stored.runs or ()
        if run.attempts or run.phase != StepPhase.SKIPPED
    ]
    kept = _kept_fields(stored)
    return StepCondition(last_transition_time=ctx.second, runs=runs or None, **kept)


def _retries(ctx: PlanContext, view: View) -> int:
    """Return the number of the retry by which child flows know whether it is about them too."""
    if view.parent is not None:
        return view.parent.status.retries
    stored = ctx.flow.status.retries
    return stored + 1 if ctx.layout.has_children else stored


def _with_children(condition: StepCondition, view: View, *, continued: bool) -> StepCondition:
    """Return the condition of a step that goes back, with the failed child flows that continue.
    Their hours are added again when they end. Without its name, no child continues."""
    runs = [_with_child(run, view, continued=continued) for run in condition.runs or ()]
    found = msgspec.structs.replace(condition, runs=runs or None)
    if not runs:
        return _with_child(found, view, continued=continued)
    total = found.requested_hours
    for before, after in zip(condition.runs or (), runs, strict=True):
        total = replace_hours(total, before.requested_hours, after.requested_hours)
    return msgspec.structs.replace(found, requested_hours=total)


def _with_child(run: C, view: View, *, continued: bool) -> C:
    child = view.jobs.get(run.job)
    if run.phase != StepPhase.WAITING or not isinstance(child, ChildFlow):
        return run
    if not continued or child.phase != JobPhase.FAILED:
        return msgspec.structs.replace(run, job="")
    hours = replace_hours(run.requested_hours, child.hours, None)
    return msgspec.structs.replace(run, requested_hours=hours)


def is_retried_with(child: JobFlow, parent: JobFlow | None) -> bool:
    """Return whether the stored status of the parent lets a failed child flow run again."""
    if parent is None or parent.final or parent.status.retries == child.status.retries:
        return False
    return any(
        run.flow == child.metadata.name
        and run.phase == StepPhase.WAITING
        and run.attempts == run.past_attempts
        for condition in (parent.status.conditions or {}).values()
        for run in condition.runs or (condition,)
    )


def _kept_fields(stored: RunCondition) -> dict[str, Any]:
    return {
        "phase": StepPhase.WAITING,
        "message": "runs again, because the flow was retried",
        "job": stored.job,
        "attempts": stored.attempts,
        "past_attempts": stored.attempts,
        "requested_hours": stored.requested_hours,
    }
