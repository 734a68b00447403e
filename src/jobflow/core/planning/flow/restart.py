"""Retry of an ended flow: the status from which it continues.

`runs_again` says which steps, items and repeats run again; all others stay. The former go back to
Waiting, without their decisions. `pastAttempts` is the number of attempts before. Volume claims
stay too; one that was deleted since is created again before it is needed. A flow of a concurrency
group waits for a place again. Nothing is started here.
"""

from collections.abc import Collection
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
from jobflow.core.planning.context import PlanContext, with_job_as_child
from jobflow.core.planning.flow.runs_again import Again, find_runs_again
from jobflow.core.planning.observed.children import goes_on, hours_of
from jobflow.core.planning.observed.view import View
from jobflow.core.pods.resources import replace_hours
from jobflow.core.text import format_progress
from jobflow.core.timestamps import truncate_to_second
from jobflow.core.work import work_of_object

C = TypeVar("C", bound=RunCondition)


def restarted(
    flow: JobFlow,
    view: View,
    now: datetime,
    handled: list[str] | None,
    *,
    tolerated: bool = False,
) -> JobFlowStatus:
    """Return the status from which an ended flow continues. `handled`: UIDs of Commands;
    `tolerated`: tolerated failures run again too."""
    ctx = PlanContext.of(flow, View(), now)
    conditions = {observed.key: observed.stored for observed in ctx.observed}
    for position, again in find_runs_again(ctx, view.jobs, tolerated=tolerated).items():
        condition = _back_to_waiting(ctx, position, again.kept)
        if ctx.layout.runs_steps[position]:
            condition = _with_children(condition, view, again, tolerated=tolerated)
        conditions[ctx.observed[position].key] = condition
    conditions = {
        key: with_job_as_child(condition, step, ctx)
        for step, (key, condition) in zip(ctx.steps, conditions.items(), strict=True)
    }
    stored = flow.status
    waits = flow.spec.concurrency is not None
    records = () if waits else stored.job_status_list or ()
    begun = any(record.state != JobPhase.PENDING for record in records) or (
        not waits and any(not work_of_object(job).is_recorded for job in view.jobs.values())
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
        tolerated_retried=tolerated,
        tolerated_in_children=False,
        handled_commands=handled,
    )


def _back_to_waiting(ctx: PlanContext, position: int, kept: Collection[int]) -> StepCondition:
    """Return the condition of a step that runs again, with its runs that stay (`kept`)."""
    stored = ctx.observed[position].stored
    runs = [
        msgspec.structs.replace(run, past_attempts=run.attempts)
        if run.index in kept
        else RunCondition(index=run.index, **_kept_fields(run))
        for run in stored.runs or ()
        if run.attempts or run.index in kept
    ]
    kept_fields = _kept_fields(stored)
    return StepCondition(last_transition_time=ctx.second, runs=runs or None, **kept_fields)


def _retries(ctx: PlanContext, view: View) -> int:
    """Return the number of the retry by which child flows know whether it is about them too."""
    if view.parent is not None:
        return view.parent.status.retries
    stored = ctx.flow.status.retries
    return stored + 1 if ctx.layout.has_children else stored


def _with_children(
    condition: StepCondition, view: View, again: Again, *, tolerated: bool
) -> StepCondition:
    """Return the condition of a step that runs again, with the child flows that are retried. Their
    hours are added again when they end. Without its name, a child is made anew."""
    runs = [_with_child(run, view, again, tolerated=tolerated) for run in condition.runs or ()]
    found = msgspec.structs.replace(condition, runs=runs or None)
    if not runs:
        return _with_child(found, view, again, tolerated=tolerated)
    total = found.requested_hours
    for before, after in zip(condition.runs or (), runs, strict=True):
        total = replace_hours(total, before.requested_hours, after.requested_hours)
    return msgspec.structs.replace(found, requested_hours=total)


def _with_child(run: C, view: View, again: Again, *, tolerated: bool) -> C:
    child = view.jobs.get(run.job)
    if run.phase != StepPhase.WAITING or child is None or not work_of_object(child).has_steps:
        return run
    if not (again.goes_on(run.index) and goes_on(child, tolerated=tolerated)):
        return msgspec.structs.replace(run, job="")
    hours = replace_hours(run.requested_hours, hours_of(child), None)
    return msgspec.structs.replace(run, requested_hours=hours)


def is_retried_with(child: JobFlow, parent: JobFlow | None) -> bool:
    """Return whether the stored status of the parent lets a child flow that has ended run again."""
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
