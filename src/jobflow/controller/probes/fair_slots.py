"""Who may open a connection or send a request next: everyone in turn, within a budget. Opens and
sends nothing itself."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

MOST = 10
SECONDS = 0.1
"""At most MOST connections begin in any SECONDS: a hundred a second, and never all at once
(docs/decisions/prober.md)."""
AT_ONCE = 100


class Turns(Generic[K]):
    """Turns of many who each want many, handed out one each in rotation.

    In any stretch of `seconds` (closed at one end; 0: without such a budget) at most `most` begin,
    and at most `at_once` are under way. Whoever comes new waits for no more turns than there are
    others with one wish each, however many wishes those have. Goes by the event loop's clock.
    """

    def __init__(
        self, *, most: int = MOST, seconds: float = SECONDS, at_once: int = AT_ONCE
    ) -> None:
        self._seconds = seconds
        self._at_once = at_once
        self._lines: OrderedDict[K, deque[asyncio.Future[None]]] = OrderedDict()
        """In the order in which they are next."""
        self._begun: deque[float] = deque(maxlen=most)
        """When the last turns began."""
        self._under_way = 0
        self._timer: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def turn(self, whose: K) -> AsyncIterator[None]:
        """Wait for a turn; it lasts as long as the body."""
        await self._wait(whose)
        try:
            yield
        finally:
            self._over()

    async def _wait(self, whose: K) -> None:
        mine = asyncio.get_running_loop().create_future()
        self._lines.setdefault(whose, deque()).append(mine)
        self._hand_out()
        try:
            await mine
        except asyncio.CancelledError:
            if not mine.cancelled():
                self._over()
            raise

    def _over(self) -> None:
        self._under_way -= 1
        self._hand_out()

    def _hand_out(self, due: float = 0.0) -> None:
        """Every turn that may begin now; the timer is set to when the next one may.

        `due`: when the timer was to fire, which event loops do a little too early."""
        now = max(asyncio.get_running_loop().time(), due)
        while self._under_way < self._at_once and (whose := self._next()) is not None:
            if (at := self._affordable_at()) > now:
                self._wind(at)
                return
            self._lines[whose].popleft().set_result(None)
            self._lines.move_to_end(whose)
            self._begun.append(now)
            self._under_way += 1

    def _next(self) -> K | None:
        """Whose turn it is; those who have gone away are passed over."""
        while self._lines:
            whose, line = next(iter(self._lines.items()))
            while line and line[0].done():
                line.popleft()
            if line:
                return whose
            del self._lines[whose]
        return None

    def _affordable_at(self) -> float:
        if len(self._begun) < (self._begun.maxlen or 0):
            return 0.0
        return self._begun[0] + self._seconds

    def _wind(self, at: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_at(at, self._due, at)

    def _due(self, at: float) -> None:
        self._timer = None
        self._hand_out(at)
