"""The timeline of a flow: a row for each step, with bars for the times it waited and ran."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain, count

from jobflow.api.flow.status import StepPhase
from jobflow.api.volcano.job import JobPhase
from jobflow.core.drawing.phase_looks import OTHER
from jobflow.core.drawing.svg import ticks
from jobflow.core.text import format_count, format_duration
from jobflow.core.timelines.rows import merge_spans
from jobflow.core.timelines.spans import Span, State, last_retry
from jobflow.core.timelines.timeline import PathStep, StepTimeline, first_start
from jobflow.page.flow_view import FlowView
from jobflow.page.panels.rows import Place, Row, Rows
from jobflow.page.panels.time_spent import Estimate, estimate, time_spent
from jobflow.page.web.filters import look
from jobflow.page.web.fragments import Fragment
from jobflow.page.web.stream import QUIET_SECONDS

_TICKS = 6
"""Times on an axis at most."""
_GROWTH = 1.5
"""How much more time the axis of a running flow has at most, so that it seldom changes."""
_FIRST = 30.0


@dataclass(frozen=True, slots=True)
class Tick:
    """A round time."""

    x: float
    """Percent of the width."""
    text: str
    """Since the start: `1m30s`."""


@dataclass(frozen=True, slots=True)
class Axis:
    """The time from the start of a flow to its end; with some room to grow if it runs."""

    start: datetime
    seconds: float
    ticks: tuple[Tick, ...]

    @classmethod
    def of(cls, start: datetime, end: datetime, *, is_open: bool) -> Axis:
        """Return the axis for a time. That of an open time changes seldom: only when `end` has
        almost reached it."""
        seconds = max((end - start).total_seconds(), 1.0)
        if is_open:
            wanted = seconds + QUIET_SECONDS
            steps = chain([_FIRST], (_round(_FIRST * _GROWTH**power) for power in count(1)))
            seconds = next(each for each in steps if each >= wanted)
        found = ticks(timedelta(seconds=seconds), _TICKS)
        return cls(
            start,
            seconds,
            tuple(Tick(round(share * 100, 3), format_duration(tick)) for tick, share in found),
        )

    def share(self, moment: datetime) -> float:
        """Return the place of a time, in percent of the width, from 0 to 100."""
        seconds = (moment - self.start).total_seconds()
        return round(min(max(seconds / self.seconds, 0.0), 1.0) * 100, 3)


def _round(seconds: float) -> float:
    """Return a time in whole units of five seconds."""
    return round(seconds / 5) * 5


MIN_WIDTH = 0.25
"""Percent of the width of the axis, so that a job of less than a second is seen."""
SINCE_RETRY = "retry"
"""The value of the query that asks for the time since the last retry."""
MAX_SPANS = 8
"""Times that are told one by one; more are summed up."""
_UNSUCCESSFUL = frozenset(
    {JobPhase.FAILED, JobPhase.ABORTED, JobPhase.ABORTING, JobPhase.TERMINATED}
)
_VERBS = {State.WAITING: "waited", State.QUEUED: "queued", State.RUNNING: "ran"}


@dataclass(frozen=True, slots=True)
class Bar:
    """A time of one state."""

    kind: str
    """`waiting`, `queued`, `running`, or `path` for the part of the critical path."""
    look: str
    x: float
    """Percent of the width of the axis."""
    width: float
    """Percent; 0 if the state lasts."""
    since: datetime | None
    """When the state began, if it lasts: then the bar ends at the present time."""
    seconds: float
    """The time that the whole axis stands for."""


@dataclass(frozen=True, slots=True)
class Lane:
    """A row of the timeline."""

    place: Place
    bars: tuple[Bar, ...]
    words: str
    """All times as text."""
    start: datetime | None
    end: datetime | None
    attempts: str
    """`3 attempts`; "" for one."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The axis, and what is marked in all rows."""

    axis: Axis | None
    is_open: bool
    estimate: Estimate | None
    """The range in which the flow is expected to end."""
    at: datetime | None = None
    """The earlier time that is shown."""
    retried: datetime | None = None
    """When the flow was retried."""
    is_whole: bool = False
    """Whether the time before the retry is shown, too."""


def timeline_view(view: FlowView) -> Fragment:
    """Return the view of the timeline. That of an earlier time has all bars, and the phases of that
    time. Bars are also of the time before a retry, unless the query asks for less, but what is told
    of the flow begins with it."""
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
    if found is not None and first is not None:
        end = max(found.end, left.high) if left and left.high else found.end
        start = first if is_whole else found.start
        axis = Axis.of(start, end, is_open=found.is_open)
    path = {each.step: each for each in found.path} if found is not None else {}
    lanes = [
        Fragment(
            f"lane:{row.path}",
            "lane.html",
            _lane(rows, row, axis, path, view.at, then.get(row.path)),
        )
        for row in rows.shown()
    ]
    scale = Scale(axis, found is not None and found.is_open, left, view.at, retried, is_whole)
    return Fragment(
        "timeline",
        "timeline.html",
        None,
        [
            Fragment("axis", "axis.html", scale),
            Fragment(
                "lanes",
                "lanes.html",
                None,
                [
                    Fragment("marks", "marks.html", scale),
                    Fragment("lane-list", "lane-list.html", None, lanes),
                ],
            ),
            time_spent(found, left),
        ],
    )


def _lane(
    rows: Rows,
    row: Row,
    axis: Axis | None,
    path: dict[str, PathStep],
    at: datetime | None,
    then: Row | None,
) -> Lane:
    """Return a lane: all bars of a row, and the rest as it was `then`, at an earlier time `at`."""
    spans: Sequence[Span] = row.line.spans
    if len({span.job for span in spans if span.job}) > 1 and row.inside is not None:
        spans = merge_spans(spans)
    bars: list[Bar] = []
    if axis is not None:
        own = path.get(row.path) if not row.level else None
        bars += [_path(own, axis, is_open=row.line.is_open)] if own is not None else []
        order = list(State)
        ordered = sorted(spans, key=lambda span: order.index(span.state))
        bars += [_bar(span, row.line, axis) for span in ordered]
    is_critical = row.path in path and not row.level
    start, end = then.span if then is not None else (None, None)
    count = then.line.attempts if then is not None and row.inside is None else 0
    place = replace(
        rows.place(row),
        phase=then.phase if then is not None else StepPhase.WAITING,
        detail=then.detail if then is not None else "",
        is_critical=is_critical,
    )
    return Lane(
        place=place,
        bars=tuple(bars),
        words=_words(spans),
        start=start,
        end=end or (at if start is not None else None),
        attempts=format_count(count, "attempt") if count > 1 else "",
    )


def _bar(span: Span, line: StepTimeline, axis: Axis) -> Bar:
    x = min(axis.share(span.start), 100 - MIN_WIDTH)
    width = 0.0 if span.is_open else max(round(axis.share(span.end) - x, 3), MIN_WIDTH)
    since = span.start if span.is_open else None
    return Bar(span.state.value, _look(span, line), x, width, since, axis.seconds)


def _look(span: Span, line: StepTimeline) -> str:
    if span.state is not State.RUNNING:
        return {State.WAITING: "waiting", State.QUEUED: "pending"}[span.state]
    is_over = line.is_daemon and line.phase == StepPhase.COMPLETED and span is line.spans[-1]
    if span.outcome in _UNSUCCESSFUL and not is_over:  # a daemon is aborted at the end
        return "failed"
    outcome = line.phase if is_over else span.outcome or line.phase
    found = "running" if span.is_open else look(outcome)
    return found if found != OTHER.name else "running"


def _path(own: PathStep, axis: Axis, *, is_open: bool) -> Bar:
    x = axis.share(own.start)
    width = 0.0 if is_open else round(axis.share(own.end) - x, 3)
    return Bar("path", "path", x, width, own.start if is_open else None, axis.seconds)


def _words(spans: Sequence[Span]) -> str:
    """Return `waited 12:00:00 to 12:00:03 (3s), running since 12:00:03; times are UTC`."""
    if not spans:
        return ""
    if len(spans) <= MAX_SPANS:
        return "; ".join(_word(span) for span in spans) + " UTC"
    ends = max(span.end for span in spans)
    is_open = any(span.is_open for span in spans)
    last = "now" if is_open else f"{ends:%H:%M:%S}"
    counts = ", ".join(_counts(spans))
    return f"{spans[0].start:%H:%M:%S} to {last} UTC: {counts}"


def _counts(spans: Sequence[Span]) -> Iterator[str]:
    for state, verb in _VERBS.items():
        if number := sum(span.state is state for span in spans):
            yield f"{verb} {format_count(number, 'time')}"


def _word(span: Span) -> str:
    if span.is_open:
        return f"{span.state} since {span.start:%H:%M:%S}"
    took = format_duration(span.duration)
    is_told = span.state is State.RUNNING and span.outcome in _UNSUCCESSFUL
    outcome = f", {span.outcome}" if is_told else ""
    start, end = f"{span.start:%H:%M:%S}", f"{span.end:%H:%M:%S}"
    return f"{_VERBS[span.state]} {start} to {end} ({took}{outcome})"
