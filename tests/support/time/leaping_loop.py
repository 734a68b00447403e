"""An event loop for servers and clients in this process, with real sockets: when nothing happens
for a moment, time leaps to the next timer. Days take milliseconds.

Bytes sent within the process arrive at once, so a moment without input means that all tasks wait.
On a busy machine a request may only seem slower than it was.
"""

import asyncio
import selectors
import time
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any, TypeVar

T = TypeVar("T")

MOMENT = 0.003
"""Real seconds after which input that is on its way would have arrived."""


class _Leaping(selectors.DefaultSelector):
    """Sleeps a moment, then moves the clock instead."""

    leapt = 0.0
    """The sum of all leaps in seconds."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= MOMENT:
            return super().select(timeout)
        ready = super().select(MOMENT)
        if not ready:
            self.leapt += timeout - MOMENT
        return ready


class LeapingLoop(asyncio.SelectorEventLoop):
    """A loop whose `time` is time.monotonic() plus the sum of its leaps."""

    def __init__(self) -> None:
        self._leaping = _Leaping()
        super().__init__(self._leaping)

    def time(self) -> float:
        return time.monotonic() + self._leaping.leapt


def in_leaps(main: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=LeapingLoop) as runner:
        return runner.run(main)


def now() -> datetime:
    """Return the time of day of the running loop, or of the machine if the loop does not leap."""
    loop = asyncio.get_running_loop()
    leapt = loop._leaping.leapt if isinstance(loop, LeapingLoop) else 0.0
    return datetime.fromtimestamp(time.time() + leapt, UTC)


def clock() -> float:
    """Return the seconds of the running loop's clock."""
    return asyncio.get_running_loop().time()
