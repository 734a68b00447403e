"""SIGINT, SIGTERM and SIGHUP as an event, so that a command can clean up. A second signal kills."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interruption() -> Iterator[asyncio.Event]:
    """Yield an event that the first signal sets."""
    event = asyncio.Event()
    loop = asyncio.get_running_loop()
    # nohup ignores SIGHUP, and it has to stay ignored
    numbers = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]

    def remove_handlers() -> None:
        for number in numbers:
            loop.remove_signal_handler(number)

    def interrupt() -> None:
        event.set()
        remove_handlers()

    for number in numbers:
        loop.add_signal_handler(number, interrupt)
    try:
        yield event
    finally:
        remove_handlers()


async def run_unless(event: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Run `work` until it is done or the event is set; return whether it is done."""
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
