"""How long to wait before the next try: doubling, capped, with jitter. Waits for nothing itself."""

from __future__ import annotations

import random
from collections.abc import Callable


def delay(tries: int, *, first: float, most: float, dice: Callable[[], float]) -> float:
    """Seconds before try number `tries` + 1: `first` doubled each time up to `most`, of which a
    random half is taken off so that those who failed together do not come back together."""
    whole = min(most, first * 2.0 ** min(tries, 32))
    return whole * (1.0 - dice() / 2.0)


class Backoff:
    """A row of failures of one thing."""

    def __init__(
        self, *, first: float = 0.2, most: float = 30.0, dice: Callable[[], float] = random.random
    ) -> None:
        self._first = first
        self._most = most
        self._dice = dice
        self._tries = 0

    def next(self) -> float:
        """Seconds to wait after one more failure."""
        tries, self._tries = self._tries, self._tries + 1
        return delay(tries, first=self._first, most=self._most, dice=self._dice)

    def reset(self) -> None:
        """It worked."""
        self._tries = 0
