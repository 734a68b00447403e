"""Where the time of a flow went: its critical path, the states on it, and the time that is left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from jobflow.client.flows.time_left import describe_time_left
from jobflow.core.text import format_duration
from jobflow.core.timelines.spans import State
from jobflow.core.timelines.time_left import NoEstimate, time_left
from jobflow.core.timelines.timeline import Timeline
from jobflow.core.timestamps import add, truncate_to_second
from jobflow.page.flow_view import FlowView
from jobflow.page.web.fragments import Fragment

_ENDS_OF_PATH = 8
"""Steps that are shown at each end of a long critical path."""


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


@dataclass(frozen=True, slots=True)
class Part:
    """A state on the critical path."""

    state: str
    time: str
    """How long; "" if it lasts."""
    since: datetime | None
    """If the state lasts: as if it had begun at this time, and had lasted since."""
    percent: int
    x: int
    """The percents of the parts before it."""


@dataclass(frozen=True, slots=True)
class PathPart:
    """A step of the critical path."""

    step: str
    """"" for the middle of a long path, which is left out."""
    start: datetime | None
    end: datetime | None
    """None if it is the last one of a flow that runs."""
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class TimeSpent:
    """The summary of a timeline."""

    start: datetime
    end: datetime | None
    parts: tuple[Part, ...]
    path: tuple[PathPart, ...]
    suspended: str
    estimate: Estimate | None


def time_spent(found: Timeline | None, left: Estimate | None) -> Fragment:
    """Return the summary of a timeline."""
    if found is None:
        return Fragment("time-spent", "empty.html", None)
    it = TimeSpent(
        found.start,
        None if found.is_open else found.end,
        tuple(_parts(found)),
        tuple(_path(found)),
        format_duration(found.suspended) if found.suspended else "",
        left,
    )
    return Fragment("time-spent", "time-spent.html", it)


def estimate(view: FlowView) -> Estimate | None:
    """Return when a flow that runs is expected to end; None if it does not run, or while the
    earlier flows are being read."""
    is_open = view.flow.status.start_time is not None and not view.flow.final
    if not is_open or (history := view.live.history()) is None:
        return None
    now = truncate_to_second(view.now)
    left = time_left(view.flow, history, now=now)
    if isinstance(left, NoEstimate):
        return Estimate(None, None, left.why)
    words = describe_time_left(left).partition(", by ")[2]
    return Estimate(add(now, left.low), add(now, left.high), f"by {words}", left.at_least)


def _parts(found: Timeline) -> Iterator[Part]:
    """Yield the states that took time. A state that lasts is given as a start, because that does
    not change while time passes."""
    total = max(found.duration, timedelta(seconds=1))
    lasting = _lasting(found)
    x = 0
    for state, time in found.critical_times.items():
        if not time:
            continue
        percent = round(time / total * 100)
        if state is lasting:
            yield Part(state.value, "", found.end - time, percent, x)
        else:
            yield Part(state.value, format_duration(time), None, percent, x)
        x += percent


def _lasting(found: Timeline) -> State | None:
    """Return the state in which the last step of the critical path is now."""
    if not found.is_open:
        return None
    if not found.path:
        return State.WAITING
    last = found.path[-1].step
    spans = next(line.spans for line in found.steps if line.step == last)
    states = {span.state for span in spans if span.is_open}
    return next((state for state in reversed(State) if state in states), State.WAITING)


def _path(found: Timeline) -> Iterator[PathPart]:
    path = found.path
    more = len(path) - 2 * _ENDS_OF_PATH
    for at, each in enumerate(path):
        is_open = found.is_open and at == len(path) - 1
        if more > 1 and at == _ENDS_OF_PATH:
            yield PathPart("", None, None, more)
        if more < 2 or not _ENDS_OF_PATH <= at < len(path) - _ENDS_OF_PATH:
            yield PathPart(each.step, each.start, None if is_open else each.end)
