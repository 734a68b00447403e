"""Which vcjobs are to be deleted, and when: by the flow's policy, or by their template's ttl.

A delete is planned only when the status as it was read holds what justifies it, never on the word
of a status that is still to be written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from jobflow.api import labels
from jobflow.api.flow_status import ENDED_STEP_PHASES, FlowPhase
from jobflow.api.job import Job
from jobflow.api.jobflow import JobFlow, RetainPolicy
from jobflow.core.limits import MAX_TTL
from jobflow.core.planning.actions import DeleteJob
from jobflow.core.planning.job_records import ended
from jobflow.core.planning.view import View
from jobflow.core.timestamps import add


@dataclass(frozen=True, slots=True)
class Retention:
    """What to delete now, and when to look again."""

    deletes: tuple[DeleteJob, ...] = ()
    wake_at: datetime | None = None
    urgent: bool = False
    """Whether a delete that is due waits only for the status to be written."""


def retention(flow: JobFlow, view: View, now: datetime) -> Retention:
    """Judged by the flow's status as it was read."""
    if (
        flow.spec.job_retain_policy == RetainPolicy.DELETE
        and flow.status.state.phase == FlowPhase.SUCCEED
    ):
        return Retention(tuple(_delete(job) for job in _there(view)))
    if all(_due(job) is None for job in view.jobs.values()):
        return Retention()
    timed = [(job, due) for job in _there(view) if (due := _due(job)) is not None]
    recorded = _recorded(flow)
    add = [due for _, due in timed if due > now]
    over = [job for job, due in timed if due <= now]
    return Retention(
        deletes=tuple(_delete(job) for job in over if job.metadata.name in recorded),
        wake_at=min(add, default=None),
        urgent=any(job.metadata.name not in recorded for job in over),
    )


def _there(view: View) -> Iterator[Job]:
    """The vcjobs that nobody has deleted yet, by name."""
    for name in sorted(view.jobs):
        job = view.jobs[name]
        if name not in view.deleted and job.metadata.deletion_timestamp is None:
            yield job


def _due(job: Job) -> datetime | None:
    """When the ttl of an ended vcjob is over; None where it has none."""
    ttl = (job.metadata.annotations or {}).get(labels.TTL_SECONDS)
    if ttl is None or not job.ended or not (ttl.isascii() and ttl.isdigit()):
        return None
    end = job.status.state.last_transition_time or job.metadata.creation_timestamp
    if end is None or len(ttl) > len(str(MAX_TTL)) or int(ttl) > MAX_TTL:
        return None
    return add(end, int(ttl))


def _recorded(flow: JobFlow) -> frozenset[str]:
    """The vcjobs whose outcome the status holds."""
    status = flow.status
    names = {record.name for record in status.job_status_list or () if ended(record)}
    for key, condition in (status.conditions or {}).items():
        for run in condition.runs or (condition,):
            if run.phase in ENDED_STEP_PHASES:
                names.add(run.job or (key if run.index is None else f"{key}-{run.index}"))
    return frozenset(names)


def _delete(job: Job) -> DeleteJob:
    return DeleteJob(job.metadata.name, job.metadata.uid)


def expires(flow: JobFlow) -> datetime | None:
    """When the flow is to go, by its stored status; None: it stays, or is on its way already."""
    ttl, ended = flow.spec.ttl_seconds_after_finished, flow.status.completion_time
    if ttl is None or ended is None or not flow.final:
        return None
    if flow.metadata.deletion_timestamp is not None:
        return None
    return add(ended, max(0, ttl))
