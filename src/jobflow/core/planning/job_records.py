"""`jobStatusList` and the `…Jobs` lists: one record for each vcjob, in Volcano's format.

A record outlives its vcjob. An unchanged record is the same object as before, and written
timestamps do not change.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from jobflow.api.flow.status import (
    CANCELLED,
    ENDED_STEP_PHASES,
    JobRecord,
    JobRunningHistory,
    RunCondition,
    StepPhase,
)
from jobflow.api.volcano.job import ENDED_PHASES, Job, JobPhase, JobState
from jobflow.core.planning.children import ChildFlow
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.decision import StepDecision
from jobflow.core.planning.observed import FAILURES, ObservedRun, attempt_of
from jobflow.core.reasons import StepReason

KEPT_HISTORIES = 10

_LISTS: Mapping[str, str] = {
    JobPhase.PENDING: "pending_jobs",
    JobPhase.RUNNING: "running_jobs",
    JobPhase.RESTARTING: "running_jobs",
    JobPhase.FAILED: "failed_jobs",
    JobPhase.COMPLETING: "completed_jobs",
    JobPhase.COMPLETED: "completed_jobs",
    JobPhase.TERMINATING: "terminated_jobs",
    JobPhase.TERMINATED: "terminated_jobs",
    JobPhase.ABORTING: "terminated_jobs",
    JobPhase.ABORTED: "terminated_jobs",
}
"""The list of a vcjob, by its phase, as in Volcano."""
UNKNOWN_LIST = "un_know_jobs"
"""The list of vcjobs in another phase, and of those that are gone and whose end was not seen."""
JOB_LISTS = frozenset({*_LISTS.values(), UNKNOWN_LIST})

_INDEX_BITS = 32
"""Bits of a record's rank for the run's index; the step's position is above them."""

_CLOSED = frozenset({StepPhase.WAITING, StepPhase.COMPLETED, StepPhase.FAILED})
_PHASE_OF: Mapping[str, str] = {
    **{reason: phase for phase, reason in FAILURES.items()},
    CANCELLED: JobPhase.ABORTED,
    StepReason.TIMEOUT: JobPhase.ABORTED,
    StepReason.FAILURE_POLICY: JobPhase.ABORTED,
    StepReason.SUSPENDED: JobPhase.ABORTED,
    StepReason.DAEMON_ENDED: JobPhase.ABORTED,
    StepReason.OUTPUTS_TOO_LARGE: JobPhase.COMPLETED,
    StepReason.RETRYING: JobPhase.FAILED,
}
"""The phase of an ended vcjob, by its run's reason; for other reasons the run's phase."""


def job_records(ctx: PlanContext, decisions: Sequence[StepDecision]) -> list[JobRecord]:
    """Return all records, ordered by step, run and attempt. The end of a vcjob is recorded together
    with the end of its run, never before."""
    old = ctx.records
    new: dict[str, JobRecord] = {}
    ranks: dict[str, int] = {}
    for position, observed in enumerate(ctx.observed):
        decision = decisions[position]
        condition = decision.condition
        if observed.loops:
            for run in observed.runs:
                rank = (position << _INDEX_BITS) + (run.index or 0)
                ranks[run.key] = ranks[run.stored.job or run.key] = rank
                _of_run(new, ranks, run, rank, decision, ctx)
            missing = {run.index for run in observed.runs if run.job is None or run.gone}
            for each in condition.runs or () if missing else ():
                if each.index in missing:
                    _close(new, old, each, ctx)
        elif observed.jobs or condition.job:
            rank = position << _INDEX_BITS
            if observed.stored.job:
                ranks[observed.stored.job] = rank
            _of_run(new, ranks, observed, rank, decision, ctx)
            if condition.job and (observed.job is None or observed.gone):
                _close(new, old, condition, ctx)
    return _ordered({**old, **new}, ranks, ctx.layout.by_key)


def _of_run(
    new: dict[str, JobRecord],
    ranks: dict[str, int],
    run: ObservedRun,
    rank: int,
    decision: StepDecision,
    ctx: PlanContext,
) -> None:
    for job in run.jobs:
        if isinstance(job, ChildFlow):
            continue
        name = job.metadata.name
        known = ctx.records.get(name)
        if known is None and _dropped(run, job):
            continue
        ranks[name] = rank
        if known is not None and _is_current(known, job, name in ctx.view.deleted):
            continue
        if job is run.job and job.ended and job.metadata.uid in decision.unjudged:
            new[name] = known or job_record(before_its_end(job), None, ctx)
        else:
            new[name] = job_record(job, known, ctx)


def job_record(job: Job, old: JobRecord | None, ctx: PlanContext) -> JobRecord:
    """Return the record of a vcjob; `old` itself if nothing has changed."""
    gone = job.metadata.name in ctx.view.deleted
    if old is not None and _is_current(old, job, gone):
        return old
    return JobRecord(
        name=job.metadata.name,
        state=job.phase,
        start_timestamp=job.metadata.creation_timestamp,
        end_timestamp=job.status.state.last_transition_time or ctx.second if job.ended else None,
        restart_count=job.status.retry_count or 0,
        running_histories=_histories(job, old, ctx.second) or None,
    )


def ended(record: JobRecord) -> bool:
    """Whether the record holds the vcjob's end."""
    return record.state in ENDED_PHASES


def job_lists(
    records: Sequence[JobRecord], decisions: Sequence[StepDecision], ctx: PlanContext
) -> dict[str, list[str]]:
    """Return the `…Jobs` lists by field name, without empty ones. If the record of a vcjob was
    dropped for the status's size, its run's condition counts."""
    lists: dict[str, list[str]] = {}
    recorded = {record.name for record in records} | ctx.children
    for record in records:
        lost = record.end_timestamp is not None and not ended(record)
        into = UNKNOWN_LIST if lost else _LISTS.get(record.state, UNKNOWN_LIST)
        lists.setdefault(into, []).append(record.name)
    for decision in decisions:
        condition = decision.condition
        for run in condition.runs or (condition,):
            if run.job and run.job not in recorded:
                into = _LISTS.get(_PHASE_OF.get(run.reason, run.phase), UNKNOWN_LIST)
                lists.setdefault(into, []).append(run.job)
    return lists


def _dropped(run: ObservedRun, job: Job) -> bool:
    """Whether the vcjob's record was dropped for the status's size: the end of an attempt is
    written together with its vcjob's record."""
    stored = run.stored
    if not job.ended:
        return False
    has_ended = run.between_attempts or stored.phase in ENDED_STEP_PHASES
    return attempt_of(job) < stored.attempts or (has_ended and stored.job == job.metadata.name)


def _is_current(old: JobRecord, job: Job, gone: bool) -> bool:
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


def _histories(job: Job, old: JobRecord | None, now: datetime) -> list[JobRunningHistory]:
    """Return the phases of the vcjob, after those of the old record: Volcano's conditions hold a
    phase only once, with its last time."""
    known = list((old.running_histories if old is not None else None) or ())
    for state, since in _new_phases(known, _phases(job, now)):
        if known:
            known[-1] = msgspec.structs.replace(known[-1], end_timestamp=since)
        known.append(JobRunningHistory(state=state, start_timestamp=since))
    return known[-KEPT_HISTORIES:]


def _new_phases(
    known: Sequence[JobRunningHistory], seen: Sequence[tuple[str, datetime]]
) -> Sequence[tuple[str, datetime]]:
    """Return the part of `seen` after `known`, at the largest overlap."""
    for shared in range(len(seen), 0, -1):
        ended_in = seen[max(shared - len(known), 0) : shared]
        if known and all(map(_same, known[-len(ended_in) :], ended_in)):
            return seen[shared:]
    return seen


def _same(known: JobRunningHistory, seen: tuple[str, datetime]) -> bool:
    # Volcano moves the time of a phase while it lasts
    state, since = seen
    return known.state == state and (known.end_timestamp is None or since <= known.end_timestamp)


def _phases(job: Job, now: datetime) -> list[tuple[str, datetime]]:
    """Return (phase, since when) of each known phase; a vcjob is Pending since its creation."""
    status, made = job.status, job.metadata.creation_timestamp
    fallback = status.state.last_transition_time or now
    phases = [(c.status, c.last_transition_time or fallback) for c in status.conditions or ()]
    if phases and phases[0][0] == JobPhase.PENDING and made is not None:
        phases[0] = (JobPhase.PENDING, made)
    phase = status.state.phase or JobPhase.PENDING
    if not phases or phases[-1][0] != phase:
        first = made if phase == JobPhase.PENDING and not phases else None
        phases.append((phase, first or fallback))
    return phases


def _close(
    new: dict[str, JobRecord], old: Mapping[str, JobRecord], run: RunCondition, ctx: PlanContext
) -> None:
    """Record the end of a vcjob that is gone without a recorded end: the end of its run or, if the
    run waits for its next attempt, an unknown end. An existing vcjob has an end of its own."""
    if run.job in ctx.view.jobs and run.job not in ctx.view.deleted:
        return
    record = new.get(run.job) or old.get(run.job)
    if record is None or ended(record) or run.phase not in _CLOSED:
        return
    state = record.state if run.phase == StepPhase.WAITING else _PHASE_OF.get(run.reason, run.phase)
    end = record.end_timestamp or ctx.second
    new[run.job] = msgspec.structs.replace(record, state=state, end_timestamp=end)


def _ordered(
    records: dict[str, JobRecord], ranks: Mapping[str, int], positions: Mapping[str, int]
) -> list[JobRecord]:
    """Return the records by rank; one that no run names stays behind the one before it.
    `positions`: those of steps, by key."""
    ranked: list[tuple[int, JobRecord]] = []
    last = -1
    for name, record in records.items():
        rank = ranks.get(name)
        if rank is not None:
            last = rank
        elif name in positions:
            last = positions[name] << _INDEX_BITS
        ranked.append((last, record))
    ranked.sort(key=lambda rank: rank[0])
    return [record for _, record in ranked]
