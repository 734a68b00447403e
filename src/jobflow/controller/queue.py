"""A work queue of keys. Each key is in it once, and is never handed out while it is worked on."""

import asyncio
import heapq
import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from jobflow.controller.hooks import Hooks
from jobflow.kube.clock import delay

K = TypeVar("K")

FLOOR = 0.1
"""Shortest delay of a requeue in seconds, equal to the shortest backoff. A key that always asks to
come back at once costs ten reconciles a second instead of a whole core."""
FIRST_RETRY = 0.2
LONGEST_RETRY = 60.0
VOID_ENTRIES = 64
"""Outdated entries of the heap are dropped once there are more of them than of the others plus this
number: a flow that has days left to its timeout requests a new time with each reconcile."""


class ReadyKeys(Generic[K]):
    """Keys that wait for a worker, in the order in which they became ready. Keys that give way come
    after all others, but one of them may always be worked on, and never more than `most_yielding`.
    """

    def __init__(self, gives_way: Callable[[K], bool], most_yielding: int) -> None:
        self._gives_way = gives_way
        self._most_yielding = most_yielding
        self._first: deque[K] = deque()
        self._yielding: deque[K] = deque()
        self._yielding_work: set[K] = set()
        """Keys that gave way and are being worked on."""

    def __len__(self) -> int:
        return len(self._first) + len(self._yielding)

    def push(self, key: K) -> None:
        (self._yielding if self._gives_way(key) else self._first).append(key)

    @property
    def has_next(self) -> bool:
        return bool(self._first) or self._may_yielding_begin

    def pop(self) -> K:
        """Return the next key; only if there is one."""
        if self._may_yielding_begin and not (self._first and self._yielding_work):
            key = self._yielding.popleft()
            self._yielding_work.add(key)
            return key
        return self._first.popleft()

    def done(self, key: K) -> None:
        self._yielding_work.discard(key)

    @property
    def _may_yielding_begin(self) -> bool:
        return bool(self._yielding) and len(self._yielding_work) < self._most_yielding


@dataclass(slots=True)
class FailedKey:
    """A key whose work has failed and has not succeeded since."""

    failures: int = 0
    """Failures in a row."""
    until: float = 0.0
    """End of the backoff."""
    asked_until: float = 0.0
    """End of the time that a server asked to wait. Until then, events wait too."""


@dataclass(eq=False)
class WorkQueue(Generic[K]):
    """Keys that are ready, keys that are due later, and keys that are being worked on. A key that
    is added while it is worked on is handed out again after `done`.

    `clock` returns seconds and `dice` a number from 0 to 1. `gives_way` tells of a key that becomes
    ready whether it comes after the others, and `most_yielding` how many of those may be worked on
    at once, so that they do not keep all workers.
    """

    hooks: Hooks = field(default_factory=Hooks)
    clock: Callable[[], float] = time.monotonic
    dice: Callable[[], float] = random.random
    gives_way: Callable[[K], bool] = lambda key: False
    most_yielding: int = 1
    _since: dict[K, float] = field(default_factory=dict)
    """Keys that wait to be handed out, and since when."""
    _working: set[K] = field(default_factory=set)
    _due: dict[K, float] = field(default_factory=dict)
    _later: list[tuple[float, int, K]] = field(default_factory=list)
    """A heap. An entry is outdated if `_due` has another time for its key."""
    _count: int = 0
    _failing: dict[K, FailedKey] = field(default_factory=dict)
    _resting: dict[K, float] = field(default_factory=dict)
    """Keys that wait after long work, and until when."""
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by the worker that takes the next key."""
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _timer: asyncio.TimerHandle | None = None
    _closed: bool = False

    def __post_init__(self) -> None:
        self._ready = ReadyKeys(self.gives_way, self.most_yielding)

    # ------------------------------------------------------------------ adding

    def add(self, key: K) -> None:
        """Hand the key out after an event: now, or once it has rested and the time that a server
        asked to wait is over."""
        # also in backoff, because the event may have nothing to do with the failure: the worker
        # asks `backoff` and does not repeat what failed
        if self._closed or key in self._since:
            return
        self._since[key] = self.clock()
        if key not in self._working:
            self._push(key)

    def add_soon(self, key: K, seconds: float) -> None:
        """Hand the key out in `seconds`, also in its backoff, unless it is handed out before."""
        if not self._closed and key not in self._since:
            self._schedule(key, self.clock() + seconds)

    def add_after(self, key: K, seconds: float) -> None:
        """Hand the key out in `seconds`, at least FLOOR, and not before the end of its backoff. An
        earlier requeue takes precedence."""
        if self._closed:
            return
        at = self.clock() + max(seconds, FLOOR)
        if (failing := self._failing.get(key)) is not None:
            at = max(at, failing.until)
        self._schedule(key, at)

    def retry(self, key: K, *, at_least: float = 0.0) -> float:
        """Put the key in backoff and return its seconds. They double with each `retry` until
        `forget`, and are at least the `at_least` that a server asked for. Called by the worker that
        has the key."""
        failing = self._failing.setdefault(key, FailedKey())
        now = self.clock()
        wait = delay(failing.failures, first=FIRST_RETRY, most=LONGEST_RETRY, dice=self.dice)
        wait = max(wait, at_least, failing.until - now)
        failing.failures += 1
        failing.until = now + wait
        failing.asked_until = max(failing.asked_until, now + at_least)
        self.hooks.retried()
        if not self._closed:
            self._due.pop(key, None)  # a requeue that was asked for waits for the backoff too
            self._schedule(key, failing.until)
        return wait

    def backoff(self, key: K) -> float:
        """Return the seconds left of the key's backoff, 0 without one."""
        failing = self._failing.get(key)
        return max(0.0, failing.until - self.clock()) if failing is not None else 0.0

    def rest(self, key: K, seconds: float) -> None:
        """Let events of the key wait for so long. Called by the worker that has the key."""
        self._resting[key] = self.clock() + seconds

    def forget(self, key: K) -> None:
        """End the backoff after a success; the next one is the shortest again."""
        self._failing.pop(key, None)

    # ------------------------------------------------------------------ taking

    async def get(self) -> K | None:
        """Wait for a key and return it; None once the queue is closed. `done` gives it back."""
        async with self._turn:
            await asyncio.sleep(0)  # other tasks run between two keys
            while not self._ready.has_next and not self._closed:
                self._news.clear()
                await self._news.wait()
            if self._closed:
                return None
            key = self._ready.pop()
        self._working.add(key)
        self._due.pop(key, None)  # the worker asks for a new time
        self._resting.pop(key, None)
        self.hooks.waited(self.clock() - self._since.pop(key))
        self.hooks.depth(len(self._ready))
        return key

    def done(self, key: K) -> None:
        self._working.discard(key)
        self._ready.done(key)
        if self._closed:
            return
        if self._ready.has_next:
            self._news.set()
        if key in self._since:  # an event came in the meantime
            self._push(key)
        if (failing := self._failing.get(key)) is not None:
            self._schedule(key, max(failing.until, self.clock() + FLOOR))

    def close(self) -> None:
        """Hand out no more keys."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._news.set()

    # ------------------------------------------------------------------ time

    def release(self) -> None:
        """Make ready what is due. Called by the queue's timer."""
        now = self.clock()
        while self._later and self._later[0][0] <= now:
            at, _, key = heapq.heappop(self._later)
            if self._due.get(key) == at:
                del self._due[key]
                self.add(key)
        self._set_timer()

    def _schedule(self, key: K, at: float) -> None:
        """Make the key ready at a time, unless it is due earlier."""
        if self._due.get(key, at + 1) <= at:
            return
        self._due[key] = at
        self._count += 1
        heapq.heappush(self._later, (at, self._count, key))
        # an entry cannot be removed from the middle of a heap
        if len(self._later) > 2 * len(self._due) + VOID_ENTRIES:
            self._later = [entry for entry in self._later if self._due.get(entry[2]) == entry[0]]
            heapq.heapify(self._later)
        self._set_timer()

    def _set_timer(self) -> None:
        """Set the timer to the earliest entry that is not outdated."""
        while self._later and self._due.get(self._later[0][2]) != self._later[0][0]:
            heapq.heappop(self._later)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._later and not self._closed:
            wait = max(0.0, self._later[0][0] - self.clock())
            self._timer = asyncio.get_running_loop().call_later(wait, self.release)

    def _push(self, key: K) -> None:
        failing = self._failing.get(key)
        until = max(failing.asked_until if failing else 0.0, self._resting.get(key, 0.0))
        if until > self.clock():
            del self._since[key]
            self._schedule(key, until)
            return
        self._ready.push(key)
        self.hooks.depth(len(self._ready))
        self._news.set()
