"""The record of one vcjob in `jobStatusList`, in Volcano's format. It outlives the vcjob."""

from datetime import datetime, timedelta

import msgspec

from jobflow.api.flow.status import JobRecord, JobRunningHistory
from jobflow.api.volcano.job import ENDED_PHASES, Job, JobPhase, JobState

KEPT_HISTORIES = 10


def job_record(job: Job, old: JobRecord | None, *, gone: bool, now: datetime) -> JobRecord:
    """Return the record of a vcjob; `old` itself if nothing has changed. `gone`: it is deleted from
    the cluster; `now`: whole seconds."""
    if old is not None and is_current(old, job, gone):
        return old
    status, made = job.status, job.metadata.creation_timestamp
    fallback = status.state.last_transition_time or now
    seen = [(c.status, c.last_transition_time or fallback) for c in status.conditions or ()]
    if seen and seen[0][0] == JobPhase.PENDING and made is not None:
        seen[0] = (JobPhase.PENDING, made)  # a vcjob is Pending since its creation
    phase = job.phase
    if not seen or seen[-1][0] != phase:
        first = made if phase == JobPhase.PENDING and not seen else None
        seen.append((phase, first or fallback))
    # Volcano's conditions hold a phase only once, with its last time, so they are put behind the
    # known ones at the largest overlap; Volcano moves the time of a phase while it lasts
    known = list((old.running_histories if old is not None else None) or ())
    for shared in range(len(seen), 0, -1):
        ended_in = seen[max(shared - len(known), 0) : shared]
        if known and all(
            entry.state == state and (entry.end_timestamp is None or since <= entry.end_timestamp)
            for entry, (state, since) in zip(known[-len(ended_in) :], ended_in, strict=False)
        ):
            seen = seen[shared:]
            break
    for state, since in seen:
        if known:
            known[-1] = msgspec.structs.replace(known[-1], end_timestamp=since)
        known.append(JobRunningHistory(state=state, start_timestamp=since))
    return JobRecord(
        name=job.metadata.name,
        state=phase,
        start_timestamp=made,
        end_timestamp=fallback if job.ended else None,
        restart_count=status.retry_count or 0,
        running_histories=known[-KEPT_HISTORIES:],
    )


def has_end(record: JobRecord) -> bool:
    """Whether the record holds the vcjob's end."""
    return record.state in ENDED_PHASES


def is_current(old: JobRecord, job: Job, gone: bool) -> bool:
    """Whether a record says of a vcjob what it would say now. `gone`: as for `job_record`."""
    status = job.status
    phase = status.state.phase
    has_ended = phase in ENDED_PHASES
    if gone and not has_ended and old.end_timestamp is not None:
        return True  # it was closed; its last object knows less than that
    if old.state != (phase or JobPhase.PENDING) or old.restart_count != (status.retry_count or 0):
        return False
    if not (old.end_timestamp is not None if has_ended else gone or old.end_timestamp is None):
        return False
    histories = old.running_histories or None
    return not phase or (histories is not None and histories[-1].state == phase)


def running_time(record: JobRecord, until: datetime) -> timedelta:
    """Return how long the vcjob was Running by its record; `until` ends a phase that lasts."""
    spans = (
        max((entry.end_timestamp or until) - entry.start_timestamp, timedelta())
        for entry in record.running_histories or ()
        if entry.state == JobPhase.RUNNING and entry.start_timestamp is not None
    )
    return sum(spans, timedelta())


def before_its_end(job: Job) -> Job:
    """Return the vcjob as it was before it ended, by its own conditions."""
    entries = [c for c in job.status.conditions or () if c.status not in ENDED_PHASES]
    phase = entries[-1].status if entries else JobPhase.PENDING
    since = entries[-1].last_transition_time if entries else job.metadata.creation_timestamp
    state = JobState(phase=phase, last_transition_time=since)
    status = msgspec.structs.replace(job.status, state=state, conditions=entries or None)
    return msgspec.structs.replace(job, status=status)
