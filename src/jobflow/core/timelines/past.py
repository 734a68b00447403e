"""A flow as it was at an earlier time, as far as its status remembers.

A status keeps the times of each vcjob, and since when each step is in its present phase. Before,
the phase of a step is that of the vcjob that existed at the time, or Waiting; from the end of its
last vcjob before a retry of the flow until that retry, it is that of its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import chain
from typing import TypeVar

from msgspec.structs import replace

from jobflow.api.flow import status as api
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.volcano.job import JobPhase
from jobflow.core.names import stored_condition
from jobflow.core.text import format_duration, join_names
from jobflow.core.timelines import spans
from jobflow.core.timelines.timeline import StepTimeline, Timeline, first_start

UNKNOWN = "Unknown"
"""Phase of a step at a time that its status does not remember."""
_HISTORIES = 10
"""Phases of a vcjob that Volcano and its record keep."""
_JUDGED_WITHIN = timedelta(seconds=5)
"""Within this time after its end, the controller has usually judged a vcjob."""

C = TypeVar("C", bound=api.RunCondition)


def flow_at(flow: JobFlow, moment: datetime) -> JobFlow:
    """Return a flow whose status is that of an earlier time. If the flow had ended by then, or has
    no times, it is the flow itself. Before its first start, all its steps are Waiting."""
    if first_start(flow) is None or (flow.final and moment >= last_time(flow)):
        return flow
    return replace(flow, status=_Past(flow, moment).status())


def last_time(flow: JobFlow) -> datetime:
    """Return the last time that the status of a flow with a start remembers."""
    status = flow.status
    records = status.job_status_list or ()
    times = [status.start_time, status.completion_time]
    times += [time for each in records for time in (each.start_timestamp, each.end_timestamp)]
    for condition in (status.conditions or {}).values():
        times += [run.last_transition_time for run in (condition, *spans.runs_of(condition))]
    return max(time for time in times if time is not None)


class _Past:
    def __init__(self, flow: JobFlow, moment: datetime) -> None:
        self._flow, self._moment = flow, moment
        self._attempts = spans.Attempts(flow)
        self._start = first_start(flow)
        retries = spans.list_retries(flow, self._attempts)
        self._retry = next((each for each in retries if moment < each), None)
        """The first retry after the time; None if there is none."""
        self._has_started = self._start is not None and moment >= self._start
        self._daemons = {
            key
            for key, step in zip(self._attempts.keys, flow.all_steps, strict=True)
            if step.daemon
        }

    def status(self) -> api.JobFlowStatus:
        status = self._flow.status
        stored, conditions = status.conditions or {}, dict[str, api.StepCondition]()
        for key in self._attempts.keys:
            if key not in stored:
                continue
            if not self._has_started:
                conditions[key] = api.StepCondition(phase=api.StepPhase.WAITING)
            elif stored[key].runs:
                conditions[key] = self._with_runs(key, stored[key])
            else:
                conditions[key] = self._run(key, stored[key])
        records = status.job_status_list or ()
        phases = {each.phase for each in conditions.values()} - {api.StepPhase.WAITING}
        phase = api.FlowPhase.RUNNING if phases else api.FlowPhase.PENDING
        if phases and phases <= api.ENDED_STEP_PHASES and self._ended_before_retry(records):
            phase = api.FlowPhase.FAILED
        ended = sum(each.phase in api.ENDED_STEP_PHASES for each in conditions.values())
        suspended = status.suspended_at
        start = self._start if self._retry is not None else status.start_time
        return api.JobFlowStatus(
            state=api.FlowState(phase=phase),
            progress=f"{ended}/{len(self._flow.all_steps)}",
            start_time=start if self._has_started else None,
            conditions=conditions,
            job_status_list=[*filter(None, map(self._record, records))],
            suspended_at=suspended if suspended and suspended <= self._moment else None,
        )

    def _ended_before_retry(self, records: Iterable[api.JobRecord]) -> bool:
        """Whether the time is before a retry of the flow, and after the end of all vcjobs of these
        that were created before that retry."""
        if (retry := self._retry) is None:
            return False
        ends = [
            each.end_timestamp
            for each in records
            if each.start_timestamp is not None and each.start_timestamp < retry
        ]
        return bool(ends) and all(_is_before(end, self._moment) for end in ends)

    def _with_runs(self, key: str, condition: api.StepCondition) -> api.StepCondition:
        runs = [self._run(key, run) for run in condition.runs or ()]
        begun = [run for run in runs if run.attempts or run.phase != api.StepPhase.WAITING]
        since = condition.last_transition_time or _latest(map(self._since, [key] * len(runs), runs))
        if since is not None and self._moment >= since:
            return replace(_without_progress(condition), runs=begun or None)
        phases = [
            run.phase for run in begun if run.phase not in (*api.ENDED_STEP_PHASES, "Waiting")
        ]
        is_alone = len(phases) == 1 and len(condition.runs or ()) == 1
        phase = phases[0] if is_alone else JobPhase.RUNNING if phases else api.StepPhase.WAITING
        if self._ended_before_retry(chain(*(self._attempts.of_run(key, run) for run in begun))):
            has_failed = any(run.phase == api.StepPhase.FAILED for run in begun)
            phase = api.StepPhase.FAILED if has_failed else api.StepPhase.COMPLETED
        return api.StepCondition(
            phase=phase,
            runs=begun or None,
            attempts=sum(run.attempts for run in begun),
            create_time=min((run.create_time for run in begun if run.create_time), default=None),
            decisions=condition.decisions if begun else None,
        )

    def _run(self, key: str, run: C) -> C:
        records = self._attempts.of_run(key, run)
        begun = [each for each in records if _is_before(each.start_timestamp, self._moment)]
        since = self._since(key, run)
        if since is None and run.phase not in ("", api.StepPhase.WAITING):
            return self._past(run, UNKNOWN, begun)
        if since is None or self._moment >= since:
            return _without_progress(run)
        if not begun:
            return self._past(run, api.StepPhase.WAITING, begun)
        if run.flow and run.past_attempts:
            return self._past(run, UNKNOWN, begun)  # its end before the retry is not kept
        # the attempt that existed at the time
        last = begun[-1]
        if not _is_before(last.end_timestamp, self._moment):
            return self._past(run, _phase_of_job(last, self._moment), begun)
        # the controller judges a job a moment after its end
        is_judged = run.phase in (api.StepPhase.COMPLETED, api.StepPhase.FAILED)
        ended = last.end_timestamp
        if last is records[-1] and is_judged and ended and since - ended <= _JUDGED_WITHIN:
            return run
        if not self._ended_before_retry(records):
            return self._past(run, api.StepPhase.WAITING, begun)
        # the end of the flow aborts daemons, which completes them
        is_daemon = key in self._daemons and last.state != JobPhase.FAILED
        has_completed = is_daemon or last.state == JobPhase.COMPLETED
        return self._past(
            run, api.StepPhase.COMPLETED if has_completed else api.StepPhase.FAILED, begun
        )

    def _since(self, key: str, run: api.RunCondition) -> datetime | None:
        """Return since when a run is in its present phase; None if nothing tells."""
        if run.last_transition_time is not None:
            return run.last_transition_time
        records = self._attempts.of_run(key, run)
        if run.phase in api.ENDED_STEP_PHASES:
            return _latest(each.end_timestamp for each in records)
        return _latest(
            history.start_timestamp
            for each in records
            for history in (each, *(each.running_histories or ()))
        )

    def _past(self, run: C, phase: str, begun: Sequence[api.JobRecord]) -> C:
        """Return a run in an earlier phase: only what was known of it then."""
        known = type(run)(index=run.index, phase=phase, attempts=len(begun))
        if not begun:
            return known
        last = begun[-1]
        names = {"flow": run.flow} if run.flow else {"job": last.name}
        if isinstance(run, api.StepCondition):
            known = replace(known, decisions=run.decisions)
        return replace(known, create_time=last.start_timestamp, **names)

    def _record(self, record: api.JobRecord) -> api.JobRecord | None:
        if not _is_before(record.start_timestamp, self._moment) or not self._has_started:
            return None
        if _is_before(record.end_timestamp, self._moment):
            return record
        histories = [
            each
            for each in record.running_histories or ()
            if _is_before(each.start_timestamp, self._moment)
        ]
        phase = _phase_of_job(record, self._moment)
        return replace(record, state=phase, end_timestamp=None, running_histories=histories)


def _phase_of_job(record: api.JobRecord, moment: datetime) -> str:
    # at a time between its creation and its end
    known = [
        each
        for each in record.running_histories or ()
        if _is_before(each.start_timestamp, moment) and each.state
    ]
    if known:
        return known[-1].state
    before = [span for span in spans.spans_of_job(record, moment) if span.start <= moment]
    is_running = bool(before) and before[-1].state is spans.State.RUNNING
    return JobPhase.RUNNING if is_running else JobPhase.PENDING


def _without_progress(run: C) -> C:
    """Return a run in its present phase, with its message only if it has ended: others change."""
    return run if run.phase in api.ENDED_STEP_PHASES else replace(run, message="")


def _is_before(time: datetime | None, moment: datetime) -> bool:
    return time is not None and time <= moment


def _latest(times: Iterable[datetime | None]) -> datetime | None:
    return max((time for time in times if time is not None), default=None)


def forgotten(flow: JobFlow) -> list[str]:
    """Return sentences about what the status of a flow does not remember of its past."""
    again, unknown, children = False, [], []
    for step, _, run, records in spans.Attempts(flow).each():
        again = again or run.past_attempts > 0
        has_time = run.last_transition_time is not None or any(
            each.start_timestamp is not None for each in records
        )
        if run.phase not in ("", api.StepPhase.WAITING) and not has_time:
            unknown.append(step.name)
        if run.flow and run.attempts - run.past_attempts > 1:
            children.append(step.name)
    long = [
        record.name
        for record in flow.status.job_status_list or ()
        if len(record.running_histories or ()) >= _HISTORIES
    ]
    found: list[str] = []
    if again:
        found.append(
            "The flow was retried. Only its jobs are known of the time before: a step that was "
            "skipped then is shown as Waiting."
        )
    if seconds := flow.status.suspended_seconds:
        length = format_duration(timedelta(seconds=seconds))
        found.append(f"The flow was suspended for {length} in all; it is not known when.")
    if unknown:
        found.append(
            f"It is not known when {join_names(dict.fromkeys(unknown))} started and ended."
        )
    if children:
        found.append(f"Only the last child flow of {join_names(dict.fromkeys(children))} is known.")
    if long:
        found.append(f"Only the last {_HISTORIES} phases of {join_names(long)} are known.")
    return found


class MomentKind(StrEnum):
    """The most important thing that happened at a time."""

    FAILED = "failed"
    RETRIED = "retried"
    STARTED = "started"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Moment:
    """A time at which something happened."""

    time: datetime
    kind: MomentKind
    words: str
    """`a failed; b and c started`, or `the flow was retried`."""


def moments(flow: JobFlow, found: Timeline) -> list[Moment]:
    """Return the times at which steps and attempts started, failed or ended, and the last retry, in
    their order, one for each second. `found`: the timeline of the flow."""
    by_time: dict[datetime, dict[MomentKind, dict[str, None]]] = {}
    retry = spans.last_retry(flow)
    if retry is not None and found.start <= retry <= found.end:
        by_time[retry] = {MomentKind.RETRIED: {"the flow was": None}}
    for line in found.steps:
        condition = stored_condition(flow, line.step) or api.StepCondition()
        for time, kind in _of_step(line, condition):
            if found.start <= time <= found.end:
                by_time.setdefault(time, {}).setdefault(kind, {})[line.step] = None
    found_moments: list[Moment] = []
    for time, kinds in sorted(by_time.items()):
        present = [kind for kind in MomentKind if kind in kinds]  # the most important first
        words = "; ".join(f"{join_names(kinds[kind])} {kind}" for kind in present)
        found_moments.append(Moment(time, present[0], words))
    return found_moments


def _of_step(
    line: StepTimeline, condition: api.StepCondition
) -> Iterator[tuple[datetime, MomentKind]]:
    last = {span.job: span for span in line.spans if span.job}
    seen = {""}
    for span in line.spans:
        if span.job not in seen:
            seen.add(span.job)
            yield span.start, MomentKind.STARTED
        if span.outcome == JobPhase.FAILED and span is last[span.job]:
            yield span.end, MomentKind.FAILED
    if line.phase in api.ENDED_STEP_PHASES:
        jobs = [span.end for span in line.spans if span.job]
        time = max(jobs, default=condition.last_transition_time)
        if time is not None:
            is_bad = line.phase == api.StepPhase.FAILED
            yield time, MomentKind.FAILED if is_bad else MomentKind.ENDED
