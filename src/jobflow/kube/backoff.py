"""Delays between attempts: they double up to a maximum, with jitter."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

from jobflow.kube.errors import NETWORK_ERRORS, ApiError

LONGEST_RETRY = 5.0
"""Longest pause between two attempts of `retried`."""

log = logging.getLogger(__name__)


def delay(tries: int, *, first: float, most: float, dice: Callable[[], float]) -> float:
    """Return the seconds before attempt number `tries` + 1: `first`, doubled each time up to
    `most`. A random part, up to half, is subtracted, so that clients that failed together do not
    retry together."""
    # more doublings would only overflow
    seconds = min(most, first * 2.0 ** min(tries, 32))
    return seconds * (1.0 - dice() / 2.0)


class ExponentialBackoff:
    """Delays after failures in a row of one thing."""

    def __init__(
        self, *, first: float = 0.2, most: float = 30.0, dice: Callable[[], float] = random.random
    ) -> None:
        self._first = first
        self._most = most
        self._dice = dice
        self._tries = 0

    def next(self) -> float:
        """Return the seconds to wait after one more failure."""
        tries, self._tries = self._tries, self._tries + 1
        return delay(tries, first=self._first, most=self._most, dice=self._dice)

    def reset(self) -> None:
        """Start from the shortest delay again, after a success."""
        self._tries = 0


async def retried(read: Callable[[], Awaitable[None]]) -> None:
    """Call `read` (`catch_up` or `reread` of a Reflector) until it succeeds."""
    backoff = ExponentialBackoff(most=LONGEST_RETRY)
    while True:
        try:
            return await read()
        except (ApiError, *NETWORK_ERRORS) as error:
            log.warning("cannot read what the API server holds", extra={"error": str(error)})
        await asyncio.sleep(backoff.next())
