"""Deletion of vcjobs by jobRetainPolicy and their ttl, and of flows by their ttl.

A delete is planned only if the stored status holds the reason, never the status of the same plan.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from jobflow.api import labels
from jobflow.api.flow.jobflow import JobFlow, RetainPolicy
from jobflow.api.flow.status import ENDED_STEP_PHASES, FlowPhase
from jobflow.api.volcano.job import Job
from jobflow.core.limits import MAX_INT32
from jobflow.core.names import recorded_names
from jobflow.core.planning.actions import DeleteJob
from jobflow.core.planning.observed.job_history import has_end
from jobflow.core.planning.observed.view import View
from jobflow.core.timestamps import add


@dataclass(frozen=True, slots=True)
class Retention:
    """The vcjobs to delete now, and when to look again."""

    deletes: tuple[DeleteJob, ...] = ()
    wake_at: datetime | None = None
    urgent: bool = False
    """Whether a delete that is due waits for the status."""


def retention(flow: JobFlow, view: View, now: datetime) -> Retention:
    """Return the vcjobs that the stored status allows to delete."""
    if (
        flow.spec.job_retain_policy == RetainPolicy.DELETE
        and flow.status.state.phase == FlowPhase.SUCCEED
    ):
        return Retention(tuple(DeleteJob.of(job) for job in _deletable(view)))
    jobs = view.jobs.values()
    if not any(labels.TTL_SECONDS in (job.metadata.annotations or ()) for job in jobs):
        return Retention()
    timed = [(job, at) for job in _deletable(view) if (at := _expiry(job)) is not None]
    if not timed:
        return Retention()
    later = [at for _, at in timed if at > now]
    expired = [job for job, at in timed if at <= now]
    # a job that is deleted before the status holds its end would count as lost
    recorded = {record.name for record in flow.status.job_status_list or () if has_end(record)}
    for key, condition in (flow.status.conditions or {}).items():
        for run in condition.runs or (condition,):
            if run.phase in ENDED_STEP_PHASES:
                recorded.update(recorded_names(key, run))
    deletes = tuple(DeleteJob.of(job) for job in expired if job.metadata.name in recorded)
    return Retention(deletes, min(later, default=None), urgent=len(deletes) < len(expired))


def _deletable(view: View) -> Iterator[Job]:
    for _, job in sorted(view.jobs.items()):
        # somebody has removed the owner references of the others, maybe to keep them
        if not view.is_going(job) and job.metadata.controller is not None:
            yield job


def _expiry(job: Job) -> datetime | None:
    """Return when an ended vcjob is deleted by its ttl."""
    # anybody can edit the annotation
    ttl = (job.metadata.annotations or {}).get(labels.TTL_SECONDS)
    if ttl is None or not job.ended or not (ttl.isascii() and ttl.isdigit()):
        return None
    end = job.status.state.last_transition_time or job.metadata.creation_timestamp
    if end is None or len(ttl) > len(str(MAX_INT32)) or int(ttl) > MAX_INT32:
        return None
    return add(end, int(ttl))


def expires(flow: JobFlow) -> datetime | None:
    """Return when the flow is deleted by its ttl; None if it stays or is being deleted."""
    spec, ended = flow.spec, flow.status.completion_time
    succeeded = flow.status.state.phase == FlowPhase.SUCCEED
    ttl = spec.ttl_seconds_after_succeeded if succeeded else spec.ttl_seconds_after_failed
    if ttl is None:
        ttl = spec.ttl_seconds_after_finished
    if ttl is None or ended is None or not flow.final:
        return None
    if flow.metadata.deletion_timestamp is not None:
        return None
    return add(ended, max(0, ttl))
