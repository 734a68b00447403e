"""Facts that a flow takes over from child flows, and which of these continue after its retry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec

from jobflow.api.flow import status as api
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.volcano.command import Action
from jobflow.api.volcano.job import Job, JobPhase
from jobflow.core.planning.observed.child_flow import ChildFlow

C = TypeVar("C", bound=api.RunCondition)


def with_facts_of_children(flow: JobFlow, jobs: Mapping[str, Job]) -> JobFlow:
    """Return the flow with the facts about ended child flows that its status lacks."""
    # a version that does not know these fields may have written the status
    children = {
        name: job
        for name, job in jobs.items()
        if isinstance(job, ChildFlow) and (job.flow_error or job.has_tolerated_failures)
    }
    if not children:
        return flow
    known = flow.status.conditions or {}
    conditions = {key: _with_flow_error(each, children) for key, each in known.items()}
    status = msgspec.structs.replace(
        flow.status,
        conditions=conditions,
        tolerated_in_children=flow.status.tolerated_in_children
        or has_tolerated_children(known.values(), children),
    )
    return flow if status == flow.status else msgspec.structs.replace(flow, status=status)


def has_tolerated_children(
    conditions: Iterable[api.StepCondition], jobs: Mapping[str, Job]
) -> bool:
    """Return whether a child flow with which a run has ended has tolerated failures."""
    ended = (
        jobs.get(run.flow)
        for condition in conditions
        for run in condition.runs or (condition,)
        if run.phase in api.ENDED_STEP_PHASES
    )
    return any(isinstance(job, ChildFlow) and job.has_tolerated_failures for job in ended)


def _with_flow_error(condition: C, children: Mapping[str, ChildFlow]) -> C:
    if isinstance(condition, api.StepCondition) and condition.runs:
        runs = [_with_flow_error(run, children) for run in condition.runs]
        return msgspec.structs.replace(condition, runs=runs)
    child = children.get(condition.flow)
    if condition.phase != api.StepPhase.FAILED or child is None or not child.flow_error:
        return condition
    return msgspec.structs.replace(condition, flow_error=True)


def goes_on(job: Job | None, *, tolerated: bool) -> bool:
    """Return whether this is a child flow that has ended and is retried with its parent, if nothing
    that its step depends on runs again. `tolerated`: tolerated failures run again too."""
    if not isinstance(job, ChildFlow):
        return False
    return job.phase == JobPhase.FAILED or (tolerated and job.has_tolerated_failures)


def was_retried_with(job: Job, flow: JobFlow) -> bool:
    """Return whether this is a child flow that was retried when its parent was last retried."""
    if not isinstance(job, ChildFlow) or job.retries != flow.status.retries:
        return False
    return not (job.ended and has_to_take_over(job, flow))


def hours_of(job: Job) -> api.RequestedHours | None:
    """Return the hours of a child flow that has ended; those of a vcjob follow from its record."""
    return job.hours if isinstance(job, ChildFlow) else None


def may_take_over(job: Job, number: int, action: str) -> bool:
    """Return whether this is a child flow that has yet to take over an entry of `handedDown`."""
    goes_on = action != Action.CANCEL_STEP or not job.ended
    return isinstance(job, ChildFlow) and goes_on and job.taken_over < number


def has_to_take_over(job: Job, flow: JobFlow) -> bool:
    """Return whether a Command on steps of this child flow waits for it in its parent."""
    entries = flow.status.handed_down or ()
    return any(
        each.flow == job.metadata.name and may_take_over(job, each.number, each.action)
        for each in entries
    )
