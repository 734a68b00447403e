"""Size limit of a status: what is dropped from a status that is too large, and in which order.

Phase, reason, attempts, passedTargets, decisions and outputs of steps and runs are never dropped,
nor the lists of vcjobs, nor the facts of failures that an expression or reference names. Details of
an ended vcjob that are dropped are lost. The causes of failures come last, and only as many of them
are dropped as do not fit.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import compress
from operator import attrgetter
from typing import Any, TypeVar

import msgspec

from jobflow.api.flow.status import (
    ENDED_STEP_PHASES,
    JobFlowStatus,
    RunCondition,
    StepCondition,
    StepPhase,
)
from jobflow.core.names import format_latest_name, format_run_name
from jobflow.core.planning.observed.job_history import has_end
from jobflow.core.planning.status.job_records import JOB_LISTS
from jobflow.core.reasons import StepReason
from jobflow.core.spec.expressions import NamedFailure, keep_fields

LIMIT = 256 * 1024
"""Bytes of a status as JSON above which parts of it are dropped."""
MOST = 1024 * 1024
"""Most bytes of a status; admission (`rules/size_limits.py`) relies on it."""
ROOM_FOR_CAUSES = 32 * 1024
"""Bytes that causes of failures may have if all that is not dropped exceeds LIMIT alone."""
_OF_FINGERPRINT = b'"fingerprint":"'
_FINGERPRINT = len(_OF_FINGERPRINT) + 22 + len('",')
"""Bytes of a fingerprint."""
_replace = msgspec.structs.replace
_ASKED_AGAIN = frozenset({StepReason.CREATE_REFUSED, StepReason.NAME_IN_USE})
_ENDED_WELL = ENDED_STEP_PHASES - {StepPhase.FAILED}
_RUNS = attrgetter("runs")
_TIME = {"last_transition_time": None}
_NUMBERS: Mapping[str, Any] = {"create_time": None, "running_duration": "", "requested_hours": None}
_DETAILS = {**_NUMBERS, "failure": None}
_CAUSE = {"message": "", "failure": None}

K = TypeVar("K")
C = TypeVar("C", bound=RunCondition)
"""The condition of a step or of one of its runs."""
NamedFailures = Mapping[str, NamedFailure]
"""By key of a step, the fields of its failure that are never dropped."""


def fitted(
    status: JobFlowStatus, stored: JobFlowStatus, find_named: Callable[[], NamedFailures] = dict
) -> JobFlowStatus:
    """Return the status with as little dropped as possible to fit; `stored` if it is this status
    with more dropped, because dropped parts would come and go."""
    fits = status if _fits(status) else None
    # histories are dropped first
    is_whole = not stored.conditions or any(
        len(record.running_histories or ()) > 1 for record in stored.job_status_list or ()
    )
    uncut = _replace(
        stored,
        conditions=status.conditions,
        job_status_list=status.job_status_list,
        pod_failure_ratio=status.pod_failure_ratio,
    )
    if fits is not None and (is_whole or status != uncut):
        return fits
    named = find_named()
    # the parts that people miss least come first
    for drop in DROPS:
        before, status = status, drop(status, named)
        if status is before:
            continue
        if status == stored:
            return stored
        if fits is None and _fits(status):
            fits = status
    for drop in LAST_DROPS:
        if fits is None and _size(status) > MOST:
            status = drop(status, named)
            if status == stored:
                return stored
    return fits if fits is not None else status


def _fits(status: JobFlowStatus) -> bool:
    text = msgspec.json.encode(status)
    # nothing else gives way to fingerprints, which are dropped last
    return len(text) <= LIMIT or len(text) - _FINGERPRINT * text.count(_OF_FINGERPRINT) <= LIMIT


def _size(status: JobFlowStatus) -> int:
    return len(msgspec.json.encode(status))


def _histories(status: JobFlowStatus, named: NamedFailures) -> JobFlowStatus:
    """Drop failed attempts, and all histories of a job but the last."""
    status = _conditions(status, named, empty={"failed_attempts": None})
    stored = status.job_status_list or []
    records = [
        _replace(record, running_histories=histories[-1:])
        if (histories := record.running_histories) is not None and len(histories) > 1
        else record
        for record in stored
    ]
    return status if records == stored else _replace(status, job_status_list=records)


def _task_status_counts(status: JobFlowStatus, named: NamedFailures) -> JobFlowStatus:
    if status.pod_failure_ratio:
        status = _replace(status, pod_failure_ratio="")
    return _conditions(status, named, empty={"task_status_count": None})


def _records_of_ended_jobs(status: JobFlowStatus, _: NamedFailures) -> JobFlowStatus:
    stored = status.job_status_list or []
    records = [record for record in stored if not has_end(record)]
    return status if records == stored else _replace(status, job_status_list=records or None)


def _has_failed(condition: RunCondition) -> bool:
    return condition.phase == StepPhase.FAILED


def _causes(status: JobFlowStatus, named: NamedFailures) -> JobFlowStatus:
    """Drop the messages and failures of the last failed steps and runs for which there is no room.
    A step without runs of its own comes before the runs of others, which `flow.failures` does not
    read."""
    stored = status.conditions or {}
    without = _conditions(status, named, empty=_CAUSE, concerns=_has_failed)
    left = min(max(LIMIT, _size(without) + ROOM_FOR_CAUSES), MOST) - _size(without)
    kept = dict(without.conditions or {})

    def restored(full: C, less: C) -> C:
        nonlocal left
        cause = _replace(less, message=full.message, failure=full.failure)
        left -= 0 if cause == less else len(msgspec.json.encode((full.message, full.failure)))
        return cause if left >= 0 else less

    for key, full in stored.items():
        if _has_failed(full):
            kept[key] = restored(full, kept[key])
    for key, full in compress(stored.items(), map(_RUNS, stored.values())):
        pairs = zip(full.runs or (), kept[key].runs or (), strict=True)
        runs = [restored(run, less) if _has_failed(run) else less for run, less in pairs]
        kept[key] = _replace(kept[key], runs=runs)
    return status if kept == stored else _replace(status, conditions=kept)


def _known_from_jobs(status: JobFlowStatus, named: NamedFailures) -> JobFlowStatus:
    """Drop, for thousands of jobs at once: everything that an existing job says itself, names of
    jobs that follow from their attempt (`observed` restores them), jobs of earlier attempts, the
    time of the next try of a refused create, and the nodes to avoid."""
    stored = status.conditions or {}
    latest = {run.job for each in stored.values() for run in each.runs or (each,)}
    lists: dict[str, list[str] | None] = {}
    for field in JOB_LISTS:
        names = [name for name in getattr(status, field) or () if name in latest]
        lists[field] = names or None
    conditions = {key: _least(key, each) for key, each in stored.items()}
    less = _replace(status, conditions=conditions or None, job_status_list=None, **lists)
    return _with_named(less, status, named)


def _least(key: str, condition: C) -> C:
    # `pastAttempts` is needed until another attempt was made, and without a time beside it
    attempts, past = condition.attempts, condition.past_attempts
    until = None if condition.reason in _ASKED_AGAIN else condition.next_attempt_time
    timed = until is not None or condition.abort_time is not None
    fields: dict[str, Any] = {
        **_DETAILS,
        "job": "" if condition.job == format_latest_name(key, attempts) else condition.job,
        "past_attempts": 0 if timed and attempts > past else past,
        "next_attempt_time": until,
        "avoid_nodes": None,
    }
    if isinstance(condition, StepCondition) and condition.runs:
        fields["runs"] = [_least(format_run_name(key, run.index), run) for run in condition.runs]
    return _replace(condition, **fields)


def _with_named(less: JobFlowStatus, status: JobFlowStatus, named: NamedFailures) -> JobFlowStatus:
    """Return `less`, the status without failures, with the fields of failures that are named."""
    if not named:
        return less
    conditions, full = dict(less.conditions or {}), status.conditions or {}
    for key in named.keys() & conditions.keys():
        runs = [
            _with_fields(run, before, named[key].retried, named[key].of_items)
            for run, before in zip(conditions[key].runs or (), full[key].runs or (), strict=True)
        ]
        kept = _with_fields(conditions[key], full[key], named[key].retried, named[key].ended)
        conditions[key] = _replace(kept, runs=runs) if runs else kept
    return _replace(less, conditions=conditions)


def _with_fields(less: C, full: C, retried: frozenset[str], ended: frozenset[str]) -> C:
    if less.failure is full.failure:
        return less
    fields = ended if full.phase in ENDED_STEP_PHASES else retried
    return _replace(less, failure=keep_fields(full.failure, fields))


def _conditions(
    status: JobFlowStatus,
    named: NamedFailures,
    *,
    empty: Mapping[str, Any],
    concerns: Callable[[RunCondition], bool] = lambda condition: True,
) -> JobFlowStatus:
    """Set fields of the conditions that this concerns, and of their runs, to `empty`, except the
    facts of failures that are named."""
    read = attrgetter(*empty)
    stored = status.conditions or {}

    def dropped(found: Mapping[K, C]) -> dict[K, C]:
        fields = map(read, found.values())
        full: Iterator[Any] = fields if len(empty) == 1 else map(any, fields)
        pairs = compress(found.items(), full)
        return {key: _replace(each, **empty) for key, each in pairs if concerns(each)}

    changed = dropped(stored)
    for key, each in compress(stored.items(), map(_RUNS, stored.values())):
        runs = dict(enumerate(each.runs or ()))
        if found := dropped(runs):
            changed[key] = _replace(changed.get(key, each), runs=list((runs | found).values()))
    if not changed:
        return status
    return _with_named(_replace(status, conditions=stored | changed), status, named)


DROPS: tuple[Callable[[JobFlowStatus, NamedFailures], JobFlowStatus], ...] = (
    _histories,
    # the last history of a job has the time
    partial(_conditions, empty=_TIME, concerns=lambda each: bool(each.job)),
    _task_status_counts,
    # the messages of failed steps are causes
    partial(_conditions, empty={"message": ""}, concerns=lambda each: not _has_failed(each)),
    partial(_conditions, empty=_DETAILS, concerns=lambda each: each.phase in _ENDED_WELL),
    partial(_conditions, empty=_NUMBERS, concerns=_has_failed),
    _records_of_ended_jobs,
    partial(_conditions, empty=_TIME),
    _causes,
)
"""One after the other, each on top of those before it."""
# without its UID, each job is taken by its name in the next plan, as at first sight
LAST_DROPS = (
    _known_from_jobs,
    partial(_conditions, empty={"uid": ""}),
    partial(_conditions, empty={"fingerprint": ""}),
)
"""For a status that is larger than MOST after all others."""
