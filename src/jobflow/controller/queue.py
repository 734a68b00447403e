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
from dataclasses import dataclass
from typing import Generic, TypeVar

from jobflow.controller.hooks import Hooks
from jobflow.kube.backoff import delay

K = TypeVar("K")

FLOOR = 0.1
"""Shortest delay of a requeue, in seconds: as long as the shortest backoff. A key that always asks
to come back at once costs ten passes a second instead of a whole core."""
FIRST_RETRY = 0.2
LONGEST_RETRY = 60.0
VOID_ENTRIES = 64
"""Times that no longer count are dropped once there are more of them than of the others, and than
this: a flow that has days left to its timeout asks anew with each pass over it."""


@dataclass(slots=True)
class Failing:
    """A key whose work failed and has not succeeded since."""

    failures: int = 0
    """In a row."""
    until: float = 0.0
    """End of the backoff."""
    asked_until: float = 0.0
    """End of the time that a server asked for: until then, events wait too."""


class Queue(Generic[K]):
    """Keys that are ready, keys that are due later, keys that are being worked on.

    A key is handed out

    - after an event (`add`): as soon as a worker is free;
    - after a requeue (`add_after`): when its delay is over, and FLOOR at the earliest;
    - in backoff (`retry`): a requeue waits for the end of the backoff. An event does not, because
      it may have nothing to do with what failed: whoever works on the key then asks `backoff` and
      does not repeat what failed. The key comes back at the end of the backoff in any case;
    - in the time that a server asked for (`retry` with `at_least`): neither an event nor a requeue
      hands it out.

    The queue hands out one key per turn of the event loop, so that everything else gets a turn
    between two of them. `clock` gives seconds and `dice` a number from 0 to 1, so that tests decide
    both. A key that is added while it is being worked on is handed out again after `done`.
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
        self._failing: dict[K, Failing] = {}
        self._turn = asyncio.Lock()
        """Held by the worker that takes the next key."""
        self._news = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def __len__(self) -> int:
        """How many keys are ready."""
        return len(self._ready)

    # ------------------------------------------------------------------ putting in

    def add(self, key: K) -> None:
        """Hand the key out now, or at the end of the time that a server asked for."""
        if self._closed or key in self._since:
            return
        self._since[key] = self._clock()
        if key not in self._working:
            self._push(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Hand the key out in `seconds`, FLOOR at the least, or at the end of its backoff if that
        is later. An earlier time that was requested before is kept."""
        if self._closed:
            return
        at = self._clock() + max(seconds, FLOOR)
        if (failing := self._failing.get(key)) is not None:
            at = max(at, failing.until)
        self._schedule(key, at)

    def retry(self, key: K, *, at_least: float = 0.0) -> float:
        """Put the key in backoff and return its seconds: they double with each `retry` until
        `forget`, and are `at_least` as many as the server asked for.

        Called by whoever works on the key. A time that was asked for before is void.
        """
        failing = self._failing.setdefault(key, Failing())
        now = self._clock()
        wait = delay(failing.failures, first=FIRST_RETRY, most=LONGEST_RETRY, dice=self._dice)
        wait = max(wait, at_least, failing.until - now)
        failing.failures += 1
        failing.until = now + wait
        failing.asked_until = max(failing.asked_until, now + at_least)
        self._hooks.retried()
        if not self._closed:
            self._due.pop(key, None)
            self._schedule(key, failing.until)
        return wait

    def backoff(self, key: K) -> float:
        """Seconds left of the key's backoff; 0: it is in none."""
        failing = self._failing.get(key)
        return max(0.0, failing.until - self._clock()) if failing is not None else 0.0

    def forget(self, key: K) -> None:
        """End the backoff, because the work succeeded: the next one starts from the shortest."""
        self._failing.pop(key, None)

    # ------------------------------------------------------------------ taking out

    async def get(self) -> K | None:
        """The next key, to be given back by `done`; None once the queue is closed.

        A later time that was asked for is void: who works on the key now will ask anew.
        """
        async with self._turn:
            await asyncio.sleep(0)
            while not self._ready and not self._closed:
                self._news.clear()
                await self._news.wait()
            if self._closed:
                return None
            key = self._ready.popleft()
        self._working.add(key)
        self._due.pop(key, None)
        self._hooks.waited(self._clock() - self._since.pop(key))
        self._hooks.depth(len(self._ready))
        return key

    def done(self, key: K) -> None:
        """End the work on the key. It is handed out again if an event came meanwhile, and at the
        end of its backoff if it is in one."""
        self._working.discard(key)
        if self._closed:
            return
        if key in self._since:
            self._push(key)
        if (failing := self._failing.get(key)) is not None:
            self._schedule(key, max(failing.until, self._clock() + FLOOR))

    def close(self) -> None:
        """Hand out nothing more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._news.set()

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

    def _schedule(self, key: K, at: float) -> None:
        """Make the key ready then, unless it is due earlier."""
        if self._due.get(key, at + 1) <= at:
            return
        self._due[key] = at
        self._count += 1
        heapq.heappush(self._later, (at, self._count, key))
        if len(self._later) > 2 * len(self._due) + VOID_ENTRIES:
            self._later = [entry for entry in self._later if self._due.get(entry[2]) == entry[0]]
            heapq.heapify(self._later)
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
        """Let a worker have the key, if no server has asked for time."""
        failing = self._failing.get(key)
        if failing is not None and failing.asked_until > self._clock():
            del self._since[key]
            self._schedule(key, failing.asked_until)
            return
        self._ready.append(key)
        self._hooks.depth(len(self._ready))
        self._news.set()
