"""`jobStatusList` and the `…Jobs` lists: one record for each vcjob (`observed/job_history.py`)."""

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter

import msgspec

from jobflow.api.flow.status import CANCELLED, ENDED_STEP_PHASES, JobRecord, RunCondition, StepPhase
from jobflow.api.volcano.job import ENDED_PHASES, JobPhase
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.decision import StepDecision
from jobflow.core.planning.observed.job_history import (
    before_its_end,
    has_end,
    is_current,
    job_record,
)
from jobflow.core.planning.observed.steps import FAILURES, ObservedRun, attempt_of
from jobflow.core.reasons import StepReason
from jobflow.core.work import work_of_object

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
_CLOSED = ENDED_STEP_PHASES | {StepPhase.WAITING}
_ABORTED = (
    CANCELLED,
    StepReason.TIMEOUT,
    StepReason.QUEUE_TIMEOUT,
    StepReason.FAILURE_POLICY,
    StepReason.SUSPENDED,
    StepReason.DAEMON_ENDED,
    StepReason.NOT_NEEDED,
    StepReason.SKIPPED_BY_USER,
)
_PHASE_OF: Mapping[str, str] = {
    **{reason: phase for phase, reason in FAILURES.items()},
    **dict.fromkeys(_ABORTED, JobPhase.ABORTED),
    StepReason.OUTPUTS_TOO_LARGE: JobPhase.COMPLETED,
    StepReason.RETRYING: JobPhase.FAILED,
}
"""The phase of an ended vcjob, by its run's reason; for other reasons the run's phase."""


def job_records(ctx: PlanContext, decisions: Sequence[StepDecision]) -> list[JobRecord]:
    """Return all records, ordered by step, run and attempt. The end of a vcjob is recorded together
    with the end of its run, never before."""
    ranks: dict[str, int] = {}
    new = new_records(ctx, decisions, range(len(decisions)), ranks)
    ranked: list[tuple[int, JobRecord]] = []
    last = -1
    for name, record in {**ctx.records, **new}.items():
        if (rank := ranks.get(name)) is not None:
            last = rank
        elif (position := ctx.layout.by_key.get(name)) is not None:
            last = position << _INDEX_BITS
        ranked.append((last, record))  # one that no run names stays behind the one before it
    ranked.sort(key=itemgetter(0))
    return [record for _, record in ranked]


def new_records(
    ctx: PlanContext,
    decisions: Sequence[StepDecision],
    positions: Iterable[int],
    ranks: dict[str, int],
) -> dict[str, JobRecord]:
    """Return the records of these steps that differ from the stored ones, by name. `ranks` gets the
    place of each vcjob in the order of all records."""
    new: dict[str, JobRecord] = {}
    for position in positions:
        observed, decision = ctx.observed[position], decisions[position]
        condition = decision.condition
        if observed.loops:
            for run in observed.runs:
                rank = (position << _INDEX_BITS) + (run.index or 0)
                ranks[run.key] = ranks[run.stored.job or run.key] = rank
                _of_run(new, ranks, run, rank, decision, ctx)
            # only these may have ended without a last sight of their object
            missing = {run.index for run in observed.runs if run.job is None or run.gone}
            for each in condition.runs or () if missing else ():
                if each.index in missing:
                    _close(new, each, ctx)
        elif observed.jobs or condition.job:
            rank = position << _INDEX_BITS
            if observed.stored.job:
                ranks[observed.stored.job] = rank
            _of_run(new, ranks, observed, rank, decision, ctx)
            if condition.job and (observed.job is None or observed.gone):
                _close(new, condition, ctx)
    return new


def _of_run(
    new: dict[str, JobRecord],
    ranks: dict[str, int],
    run: ObservedRun,
    rank: int,
    decision: StepDecision,
    ctx: PlanContext,
) -> None:
    stored = run.stored
    for job in run.jobs:
        name = job.metadata.name
        known, gone = ctx.records.get(name), name in ctx.view.deleted
        if known is not None and is_current(known, job, gone):
            ranks[name] = rank
            continue
        # Volcano's lists name vcjobs alone
        if not work_of_object(job).is_recorded:
            continue
        if known is None and job.ended:
            has_ended = run.between_attempts or stored.phase in ENDED_STEP_PHASES
            is_earlier = attempt_of(job) < stored.attempts
            if is_earlier or (has_ended and stored.job == name):
                continue  # written with the end of its attempt, then dropped for the status's size
        ranks[name] = rank
        if job is run.job and job.ended and job.metadata.uid in decision.unjudged:
            before = before_its_end(job)  # the end is recorded together with that of the run
            new[name] = known or job_record(before, None, gone=gone, now=ctx.second)
        else:
            new[name] = job_record(job, known, gone=gone, now=ctx.second)


def job_lists(
    records: Sequence[JobRecord], decisions: Sequence[StepDecision], ctx: PlanContext
) -> dict[str, list[str]]:
    """Return the `…Jobs` lists by field name, without empty ones."""
    lists: dict[str, list[str]] = {}
    recorded = {record.name for record in records}
    if ctx.layout.has_children:
        recorded |= ctx.children
    for record in records:
        lost = record.end_timestamp is not None and record.state not in ENDED_PHASES
        into = UNKNOWN_LIST if lost else _LISTS.get(record.state, UNKNOWN_LIST)
        lists.setdefault(into, []).append(record.name)
    # if the record of a vcjob was dropped for the status's size, its run's condition counts
    for decision in decisions:
        condition = decision.condition
        for run in condition.runs or (condition,):
            if run.job and run.job not in recorded and run.reason != StepReason.REUSED:
                into = _LISTS.get(_PHASE_OF.get(run.reason, run.phase), UNKNOWN_LIST)
                lists.setdefault(into, []).append(run.job)
    return lists


def _close(new: dict[str, JobRecord], run: RunCondition, ctx: PlanContext) -> None:
    """Record the end of a vcjob that is gone without a recorded end."""
    if run.job in ctx.view.jobs and run.job not in ctx.view.deleted:
        return  # it has an end of its own
    record = new.get(run.job) or ctx.records.get(run.job)
    if record is None or has_end(record) or run.phase not in _CLOSED:
        return
    # that of its run, or an unknown end if the run waits for its next attempt
    state = record.state if run.phase == StepPhase.WAITING else _PHASE_OF.get(run.reason, run.phase)
    end = record.end_timestamp or ctx.second
    new[run.job] = msgspec.structs.replace(record, state=state, end_timestamp=end)
