"""The order in which a client's writes are sent, and how many of them are under way at once.

A busy API server answers every write later, so a write that nothing waits for delays those that
users wait for. Writes take turns: the most urgent first, and first come, first served among equals.
The number of places follows what the server bears, as TCP's congestion window does: it grows by one
while writes wait, and shrinks by a factor when the server refuses writes or answers later than it
usually does.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from enum import IntEnum
from typing import Any, NamedTuple

from jobflow.api.resources import EVENTS, JOBFLOWS, JOBTEMPLATES
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client, resource_of

LEAST_PLACES = 4
"""Places of a server that refuses writes."""
FIRST_PLACES = 16
"""Places at first, and of a server that is slow. If it is still slow with so few writes, something
else makes it slow, and fewer would only make it do less."""
MOST_PLACES = 64

GROWTH = 1
SHRINK = 0.9
"""Factor after a round in which most answers were slow."""
SHRINK_AFTER_FAILURE = 0.5
"""Factor after a refusal because of load, or no answer."""
SLOW = 2.0
"""Times the usual answer to a request of the same kind from which an answer is slow."""
SLACK_SECONDS = 0.002
"""Added to it, because on a local network answers are so short that noise would be slow."""
FORGETTING = 1.0005
"""Factor by which each answer moves the usual time of its kind. A server that takes twice as long
for good is no longer slow after some 1,400 answers."""
PATIENCE_SECONDS = 1.0
"""Time after which a write that waits gets a place beyond the others, if none of its urgency is
under way, so that nothing waits for ever."""
TEMPLATE_PATIENCE_SECONDS = 30.0
"""Time after which the status of a JobTemplate gets a place in that way."""


class Urgency(IntEnum):
    """The urgency of a write; the lowest number is sent first."""

    NEEDED = 0
    """A create, and the status of a flow: users and other writes wait for it."""
    START = 1
    """A create of a flow that has not started: those that have started finish sooner without it."""
    DELETE = 2
    SUMMARY = 3
    """The status of a CronJobFlow, which counts what others have done."""
    EVENT = 4
    TEMPLATE = 5
    """The status of a JobTemplate, which nothing reads. It waits while a create or the status of a
    flow waits or is under way, even if there are places."""


def urgency_of(method: str, resource: str, *, is_start: bool = False) -> Urgency | None:
    """Return the urgency of a request (`resource_of` its path), or None for a read. `is_start`:
    whether it is for a flow that has not started."""
    if method == "GET":
        return None
    if resource == EVENTS.plural:
        return Urgency.EVENT
    if method == "DELETE":
        return Urgency.DELETE
    if method == "POST":
        return Urgency.START if is_start else Urgency.NEEDED
    if resource.startswith(JOBFLOWS.plural):
        return Urgency.NEEDED
    return Urgency.TEMPLATE if resource.startswith(JOBTEMPLATES.plural) else Urgency.SUMMARY


_is_start: ContextVar[bool] = ContextVar("is_start", default=False)


@contextmanager
def starting(is_start: bool = True) -> Iterator[None]:
    """Within the body, and in tasks that it creates, creates are those of a flow that has not
    started, if `is_start`."""
    token = _is_start.set(is_start)
    try:
        yield
    finally:
        _is_start.reset(token)


class CongestionWindow:
    """The number of writes that may be under way at once."""

    def __init__(self) -> None:
        self.limit = float(FIRST_PLACES)
        self._usual: dict[Hashable, float] = {}
        """Seconds of the usual answer by kind of request: a median that forgets."""
        self._answers, self._slow = 0, 0
        """Answers of this round, and how many of them were slow."""
        self._has_waited = False
        self._last_failure = -math.inf

    def waited(self) -> None:
        self._has_waited = True

    def answered(self, kind: Hashable, seconds: float) -> None:
        """Note an answer. A round has as many answers as there are places."""
        usual = self._usual.setdefault(kind, seconds)
        self._usual[kind] = usual * FORGETTING if seconds > usual else usual / FORGETTING
        self._answers += 1
        # compared with the time before this answer has changed it
        self._slow += seconds > SLOW * usual + SLACK_SECONDS
        if self._answers < self.limit:
            return
        is_slow = self._slow > self._answers / 2
        if is_slow and self.limit > FIRST_PLACES:
            self._begin_round(max(self.limit * SHRINK, FIRST_PLACES))
        elif self._has_waited and (not is_slow or self.limit < FIRST_PLACES):
            self._begin_round(self.limit + GROWTH)
        else:
            self._begin_round(self.limit)

    def failed(self, began: float, now: float) -> None:
        """Note that the server has refused a write because of its load, or has not answered. Writes
        that began before the last such failure shrink nothing: they tell of the same time."""
        if began >= self._last_failure:
            self._last_failure = now
            self._begin_round(self.limit * SHRINK_AFTER_FAILURE)

    def _begin_round(self, limit: float) -> None:
        self.limit = min(max(limit, LEAST_PLACES), MOST_PLACES)
        # the next round is judged by its own answers
        self._answers, self._slow, self._has_waited = 0, 0, False


class WriteOrder:
    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.window = CongestionWindow()
        self._clock = clock
        self._waiting: dict[Urgency, deque[_Turn]] = {urgency: deque() for urgency in Urgency}
        self._under_way = dict.fromkeys(Urgency, 0)
        self._wants_room: dict[Hashable, Callable[[], None]] = {}
        self._patience: asyncio.TimerHandle | None = None

    @property
    def has_room(self) -> bool:
        """Whether a further write could begin at once."""
        return self._free >= 1 and not any(
            waiting for urgency, waiting in self._waiting.items() if urgency != Urgency.TEMPLATE
        )

    def waiting(self) -> Mapping[Urgency, list[float]]:
        """Return the seconds for which each write has waited, by urgency, the longest first."""
        now = self._clock()
        return {
            urgency: [now - turn.since for turn in waiting if not turn.comes.done()]
            for urgency, waiting in self._waiting.items()
        }

    def when_room(self, key: Hashable, call: Callable[[], None]) -> None:
        """Call once there is room. A later call for the same key replaces the earlier one."""
        self._wants_room[key] = call

    @asynccontextmanager
    async def turn(self, urgency: Urgency, kind: Hashable) -> AsyncIterator[None]:
        """Wait for a place; the body is the write. `kind`: requests whose answers take alike."""
        await self._take(urgency)
        began = self._clock()
        try:
            yield
            # errors come faster than answers, so they do not count here
            self.window.answered(kind, self._clock() - began)
        except ApiError as error:
            # other errors are about the request, not about the load
            if error.code == 429 or error.code > 500:
                self.window.failed(began, self._clock())
            raise
        except NETWORK_ERRORS:
            self.window.failed(began, self._clock())
            raise
        finally:
            self._under_way[urgency] -= 1
            self._go_on()

    @property
    def _free(self) -> float:
        return self.window.limit - sum(self._under_way.values())

    async def _take(self, urgency: Urgency) -> None:
        turn = _Turn(asyncio.get_running_loop().create_future(), self._clock())
        self._waiting[urgency].append(turn)
        self._go_on()
        if turn.comes.done():
            return
        # only then would another place have helped
        if self._free < 1:
            self.window.waited()
        self._watch_patience()
        try:
            await turn.comes
        except asyncio.CancelledError:
            # the place was given in the same moment, and nobody uses it
            if turn.comes.done() and not turn.comes.cancelled():
                self._under_way[urgency] -= 1
                self._go_on()
            raise

    def _go_on(self) -> None:
        """Begin the writes that may begin now, then call those who wait for room."""
        # one start at a time passes all others, so that new flows start on a busy server too
        while self._free >= 1 and not self._under_way[Urgency.START] and self._begin(Urgency.START):
            pass
        for urgency, waiting in self._waiting.items():
            is_template = urgency == Urgency.TEMPLATE
            patience = TEMPLATE_PATIENCE_SECONDS if is_template else PATIENCE_SECONDS
            under_way = self._under_way
            while waiting:
                gives_way = is_template and (under_way[Urgency.NEEDED] or under_way[Urgency.START])
                has_place = self._free >= 1 and not gives_way
                # a write that has waited for too long gets a place beyond the others
                is_overdue = waiting[0].since + patience <= self._clock()
                if not has_place and (under_way[urgency] or not is_overdue):
                    break
                self._begin(urgency)
        for _ in range(int(self._free) if self.has_room else 0):
            if not self._wants_room:
                break
            self._wants_room.pop(next(iter(self._wants_room)))()

    def _begin(self, urgency: Urgency) -> bool:
        """Begin the first write that waits and return True; False if none waits."""
        waiting = self._waiting[urgency]
        if not waiting:
            return False
        turn = waiting.popleft()
        if not turn.comes.done():
            turn.comes.set_result(None)
            self._under_way[urgency] += 1
        return True

    def _watch_patience(self) -> None:
        """Look again when the patience of a waiting write ends; an answer may not come before."""

        # one timer serves all that wait
        def look_again() -> None:
            self._patience = None
            self._go_on()
            if any(self._waiting.values()):
                self._watch_patience()

        if self._patience is None:
            loop = asyncio.get_running_loop()
            self._patience = loop.call_later(PATIENCE_SECONDS, look_again)


class OrderedClient(Client):
    """Requests through another client, whose writes take turns."""

    def __init__(self, client: Client, order: WriteOrder) -> None:
        super().__init__(client.auth, namespace=client.namespace, connections=client._connections)
        self._client = client
        self._order = order

    async def request(self, method: str, path: str, **options: Any) -> bytes:
        # the time limit of a write begins with its turn
        resource = resource_of(path)
        urgency = urgency_of(method, resource, is_start=_is_start.get())
        if urgency is None:
            return await self._client.request(method, path, **options)
        async with self._order.turn(urgency, (method, resource)):
            return await self._client.request(method, path, **options)


class _Turn(NamedTuple):
    comes: asyncio.Future[None]
    since: float
