"""Where the time of a flow went: its critical path, the states on it, and the time that is left."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

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
    lasting = _lasting(found)
    x = 0
    for state, time in found.critical_times.items():
        if not time:
            continue
        percent = round(time / total * 100)
        # a state that lasts is given as a start, which does not change while time passes
        since = found.end - time if state is lasting else None
        text = "" if state is lasting else format_duration(time)
        yield {"state": state.value, "time": text, "since": since, "percent": percent, "x": x}
        x += percent


def _lasting(found: Timeline) -> State | None:
    if not found.is_open:
        return None
    # nothing has started yet
    if not found.path:
        return State.WAITING
    last = found.path[-1].step
    spans = next(line.spans for line in found.steps if line.step == last)
    states = {span.state for span in spans if span.is_open}
    return next((state for state in reversed(State) if state in states), State.WAITING)


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
