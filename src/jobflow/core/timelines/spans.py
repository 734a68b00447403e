"""Spans of vcjobs: when each was queued in Volcano and when it ran, by the records of a status."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise

from jobflow.api.flow import status as api
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.step import Step
from jobflow.api.volcano.job import JobPhase
from jobflow.core.names import format_job_name, format_run_name
from jobflow.core.work import ends_in_status

_QUEUED = frozenset({"", JobPhase.PENDING})
_ATTEMPT = re.compile(r"-r[1-9][0-9]*$")


class State(StrEnum):
    """State of a step during a span."""

    WAITING = "waiting"
    QUEUED = "queued"
    RUNNING = "running"


@dataclass(frozen=True, slots=True)
class Span:
    """A time in which a step was in one state."""

    state: State
    start: datetime
    end: datetime
    """The present time if the state lasts."""
    job: str = ""
    """The vcjob; "" while the step waits."""
    is_open: bool = False
    outcome: str = ""
    """The last phase of the vcjob, if it has ended."""

    @property
    def duration(self) -> timedelta:
        return self.end - self.start


def time_by_state(
    spans: Iterable[Span], start: datetime, end: datetime
) -> Mapping[State, timedelta]:
    """Divide the time from `start` to `end` by state. If spans overlap, running counts before
    queued; time without either is waiting. The sum is always `end - start`."""
    known = sorted(spans, key=lambda span: span.start)
    running = _covered((each for each in known if each.state is State.RUNNING), start, end)
    busy = _covered((each for each in known if each.state is not State.WAITING), start, end)
    return {State.WAITING: end - start - busy, State.QUEUED: busy - running, State.RUNNING: running}


def _covered(spans: Iterable[Span], start: datetime, end: datetime) -> timedelta:
    """Return how much of a time is covered by spans, which are sorted by their start."""
    total, until = timedelta(), start
    for span in spans:
        until = max(until, span.start)
        if until < min(span.end, end):
            total += min(span.end, end) - until
            until = min(span.end, end)
    return total


def spans_of_job(record: api.JobRecord, now: datetime) -> Iterator[Span]:
    """Yield a queued span, unless it is empty, and a running span if the vcjob ran."""
    created = record.start_timestamp
    if created is None:
        return
    is_open = record.end_timestamp is None
    outcome = "" if is_open else record.state
    end = max(record.end_timestamp or now, created)
    histories = record.running_histories or ()
    # from its first start on it runs, also while Volcano restarts it
    starts = (each.start_timestamp for each in histories if each.state == JobPhase.RUNNING)
    began = next((start for start in starts if start is not None), None)
    runs = is_open and record.state not in _QUEUED
    if began is None and (record.state == JobPhase.COMPLETED or runs):
        began = created  # without a recorded start, a vcjob that completed ran all the time
    if began is None:
        yield Span(State.QUEUED, created, end, record.name, is_open, outcome)
        return
    began = min(max(began, created), end)
    if began > created:
        yield Span(State.QUEUED, created, began, record.name, outcome=outcome)
    yield Span(State.RUNNING, began, end, record.name, is_open, outcome)


Attempted = tuple[Step, api.StepCondition, api.RunCondition, list[api.JobRecord]]
"""A step and its condition, a run of it, and the records of the run."""


class Attempts:
    """The records of a flow's vcjobs by step and run."""

    def __init__(self, flow: JobFlow) -> None:
        self._steps, self._conditions = flow.all_steps, flow.status.conditions or {}
        self.keys = [format_job_name(flow.metadata.name, step.name) for step in flow.all_steps]
        """The key of each step in `status.conditions`, which is also the name of its vcjob."""
        runs: dict[str, str] = {}
        for key in self.keys:
            for run in runs_of(self._conditions.get(key, api.StepCondition())):
                first = format_run_name(key, run.index)
                runs |= {first: first, run.job: first}
        pairs = zip(self.keys, flow.all_steps, strict=True)
        self._in_status = {key for key, step in pairs if ends_in_status(step)}
        self._by_run: dict[str, list[api.JobRecord]] = {}
        last = ""
        # records are in the order of steps, runs and attempts
        for record in flow.status.job_status_list or ():
            last = runs.get(record.name) or runs.get(_ATTEMPT.sub("", record.name)) or last
            if last and (record.name in runs or _ATTEMPT.search(record.name)):
                # the name of an attempt may be shortened; its record is behind that of its run
                self._by_run.setdefault(last, []).append(record)

    def each(self) -> Iterator[Attempted]:
        """Yield all runs, in the order of the spec."""
        for key, step in zip(self.keys, self._steps, strict=True):
            condition = self._conditions.get(key, api.StepCondition())
            for run in runs_of(condition):
                yield step, condition, run, self.of_run(key, run)

    def of_run(self, key: str, run: api.RunCondition) -> list[api.JobRecord]:
        """Return the records of a run of the step with this key, in the order of its attempts."""
        in_status = key in self._in_status and run.create_time is not None and not run.job
        if not run.flow and not in_status:
            return self._by_run.get(format_run_name(key, run.index), [])
        # work that is not recorded has the times of a vcjob that runs from its start
        running = api.JobRunningHistory(state=JobPhase.RUNNING, start_timestamp=run.create_time)
        record = api.JobRecord(
            name=run.flow,
            state=run.phase,
            start_timestamp=run.create_time,
            end_timestamp=run.last_transition_time if run.phase in api.ENDED_STEP_PHASES else None,
            running_histories=[running],
        )
        return [record]


def last_retry(flow: JobFlow) -> datetime | None:
    """Return when the flow was last retried; None if no step has attempts from before a retry."""
    conditions = (flow.status.conditions or {}).values()
    if not any(run.past_attempts for each in conditions for run in runs_of(each)):
        return None
    return flow.status.queued_time or flow.status.start_time


def list_retries(flow: JobFlow, attempts: Attempts) -> Sequence[datetime]:
    # the status has only the time of the last retry
    last = last_retry(flow)
    if last is None:
        return ()
    earlier = set[datetime]()
    for step, _, _, records in attempts.each():
        # without `retry`, only a retry of the flow makes a vcjob after one that has ended
        for before, again in pairwise(records) if step.retry is None else ():
            created = again.start_timestamp
            ended = before.state in (JobPhase.FAILED, JobPhase.COMPLETED)
            if ended and created is not None and created < last:
                earlier.add(created)
    return (*sorted(earlier), last)


class RunSpans:
    """The spans of a flow's runs within a time."""

    def __init__(self, flow: JobFlow, start: datetime, end: datetime) -> None:
        self.attempts = Attempts(flow)
        self._retries = list_retries(flow, self.attempts)
        self._is_final = flow.final
        self._start, self._end = start, end

    def of_run(self, key: str, run: api.RunCondition) -> list[Span]:
        """Return the spans of all attempts of a run of the step with this key, and the waits
        between them. A run that ended before a retry of the flow waits only from the retry on."""
        spans: list[Span] = []
        for record in self.attempts.of_run(key, run):
            jobs = [*filter(None, map(self._cut, spans_of_job(record, self._end)))]
            if spans and jobs:
                since = self.waits_from(spans[-1].end, jobs[0].start)
                if jobs[0].start > since:
                    spans.append(Span(State.WAITING, since, jobs[0].start))
            spans += jobs
        return spans

    def waits_from(self, ended: datetime, until: datetime) -> datetime:
        """Return when a run whose vcjob has ended began to wait for its next vcjob, which was
        created at `until`: at the last retry of the flow between them, or else at the end."""
        between = (each for each in self._retries if ended < each <= until)
        return max(between, default=ended)

    def _cut(self, span: Span) -> Span | None:
        start, end = max(span.start, self._start), min(span.end, self._end)
        if start > end or (span.end <= self._start and span.start < self._start):
            return None
        return replace(span, start=start, end=end, is_open=span.is_open and not self._is_final)


def runs_of(condition: api.StepCondition) -> Sequence[api.RunCondition]:
    """Return the runs of a step with forEach or repeat, or the only run of another step."""
    return condition.runs or (condition,)
