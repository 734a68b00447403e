"""Fair slots for connections: everyone in turn, within a budget."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

MOST = 10
SECONDS = 0.1
"""At most MOST connections begin in any SECONDS: a hundred a second, never all at once
(docs/decisions/probes.md)."""
AT_ONCE = 100


class FairSlots(Generic[K]):
    """Slots that owners request in any number and get one by one, in rotation. In any half-open
    interval of `seconds` at most `most` slots begin (0: no such limit), and at most `at_once` are
    in use. Uses the event loop's clock."""

    def __init__(
        self, *, most: int = MOST, seconds: float = SECONDS, at_once: int = AT_ONCE
    ) -> None:
        self._seconds = seconds
        self._at_once = at_once
        self._queues: OrderedDict[K, deque[asyncio.Future[None]]] = OrderedDict()
        """Requests by owner; the first owner is next."""
        self._begun: deque[float] = deque(maxlen=most)
        """Start times of the last slots."""
        self._in_use = 0
        self._timer: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def slot(self, owner: K) -> AsyncIterator[None]:
        """Wait for a slot and use it while the body runs."""
        request = asyncio.get_running_loop().create_future()
        self._queues.setdefault(owner, deque()).append(request)
        self._hand_out()
        try:
            await request
        except asyncio.CancelledError:
            if not request.cancelled():  # the slot was handed out a moment ago
                self._release()
            raise
        try:
            yield
        finally:
            self._release()

    def _release(self) -> None:
        self._in_use -= 1
        self._hand_out()

    def _hand_out(self, due: float = 0.0) -> None:
        """Start every slot that may begin now, and set the timer for the next one. `due`: the time
        that the timer was set to."""
        if due:
            self._timer = None
        now = max(asyncio.get_running_loop().time(), due)  # event loops call a little too early
        while self._in_use < self._at_once and (owner := self._next()) is not None:
            is_full = len(self._begun) == self._begun.maxlen
            at = self._begun[0] + self._seconds if is_full else 0.0
            if at > now:
                if self._timer is None:
                    self._timer = asyncio.get_running_loop().call_at(at, self._hand_out, at)
                return
            self._queues[owner].popleft().set_result(None)
            self._queues.move_to_end(owner)
            self._begun.append(now)
            self._in_use += 1

    def _next(self) -> K | None:
        """Return the next owner. Requests that were cancelled are dropped."""
        while self._queues:
            owner, requests = next(iter(self._queues.items()))
            while requests and requests[0].done():
                requests.popleft()
            if requests:
                return owner
            del self._queues[owner]
        return None
