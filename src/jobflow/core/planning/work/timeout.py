"""Deadline of an attempt: a step's `timeout`, counted from its vcjob's first Running.

Time in a queue does not count, restarts by Volcano do. Volcano's time of the first Running counts,
but not if it is before the creation of the vcjob or after the plan that sees it first. It is cut to
a whole second, so the deadline is a second later: an attempt never has less time than its timeout.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TypeVar

from jobflow.api.duration import parse_duration
from jobflow.api.flow.status import JobRecord
from jobflow.api.volcano.job import Job, JobPhase
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.observed.steps import ObservedRun
from jobflow.core.timestamps import add, ceil_to_second

SECOND = timedelta(seconds=1)
T = TypeVar("T")


def deadline(run: ObservedRun, job: Job, ctx: PlanContext) -> datetime | None:
    """Return the deadline of this vcjob; None without a timeout, or before it was Running. A stored
    deadline stays, because Volcano moves the time of a phase that is entered again."""
    text = run.step.timeout
    if not text:
        return None
    stored = run.stored
    if stored.deadline is not None and stored.job == job.metadata.name:
        return stored.deadline
    seconds = duration(text, None)
    since = min(_running(job, ctx.records.get(job.metadata.name)), default=None)
    if seconds is None or since is None:
        return None
    # the clock of Volcano's controllers may be wrong
    since = min(max(since, job.metadata.creation_timestamp or since), ctx.second)
    return ceil_to_second(add(since, seconds + SECOND))


def duration(text: str | None, default: T) -> timedelta | T:
    """Return a duration of the spec; `default` if it is not set or cannot be read."""
    try:
        return default if text is None else timedelta(seconds=parse_duration(text))
    except ValueError:
        return default


def _running(job: Job, record: JobRecord | None) -> Iterator[datetime]:
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
