"""Size limit of a status: what is dropped from a status that is too large, and in which order.

Phase, reason, attempts, passedTargets, decisions and outputs of steps and runs are never dropped,
nor the lists of vcjobs. Details of an ended vcjob that are dropped are lost.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

import msgspec

from jobflow.api.flow_status import (
    ENDED_STEP_PHASES,
    JobFlowStatus,
    JobRecord,
    RunCondition,
    StepCondition,
)
from jobflow.core.names import format_latest_name
from jobflow.core.planning.job_records import JOB_LISTS, ended
from jobflow.core.reasons import StepReason

LIMIT = 256 * 1024
"""Bytes of a status as JSON above which parts of it are dropped."""

MOST = 1024 * 1024
"""Most bytes of a status; admission (`rules/size_limits.py`) relies on it."""

_replace = msgspec.structs.replace

_ASKED_AGAIN = frozenset({StepReason.CREATE_REFUSED, StepReason.NAME_IN_USE})

C = TypeVar("C", bound=RunCondition)
"""The condition of a step or of one of its runs."""


def fitted(status: JobFlowStatus, stored: JobFlowStatus) -> JobFlowStatus:
    """Return the status with as little dropped as possible to fit.

    If `stored` is this status with more dropped, return it; otherwise dropped parts would come and
    go.
    """
    fits = status if _size(status) <= LIMIT else None
    if fits is not None and not (_cut(stored) and _uncut(status) == _uncut(stored)):
        return fits
    for drop in DROPS:
        before, status = status, drop(status)
        if status is before:
            continue
        if status == stored:
            return stored
        if fits is None and _size(status) <= LIMIT:
            fits = status
    if fits is None and _size(status) > MOST:
        status = _what_can_be_told_again(status)
        return stored if status == stored else status
    return fits if fits is not None else status


def _size(status: JobFlowStatus) -> int:
    return len(msgspec.json.encode(status))


def _cut(stored: JobFlowStatus) -> bool:
    # histories are dropped first
    return bool(stored.conditions) and not any(
        len(record.running_histories or ()) > 1 for record in stored.job_status_list or ()
    )


def _uncut(status: JobFlowStatus) -> JobFlowStatus:
    return _replace(status, conditions=None, job_status_list=None, pod_failure_ratio="")


def _histories_but_the_last(status: JobFlowStatus) -> JobFlowStatus:
    return _records(
        status,
        [
            _replace(record, running_histories=histories[-1:])
            if (histories := record.running_histories) is not None and len(histories) > 1
            else record
            for record in status.job_status_list or ()
        ],
    )


def _transitions_of_jobs(status: JobFlowStatus) -> JobFlowStatus:
    """Drop `lastTransitionTime` of steps whose vcjob's last history has it."""
    return _conditions(
        status,
        lambda each: bool(each.job) and each.last_transition_time is not None,
        lambda _, each: _without_transition(each) if each.job else each,
    )


def _task_status_counts(status: JobFlowStatus) -> JobFlowStatus:
    if status.pod_failure_ratio:
        status = _replace(status, pod_failure_ratio="")
    return _conditions(
        status,
        lambda each: each.task_status_count is not None,
        lambda _, each: _replace(each, task_status_count=None),
    )


def _messages(status: JobFlowStatus) -> JobFlowStatus:
    return _conditions(
        status, lambda each: bool(each.message), lambda _, each: _replace(each, message="")
    )


def _times_of_ended_steps(status: JobFlowStatus) -> JobFlowStatus:
    over = ENDED_STEP_PHASES
    return _conditions(
        status,
        lambda each: each.phase in over and each != _without_times(each),
        lambda _, each: _without_times(each) if each.phase in over else each,
    )


def _without_times(condition: C) -> C:
    return _replace(
        condition,
        create_time=None,
        running_duration="",
        requested_hours=None,
        failure=None,
    )


def _records_of_ended_jobs(status: JobFlowStatus) -> JobFlowStatus:
    return _records(status, [r for r in status.job_status_list or () if not ended(r)])


def _transitions(status: JobFlowStatus) -> JobFlowStatus:
    return _conditions(
        status,
        lambda each: each.last_transition_time is not None,
        lambda _, each: _without_transition(each),
    )


def _without_transition(condition: C) -> C:
    return _replace(condition, last_transition_time=None)


def _what_can_be_told_again(status: JobFlowStatus) -> JobFlowStatus:
    """Drop, for thousands of jobs at once: everything that an existing job says itself, names of
    jobs that follow from their attempt (`observed` restores them), jobs of earlier attempts, the
    time of the next try of a refused create, and the nodes to avoid."""
    conditions = (status.conditions or {}).values()
    latest = {run.job for each in conditions for run in each.runs or (each,)}
    lists: dict[str, list[str] | None] = {}
    for field in JOB_LISTS:
        names = [name for name in getattr(status, field) or () if name in latest]
        lists[field] = names or None
    status = _conditions(status, lambda each: True, _least)
    return _replace(status, job_status_list=None, **lists)


def _least(key: str, condition: C) -> C:
    """Drop `pastAttempts` only beside a time and after another attempt: until then it is needed."""
    attempts, past = condition.attempts, condition.past_attempts
    told_again = condition.reason in _ASKED_AGAIN
    until = None if told_again else condition.next_attempt_time
    timed = until is not None or condition.abort_time is not None
    return _replace(
        _without_times(condition),
        job="" if condition.job == format_latest_name(key, attempts) else condition.job,
        past_attempts=0 if timed and attempts > past else past,
        next_attempt_time=until,
        avoid_nodes=None,
    )


DROPS: tuple[Callable[[JobFlowStatus], JobFlowStatus], ...] = (
    _histories_but_the_last,
    _transitions_of_jobs,
    _task_status_counts,
    _messages,
    _times_of_ended_steps,
    _records_of_ended_jobs,
    _transitions,
)
"""One after the other, each on top of those before it."""


def _records(status: JobFlowStatus, records: list[JobRecord]) -> JobFlowStatus:
    same = records == (status.job_status_list or [])
    return status if same else _replace(status, job_status_list=records or None)


class _Change(Protocol):
    """Changes one condition; the key is the name of its first vcjob."""

    def __call__(self, key: str, condition: C, /) -> C: ...


def _conditions(
    status: JobFlowStatus, is_affected: Callable[[StepCondition], bool], change: _Change
) -> JobFlowStatus:
    """Change the conditions that are affected, and those with runs together with all runs. Most
    conditions of a large status were changed when they were written."""
    changed: dict[str, StepCondition] = {}
    for key, each in (status.conditions or {}).items():
        if each.runs:
            runs = [change(f"{key}-{run.index}", run) for run in each.runs]
            changed[key] = _replace(change(key, each), runs=runs)
        elif is_affected(each):
            changed[key] = change(key, each)
    return _replace(status, conditions=(status.conditions or {}) | changed) if changed else status
