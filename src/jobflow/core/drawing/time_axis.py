"""Round times for the axis of a timeline."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import count

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_STEPS = (
    *(1, 2, 5, 10, 15, 30),
    *(_MINUTE * each for each in (1, 2, 5, 10, 15, 30)),
    *(_HOUR * each for each in (1, 2, 3, 6, 12)),
)


def ticks(total: timedelta, most: float) -> Iterator[tuple[timedelta, float]]:
    """Yield at most `most` round times from 0 on, all before `total`, each with its share of it."""
    if total <= timedelta():
        yield timedelta(), 0.0
        return
    wanted = total.total_seconds() / max(most, 1.0)
    days = (_DAY * 2**power for power in count())
    step = next((each for each in _STEPS if each >= wanted), None)
    step = step or next(each for each in days if each >= wanted)
    for number in count():
        tick = timedelta(seconds=step * number)
        if tick >= total:
            return
        yield tick, tick / total
