"""A work queue of keys: each is in it once, and never handed out while it is being worked on.

Knows nothing of what the keys stand for.
"""

from __future__ import annotations

import asyncio
import heapq
import random
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from jobflow.controller.hooks import Hooks
from jobflow.kube.backoff import delay

K = TypeVar("K")

FIRST_RETRY = 0.2
LONGEST_RETRY = 60.0
VOID_ENTRIES = 64
"""Times that no longer count are dropped once there are more of them than of the others, and than
this: a flow that has days left to its timeout asks anew with each pass over it."""


class Queue(Generic[K]):
    """Keys that are ready, keys that are due later, keys that are being worked on.

    `clock` gives seconds and `dice` a number from 0 to 1, so that tests decide both. A key that is
    added while it is being worked on is handed out again after `done`.
    """

    def __init__(
        self,
        *,
        hooks: Hooks | None = None,
        clock: Callable[[], float] = time.monotonic,
        dice: Callable[[], float] = random.random,
    ) -> None:
        self._hooks = hooks or Hooks()
        self._clock = clock
        self._dice = dice
        self._ready: deque[K] = deque()
        self._since: dict[K, float] = {}
        """Keys that wait to be handed out (again), and since when."""
        self._working: set[K] = set()
        self._due: dict[K, float] = {}
        self._later: list[tuple[float, int, K]] = []
        """A heap; an entry counts only while `_due` names the same time."""
        self._count = 0
        self._failures: dict[K, int] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def __len__(self) -> int:
        """How many keys are ready."""
        return len(self._ready)

    # ------------------------------------------------------------------ putting in

    def add(self, key: K) -> None:
        """Ready now."""
        if self._closed or key in self._since:
            return
        self._since[key] = self._clock()
        if key not in self._working:
            self._push(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Ready in `seconds`, or earlier where an earlier time was asked for before."""
        if self._closed:
            return
        if seconds <= 0:
            self.add(key)
            return
        at = self._clock() + seconds
        if self._due.get(key, at + 1) <= at:
            return
        self._due[key] = at
        self._count += 1
        heapq.heappush(self._later, (at, self._count, key))
        if len(self._later) > 2 * len(self._due) + VOID_ENTRIES:
            self._later = [entry for entry in self._later if self._due.get(entry[2]) == entry[0]]
            heapq.heapify(self._later)
        self._wind()

    def retry(self, key: K, *, at_least: float = 0.0) -> float:
        """Ready after this key's backoff, `at_least` so many seconds; returns which. The backoff
        doubles with each `retry` until `forget`."""
        tries = self._failures.get(key, 0)
        self._failures[key] = tries + 1
        wait = delay(tries, first=FIRST_RETRY, most=LONGEST_RETRY, dice=self._dice)
        wait = max(wait, at_least)
        self._hooks.retried()
        self.add_after(key, wait)
        return wait

    def forget(self, key: K) -> None:
        """It worked: the next `retry` starts from the shortest delay."""
        self._failures.pop(key, None)

    # ------------------------------------------------------------------ taking out

    async def get(self) -> K | None:
        """The next key, to be given back by `done`; None once the queue is closed.

        A later time that was asked for is void: who works on the key now will ask anew.
        """
        while not self._ready and not self._closed:
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                if getter in self._getters:
                    self._getters.remove(getter)
                elif self._ready:
                    self._wake()
                raise
        if self._closed:
            return None
        key = self._ready.popleft()
        self._working.add(key)
        self._due.pop(key, None)
        self._hooks.waited(self._clock() - self._since.pop(key))
        self._hooks.depth(len(self._ready))
        return key

    def done(self, key: K) -> None:
        """Work on the key is over."""
        self._working.discard(key)
        if key in self._since and not self._closed:
            self._push(key)

    def close(self) -> None:
        """Hand out nothing more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._getters:
            self._wake()

    # ------------------------------------------------------------------ time

    def release(self) -> None:
        """Make ready what is due by now. Called by the queue's own timer."""
        now = self._clock()
        while self._later and self._later[0][0] <= now:
            at, _, key = heapq.heappop(self._later)
            if self._due.get(key) == at:
                del self._due[key]
                self.add(key)
        self._wind()

    def _wind(self) -> None:
        """Set the timer to the earliest time that still counts."""
        while self._later and self._due.get(self._later[0][2]) != self._later[0][0]:
            heapq.heappop(self._later)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._later and not self._closed:
            wait = max(0.0, self._later[0][0] - self._clock())
            self._timer = asyncio.get_running_loop().call_later(wait, self.release)

    # ------------------------------------------------------------------

    def _push(self, key: K) -> None:
        self._ready.append(key)
        self._hooks.depth(len(self._ready))
        self._wake()

    def _wake(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return
