"""CPU time of a call. Some machines occasionally add the time of other processes."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
TRIES = 5


def least_cpu(call: Callable[[], T], bound: float) -> tuple[T, float]:
    """Return the result of a call and its CPU time in seconds. A call that takes longer than
    `bound` is repeated, because a call that is always too slow takes that long every time."""
    least = float("inf")
    for _ in range(TRIES):
        begin = time.process_time()
        result = call()
        least = min(least, time.process_time() - begin)
        if least < bound:
            break
    return result, least
