"""Ctrl-C, SIGTERM and SIGHUP as an event, so that a command can end in order. The second one ends
it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interruption() -> Iterator[asyncio.Event]:
    """An event that the first of the signals sets while the body runs."""
    event = asyncio.Event()
    loop = asyncio.get_running_loop()
    numbers = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]

    def told() -> None:
        event.set()
        for number in numbers:
            loop.remove_signal_handler(number)

    for number in numbers:  # nohup has SIGHUP ignored, and that is to stay so
        loop.add_signal_handler(number, told)
    try:
        yield event
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


async def unless(event: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Do some work, but only until the event is set; returns whether it was done."""
    task = asyncio.ensure_future(work)
    interrupted = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait((task, interrupted), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
            return True
        return False
    finally:
        task.cancel()
        interrupted.cancel()
        await asyncio.wait((task, interrupted))
