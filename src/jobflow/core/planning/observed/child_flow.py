"""A child flow in the terms of a vcjob, so that one set of rules decides about the runs of a step
(docs/decisions/child-flows.md). Plans read nothing else of a child."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from jobflow.api.flow import status as api
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import JOBFLOWS, ObjectMeta
from jobflow.api.volcano.job import Job, JobCondition, JobPhase, JobState, JobStatus
from jobflow.core.names import stored_condition
from jobflow.core.pods.resources import replace_hours
from jobflow.core.reasons import FlowReason, StepReason
from jobflow.core.spec.readiness import fails_flow, has_tolerated_failures, is_flow_error

_PHASES: Mapping[str, str] = {
    api.FlowPhase.RUNNING: JobPhase.RUNNING,
    api.FlowPhase.SUCCEED: JobPhase.COMPLETED,
    api.FlowPhase.FAILED: JobPhase.FAILED,
    api.FlowPhase.TERMINATING: JobPhase.TERMINATING,
}
_FLOW_ERRORS = frozenset(
    {FlowReason.INVALID, FlowReason.EXPRESSION_ERROR, FlowReason.OUTPUTS_TOO_LARGE}
)
"""Reasons of a flow that has failed although none of its steps has."""
_ENDS = (api.FlowPhase.SUCCEED, api.FlowPhase.FAILED)
_NOT_BEGUN = frozenset({"", api.StepPhase.WAITING, JobPhase.PENDING})


class ChildFlow(Job):
    """A child flow as a plan of its parent sees it."""

    api_version: str = JOBFLOWS.api_version
    kind: str = JOBFLOWS.kind
    ending: str = ""
    """Cancelled or Timeout as soon as it is being ended, else ""."""
    finally_too: bool = False
    """Whether its `finally` is cancelled too."""
    retries: int = 0
    """The `status.retries` of its parent when both were last retried."""
    taken_over: int = 0
    """Number of the last Command on its steps that it has taken over from its parent."""
    outputs: dict[str, Any] | None = None
    failure: api.StepFailure | None = None
    flow_error: bool = False
    """Whether it failed by an error of the flow itself, or one of its steps did."""
    hours: api.RequestedHours | None = None
    counterpart: str = ""
    """The name of the flow of which it has all its results, if no job had to run in it."""
    has_tolerated_failures: bool = False
    """Whether it has ended with failures that continueOnFailure tolerates, at any level."""


def observe(flow: JobFlow) -> ChildFlow:
    """Return a child flow as its parent sees it. It changes only if the parent may have to act."""
    meta, status = flow.metadata, flow.status
    state = status.state
    phase = _PHASES.get(state.phase, JobPhase.PENDING)
    running = _first_running(flow)
    conditions = (status.conditions or {}).values()
    failed = (each for each in conditions if each.phase == api.StepPhase.FAILED)
    hours = None
    for each in conditions if flow.final else ():
        if each.requested_hours is not None:
            hours = replace_hours(hours, None, each.requested_hours)
    begun = JobCondition(status=JobPhase.RUNNING, last_transition_time=running)
    return ChildFlow(
        metadata=ObjectMeta(
            name=meta.name,
            namespace=meta.namespace,
            uid=meta.uid,
            creation_timestamp=meta.creation_timestamp,
            deletion_timestamp=meta.deletion_timestamp,
            labels=meta.labels,
            annotations=meta.annotations,
            owner_references=meta.owner_references,
        ),
        status=JobStatus(
            state=JobState(
                phase=phase,
                reason=state.reason if flow.final else "",
                message=state.message if flow.final else "",
                last_transition_time=status.completion_time if flow.final else running,
            ),
            conditions=None if running is None else [begun],
            running_duration=status.duration if flow.final else None,
        ),
        ending=state.reason if state.reason in api.HALTS else "",
        finally_too=status.finally_cancelled,
        retries=status.retries,
        taken_over=status.taken_over,
        outputs=status.outputs if flow.final else None,
        failure=_failure(flow) if state.phase == api.FlowPhase.FAILED else None,
        flow_error=state.phase == api.FlowPhase.FAILED
        and (state.reason in _FLOW_ERRORS or any(map(is_flow_error, failed))),
        hours=hours,
        counterpart=_counterpart(flow) if flow.final else "",
        has_tolerated_failures=flow.final and has_tolerated_failures(flow),
    )


def _counterpart(flow: JobFlow) -> str:
    """Return the flow of which a flow that has ended has all its results, or ""."""
    conditions = (flow.status.conditions or {}).values()
    runs = [run for each in conditions for run in each.runs or (each,) if run.job or run.flow]
    has_all = all(run.reason == StepReason.REUSED or run.origin for run in runs)
    return flow.status.reuse.flow if flow.status.reuse is not None and runs and has_all else ""


def _first_running(flow: JobFlow) -> datetime | None:
    """Return since when the flow has run, since its last retry; None if no vcjob of it has."""
    status = flow.status
    started = status.start_time
    if status.state.phase not in (api.FlowPhase.RUNNING, *_ENDS) or started is None:
        return None
    # the status does not say when, so the first sign of it counts, at the latest the start
    signs = [
        entry.start_timestamp
        for record in status.job_status_list or ()
        for entry in record.running_histories or ()
        if entry.state == JobPhase.RUNNING and entry.start_timestamp is not None
    ]
    signs += [
        condition.create_time
        for condition in (status.conditions or {}).values()
        # vcjobs are in the records
        if not condition.job and condition.phase not in _NOT_BEGUN and condition.create_time
    ]
    signs = [since for since in signs if since >= started]
    if not signs and status.state.phase != api.FlowPhase.RUNNING:
        return None
    return min(signs, default=started)


def _failure(flow: JobFlow) -> api.StepFailure | None:
    """Return the failure of the first step that failed the flow, in the order of the spec."""
    for step in flow.all_steps:
        condition = stored_condition(flow, step.name)
        if condition is None or condition.phase != api.StepPhase.FAILED:
            continue
        if fails_flow(step, condition):
            inner = condition.failure or api.StepFailure()
            name = f"{step.name}/{inner.step}" if inner.step else step.name
            return msgspec.structs.replace(inner, step=name)
    return None
