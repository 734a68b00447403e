"""Clocks: seconds that nobody sets, the time of an API server, and delays between attempts."""

import logging
import random
import time
from collections import deque
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

log = logging.getLogger(__name__)

ANSWERS = 9
"""Answers whose medians count, so that a few late ones do not matter."""
BETWEEN_ANSWERS = 1.0
"""Seconds between two answers that count."""
RESOLUTION = 1.0
"""Seconds by which a Date header may be too early: it has whole seconds."""
_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
LARGE_OFFSET = 30.0
"""Seconds from which an offset is a fault of this machine that somebody should mend."""


def boot_clock() -> float:
    """Return seconds that count while the machine is suspended too, if the system supports it
    (time.monotonic does not, on Linux). Setting the time does not change them."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class ServerClock:
    """The time of an API server, from the Date headers of its answers. The server writes the header
    between request and answer, and up to RESOLUTION after the time that it names, so each answer
    gives the earliest and the latest time that the server may have. While the time of this machine
    is between the medians of both, it is used as it is: a clock that is right is never corrected,
    however slow the answers are. Otherwise the middle is used until the answers contradict it."""

    def __init__(
        self, *, wall: Callable[[], float] = time.time, clock: Callable[[], float] = boot_clock
    ) -> None:
        """`wall` is the clock of this machine, in seconds since 1970, which somebody may set at any
        time; `clock` is one that nobody sets."""
        self._wall = wall
        self._clock = clock
        self._earliest: deque[float] = deque(maxlen=ANSWERS)
        self._latest: deque[float] = deque(maxlen=ANSWERS)
        """The times that the server may have had when `_clock` was 0."""
        self._bounds: tuple[float, float] | None = None
        self._taken_at = float("-inf")
        self._offset = 0.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._wall() + self.offset, UTC)

    @property
    def offset(self) -> float:
        """Seconds that the server is ahead of this machine."""
        if self._bounds is not None:
            # changes when somebody sets the time of this machine
            since_zero = self._wall() - self._clock()
            lowest, highest = (bound - since_zero for bound in self._bounds)
            if not lowest <= self._offset <= highest:
                is_right = lowest <= 0 <= highest
                self._change(0.0 if is_right else (lowest + highest) / 2)
        return self._offset

    def answered(self, date: str | None, sent: float, received: float) -> None:
        """Note the Date header of an answer, and when (`boot_clock`) the request was sent and the
        header received."""
        # answers of one burst would all be as late as each other
        if date is None or received - self._taken_at < BETWEEN_ANSWERS:
            return
        try:
            # not strptime, which reads the months in the language of the user
            _, day, month, year, time_of_day, zone = date.split()
            if zone != "GMT":
                return
            hour, minute, second = map(int, time_of_day.split(":"))
            moment = int(year), _MONTHS.index(month) + 1, int(day), hour, minute, second
            named = datetime(*moment, tzinfo=UTC).timestamp()
        except ValueError:
            return
        self._taken_at = received
        # the header was written before it came, and after the request was sent
        self._earliest.append(named - received)
        self._latest.append(named + RESOLUTION - sent)
        self._bounds = _median(self._earliest), _median(self._latest)

    def _change(self, offset: float) -> None:
        # log only when it becomes large or small, not at each answer
        was_large, self._offset = abs(self._offset) >= LARGE_OFFSET, offset
        is_large = abs(offset) >= LARGE_OFFSET
        if is_large and not was_large:
            log.warning(
                "the clock of this machine differs from that of the API server, which is used",
                extra={"offset_seconds": round(offset, 1)},
            )
        elif was_large and not is_large:
            log.info("the clock of this machine agrees with that of the API server again")


def _median(numbers: Iterable[float]) -> float:
    ordered = sorted(numbers)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def delay(tries: int, *, first: float, most: float, dice: Callable[[], float]) -> float:
    """Return the seconds before attempt number `tries` + 1: `first`, doubled each time up to
    `most`, less a random part, so that clients that failed together do not retry together."""
    # more doublings would only overflow
    seconds = min(most, first * 2.0 ** min(tries, 32))
    return seconds * (1.0 - dice() / 2.0)


class ExponentialBackoff:
    def __init__(
        self, *, first: float = 0.2, most: float = 30.0, dice: Callable[[], float] = random.random
    ) -> None:
        self._first = first
        self._most = most
        self._dice = dice
        self._tries = 0

    def next(self) -> float:
        tries, self._tries = self._tries, self._tries + 1
        return delay(tries, first=self._first, most=self._most, dice=self._dice)

    def reset(self) -> None:
        self._tries = 0
