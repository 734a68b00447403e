"""When the time of an attempt is over: a step's `timeout`, counted from its vcjob's first Running.

Queueing does not count, being restarted by Volcano does. What becomes of the vcjob then is
`aborting`'s business.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from jobflow.api.duration import parse_duration
from jobflow.api.flow_status import JobRecord
from jobflow.api.job import Job, JobPhase
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.observed import ObservedRun
from jobflow.core.timestamps import add, ceil_to_second


def deadline(run: ObservedRun, job: Job, ctx: PlanContext) -> datetime | None:
    """When the attempt that is this vcjob has to be over; None where it has all the time there is,
    or has not been Running. Once known it is remembered, for what Volcano says of a phase's time
    moves when a vcjob comes into that phase again."""
    text = run.step.timeout
    if not text:
        return None
    memory = run.stored
    if memory.deadline is not None and memory.job == job.metadata.name:
        return memory.deadline
    seconds = duration(text)
    since = min(_running(job, ctx.records.get(job.metadata.name)), default=None)
    return None if seconds is None or since is None else ceil_to_second(add(since, seconds))


def is_over(deadline: datetime | None, ctx: PlanContext) -> bool:
    """Whether that time has come."""
    return deadline is not None and deadline <= ctx.now


def duration(text: str) -> timedelta | None:
    """A duration of the spec; None for what admission would refuse."""
    try:
        return timedelta(seconds=parse_duration(text))
    except ValueError:
        return None


def _running(job: Job, record: JobRecord | None) -> Iterator[datetime]:
    """When the vcjob came into Running, as far as it or its record says."""
    status = job.status
    for condition in status.conditions or ():
        if condition.status == JobPhase.RUNNING and condition.last_transition_time is not None:
            yield condition.last_transition_time
    state = status.state
    if state.phase == JobPhase.RUNNING and state.last_transition_time is not None:
        yield state.last_transition_time
    for entry in (record.running_histories if record is not None else None) or ():
        if entry.state == JobPhase.RUNNING and entry.start_timestamp is not None:
            yield entry.start_timestamp
