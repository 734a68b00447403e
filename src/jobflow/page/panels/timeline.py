"""The timeline of a flow, with bars for the times that each step waited and ran, its critical path,
and the time that is left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain, count
from typing import Any

from jobflow.api.flow.status import StepPhase
from jobflow.api.volcano.job import JobPhase
from jobflow.core.drawing.phase_looks import OTHER
from jobflow.core.drawing.svg import ticks
from jobflow.core.text import format_count, format_duration
from jobflow.core.timelines.spans import Span, State, last_retry
from jobflow.core.timelines.time_left import NoEstimate, time_left
from jobflow.core.timelines.timeline import (
    PathStep,
    StepTimeline,
    Timeline,
    first_start,
    merge_spans,
)
from jobflow.core.timestamps import add, truncate_to_second
from jobflow.page.flow_view import FlowView
from jobflow.page.panels.rows import Row, Rows
from jobflow.page.web.fragments import Fragment, look
from jobflow.page.web.stream import QUIET_SECONDS

MIN_WIDTH = 0.25
"""Percent of the width of the axis, so that a job of less than a second is seen."""
SINCE_RETRY = "retry"
"""The value of the query that asks for the time since the last retry."""
MAX_SPANS = 8
"""Times that are told one by one; more are summed up."""
_TICKS = 6
"""Times on an axis at most."""
_GROWTH = 1.5
"""How much more time the axis of a running flow has at most, so that it seldom changes."""
_FIRST = 30.0
_UNSUCCESSFUL = frozenset(
    {JobPhase.FAILED, JobPhase.ABORTED, JobPhase.ABORTING, JobPhase.TERMINATED}
)
_VERBS = {State.WAITING: "waited", State.QUEUED: "queued", State.RUNNING: "ran"}
_ENDS_OF_PATH = 8
"""Steps that are shown at each end of a long critical path."""


@dataclass(frozen=True, slots=True)
class Axis:
    """The time from the start of a flow to its end; with some room to grow if it runs."""

    start: datetime
    seconds: float
    ticks: Sequence[dict[str, Any]]
    """Round times: percent of the width, and the time since the start, such as `1m30s`."""

    @classmethod
    def of(cls, start: datetime, end: datetime, *, is_open: bool) -> Axis:
        """Return the axis; that of an open time changes only when `end` has almost reached it."""
        seconds = max((end - start).total_seconds(), 1.0)
        if is_open:
            # 30 s, and then half as much more each time, in whole units of five seconds
            steps = chain([_FIRST], (round(_FIRST * _GROWTH**n / 5) * 5 for n in count(1)))
            seconds = next(each for each in steps if each >= seconds + QUIET_SECONDS)
        found = [
            {"x": round(share * 100, 3), "text": format_duration(tick)}
            for tick, share in ticks(timedelta(seconds=seconds), _TICKS)
        ]
        return cls(start, seconds, found)

    def share(self, moment: datetime) -> float:
        """Return the place of a time, in percent of the width, from 0 to 100."""
        seconds = (moment - self.start).total_seconds()
        return round(min(max(seconds / self.seconds, 0.0), 1.0) * 100, 3)


def timeline_view(view: FlowView) -> Fragment:
    """Return the view of the timeline. Bars are also of the time before a retry, unless the query
    asks for less, but what is told of the flow begins with it."""
    # at an earlier time all bars are drawn too, with a cursor, and the phases of that time
    present = view.present()
    now = Rows.of(present)
    shown = now if view.at is None else Rows.of(view)
    then = {row.path: row for row in shown.shown()}
    found, first = now.found, first_start(present.flow)
    retried = last_retry(present.flow)
    is_whole = retried is not None and view.query.since != SINCE_RETRY
    rows = Rows.of(present, whole=True) if is_whole else now
    left = estimate(present) if found is not None else None
    axis = None
    # the expected end belongs to the axis, so that it can be drawn
    if found is not None and first is not None:
        end = max(found.end, left.high) if left and left.high else found.end
        axis = Axis.of(first if is_whole else found.start, end, is_open=found.is_open)
    path = {each.step: each for each in found.path} if found is not None else {}
    lanes = []
    for row in rows.shown():
        own = path.get(row.path) if not row.level else None
        lane = _lane(rows, row, axis, own, view.at, then.get(row.path))
        lanes.append(Fragment(f"lane:{row.path}", "lane.html", lane))
    scale = {
        "axis": axis,
        "is_open": found is not None and found.is_open,
        "estimate": left,
        "at": view.at,
        "retried": retried,
        "is_whole": is_whole,
    }
    marked = [
        Fragment("marks", "marks.html", scale),
        Fragment("lane-list", "lane-list.html", None, lanes),
    ]
    parts = [
        Fragment("axis", "axis.html", scale),
        Fragment("lanes", "lanes.html", None, marked),
        time_spent(found, left),
    ]
    return Fragment("timeline", "timeline.html", None, parts)


def _lane(
    rows: Rows,
    row: Row,
    axis: Axis | None,
    own: PathStep | None,
    at: datetime | None,
    then: Row | None,
) -> dict[str, Any]:
    """Return a lane: all bars of a row, and the rest as it was `then`, at an earlier time `at`.
    `own`: its part of the critical path."""
    spans: Sequence[Span] = row.line.spans
    # thousands of items would be thousands of bars in one lane
    if len({span.job for span in spans if span.job}) > 1 and row.inside is not None:
        spans = merge_spans(spans)
    bars = []
    if axis is not None:
        if own is not None:
            bars.append(_bar(axis, "path", "path", own.start, own.end, is_open=row.line.is_open))
        order = list(State)  # what runs is drawn over what waits
        for span in sorted(spans, key=lambda span: order.index(span.state)):
            kind, colour = span.state.value, _look(span, row.line)
            bars.append(_bar(axis, kind, colour, span.start, span.end, is_open=span.is_open))
    start, end = then.span if then is not None else (None, None)
    attempts = then.line.attempts if then is not None and row.inside is None else 0
    place = replace(
        rows.place(row),
        phase=then.phase if then is not None else StepPhase.WAITING,
        detail=then.detail if then is not None else "",
        is_critical=own is not None,
    )
    return {
        "place": place,
        "bars": bars,
        "words": _words(spans),
        "start": start,
        "end": end or (at if start is not None else None),
        "attempts": format_count(attempts, "attempt") if attempts > 1 else "",
    }


def _bar(
    axis: Axis, kind: str, colour: str, start: datetime, end: datetime, *, is_open: bool
) -> dict[str, Any]:
    """Return a bar, in percent of the width of the axis. One that is open ends at the present."""
    least = 0.0 if kind == "path" else MIN_WIDTH
    # a bar at the very end is seen too
    x = min(axis.share(start), 100 - least)
    return {
        "kind": kind,
        "look": colour,
        "x": x,
        "width": 0.0 if is_open else max(round(axis.share(end) - x, 3), least),
        "since": start if is_open else None,
        "seconds": axis.seconds,
    }


def _look(span: Span, line: StepTimeline) -> str:
    if span.state is not State.RUNNING:
        return {State.WAITING: "waiting", State.QUEUED: "pending"}[span.state]
    is_over = line.is_daemon and line.phase == StepPhase.COMPLETED and span is line.spans[-1]
    if span.outcome in _UNSUCCESSFUL and not is_over:  # a daemon is aborted at the end
        return "failed"
    outcome = line.phase if is_over else span.outcome or line.phase
    found = "running" if span.is_open else look(outcome)
    return found if found != OTHER.name else "running"


def _words(spans: Sequence[Span]) -> str:
    """Return `waited 12:00:00 to 12:00:03 (3s), running since 12:00:03; times are UTC`."""
    if not spans:
        return ""
    if len(spans) <= MAX_SPANS:
        return "; ".join(_word(span) for span in spans) + " UTC"
    ends = max(span.end for span in spans)
    is_open = any(span.is_open for span in spans)
    last = "now" if is_open else f"{ends:%H:%M:%S}"
    counts = [
        f"{verb} {format_count(number, 'time')}"
        for state, verb in _VERBS.items()
        if (number := sum(span.state is state for span in spans))
    ]
    return f"{spans[0].start:%H:%M:%S} to {last} UTC: {', '.join(counts)}"


def _word(span: Span) -> str:
    if span.is_open:
        return f"{span.state} since {span.start:%H:%M:%S}"
    took = format_duration(span.duration)
    is_told = span.state is State.RUNNING and span.outcome in _UNSUCCESSFUL
    outcome = f", {span.outcome}" if is_told else ""
    start, end = f"{span.start:%H:%M:%S}", f"{span.end:%H:%M:%S}"
    return f"{_VERBS[span.state]} {start} to {end} ({took}{outcome})"


@dataclass(frozen=True, slots=True)
class Estimate:
    """When a flow is expected to end."""

    low: datetime | None
    high: datetime | None
    """Both None if it cannot be estimated."""
    words: str
    """By what it was estimated, or why it was not."""
    is_least: bool = False
    """Whether it may take longer than that."""


def estimate(view: FlowView) -> Estimate | None:
    """Return when a flow is expected to end; None if it does not run, or nothing is known yet."""
    is_open = view.flow.status.start_time is not None and not view.flow.final
    if not is_open or (history := view.page.flow.history()) is None:
        return None
    # else each drawing would differ from the one before
    now = truncate_to_second(view.now)
    left = time_left(view.flow, history, now=now)
    if isinstance(left, NoEstimate):
        return Estimate(None, None, left.why)
    low, high = add(now, left.low), add(now, left.high)
    return Estimate(low, high, f"by {left.basis}", left.at_least)


def time_spent(found: Timeline | None, left: Estimate | None) -> Fragment:
    if found is None:
        return Fragment("time-spent", "empty.html", None)
    shown = {
        "start": found.start,
        "end": None if found.is_open else found.end,
        "parts": [*_parts(found)],
        "path": [*_path(found)],
        "suspended": format_duration(found.suspended) if found.suspended else "",
        "estimate": left,
    }
    return Fragment("time-spent", "time-spent.html", shown)


def _parts(found: Timeline) -> Iterator[dict[str, Any]]:
    total = max(found.duration, timedelta(seconds=1))
    lasting, x = None, 0
    if found.is_open:
        # nothing has started yet, or the last step on the path waits or runs
        last = found.path[-1].step if found.path else ""
        spans = (span for line in found.steps if line.step == last for span in line.spans)
        states = {span.state for span in spans if span.is_open}
        lasting = next((state for state in reversed(State) if state in states), State.WAITING)
    for state, time in found.critical_times.items():
        if not time:
            continue
        percent = round(time / total * 100)
        # a state that lasts is given as a start, which does not change while time passes
        since = found.end - time if state is lasting else None
        text = "" if state is lasting else format_duration(time)
        yield {"state": state.value, "time": text, "since": since, "percent": percent, "x": x}
        x += percent


def _path(found: Timeline) -> Iterator[dict[str, Any]]:
    """Yield the steps of the critical path, of a long one those at both ends."""
    count = len(found.path)
    more = count - 2 * _ENDS_OF_PATH
    for at, each in enumerate(found.path):
        end = None if found.is_open and at == count - 1 else each.end
        if more > 1 and at == _ENDS_OF_PATH:
            yield {"step": "", "left_out": more}
        if more < 2 or not _ENDS_OF_PATH <= at < count - _ENDS_OF_PATH:
            yield {"step": each.step, "start": each.start, "end": end}
