"""An event loop for servers and clients in this process, with real sockets, whose time passes only
while nothing happens: computing takes no time, so all runs have the same times.

As `leaping_loop`, but for comparisons of times. Its time starts at START.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

T = TypeVar("T")

START = datetime(2026, 1, 1, tzinfo=UTC)
MOMENT = 0.003
"""Real seconds after which input that is on its way would have arrived."""


class _Stepping(selectors.DefaultSelector):
    """Waits a moment, then moves the clock instead."""

    passed = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        ready = super().select(MOMENT)
        if not ready:
            self.passed += timeout
        return ready


class SteppingLoop(asyncio.SelectorEventLoop):
    """A loop whose `time` is the sum of its steps."""

    def __init__(self) -> None:
        self._stepping = _Stepping()
        super().__init__(self._stepping)

    def time(self) -> float:
        return self._stepping.passed


def in_steps(main: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=SteppingLoop) as runner:
        return runner.run(main)


def clock() -> float:
    """Return the seconds of the running loop's clock."""
    return asyncio.get_running_loop().time()


def now() -> datetime:
    """Return the time of day of the running loop."""
    return START + timedelta(seconds=clock())
