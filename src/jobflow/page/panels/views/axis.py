"""The axis of a timeline: how much time its width is, and which times are written on it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain, count

from jobflow.core.drawing.time_axis import ticks
from jobflow.core.text import format_duration
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
