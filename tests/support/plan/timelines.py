"""Flows with times, their timelines as words, and what holds for every timeline."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import JobRecord, JobRunningHistory, StepCondition
from jobflow.api.flow.step import DependsOn, Step
from jobflow.core.timelines.spans import State
from jobflow.core.timelines.timeline import StepTimeline, Timeline, timeline
from support.plan.flow_statuses import START, several

LETTERS = {State.WAITING: "w", State.QUEUED: "q", State.RUNNING: "r"}


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def record(
    name: str, times: tuple[float | None, ...], state: str = "Completed", **fields: Any
) -> JobRecord:
    """A vcjob that was created, started and ended at these times; None: it has not."""
    created, began, ended = times
    histories = [JobRunningHistory(state="Pending", start_timestamp=at(created or 0))]
    if began is not None:
        histories.append(JobRunningHistory(state="Running", start_timestamp=at(began)))
    return JobRecord(
        name=f"f-{name}",
        state=state,
        start_timestamp=None if created is None else at(created),
        end_timestamp=None if ended is None else at(ended),
        running_histories=histories,
        **fields,
    )


Steps = Mapping[str, StepCondition | tuple[Step, StepCondition]]


def flow_of(
    steps: Steps,
    records: list[JobRecord],
    *,
    end: float | None = None,
    last: Steps | None = None,
    **status: Any,
) -> JobFlow:
    """A flow named f that has ended at this second, or has not; `a <- b c` depends on b and c."""
    return several(
        _pairs(steps),
        "Running" if end is None else "Succeed",
        last=_pairs(last or {}),
        status={
            "job_status_list": records,
            "completion_time": None if end is None else at(end),
            **status,
        },
    )


def _pairs(steps: Steps) -> list[tuple[Step, StepCondition]]:
    pairs = []
    for entry, value in steps.items():
        name, _, targets = entry.partition(" <- ")
        depends_on = DependsOn(targets=targets.split()) if targets else None
        step, condition = (
            value if isinstance(value, tuple) else (Step(name=name, depends_on=depends_on), value)
        )
        pairs.append((step, condition))
    return pairs


def done(job: str, **fields: Any) -> StepCondition:
    return StepCondition(phase="Completed", job=f"f-{job}", attempts=1, **fields)


def of(flow: JobFlow, now: float = 0) -> Timeline:
    found = timeline(flow, now=at(now))
    assert found is not None
    return found


def spans(row: StepTimeline) -> str:
    """The spans as words: `w0-2 q2-3 r3-9`; an open one ends with +."""
    return " ".join(
        f"{LETTERS[span.state]}{(span.start - START).total_seconds():g}"
        f"-{(span.end - START).total_seconds():g}{'+' if span.is_open else ''}"
        for span in row.spans
    )


def path(found: Timeline) -> str:
    return " ".join(
        f"{each.step}:{(each.end - each.start).total_seconds():g}" for each in found.path
    )


def seconds(found: Timeline) -> list[float]:
    return [time.total_seconds() for time in found.critical_times.values()]


def check_laws(found: Timeline) -> None:
    """Check what holds for the timeline of every flow."""
    assert sum(found.critical_times.values(), timedelta()) == found.duration
    names = {row.step: row for row in found.steps}
    for row in found.steps:
        assert [span.start for span in row.spans] == sorted(span.start for span in row.spans)
        assert all(found.start <= span.start <= span.end <= found.end for span in row.spans)
        assert sum(row.times.values(), timedelta()) == (row.end or found.start) - (
            row.start or found.start
        )
        assert row.is_open <= found.is_open
    if not found.path:
        return
    assert found.path[0].start == found.start
    assert found.path[-1].end == found.end
    for before, behind in pairwise(found.path):
        assert before.end == behind.start
    for each in found.path:
        assert sum(each.times.values(), timedelta()) == each.end - each.start
        assert names[each.step].is_critical and not names[each.step].is_daemon
        assert names[each.step].spans
