"""SIGINT, SIGTERM and SIGHUP as an event, so that a command can clean up. A second SIGINT cancels
the command, another second signal kills it."""

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
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    numbers = [number for number in _SIGNALS if before[number] is not signal.SIG_IGN]

    def restore() -> None:
        for number in numbers:
            # another handler may have been set meanwhile
            if signal.getsignal(number) is interrupt:
                signal.signal(number, before[number])

    def interrupt(*_: object) -> None:
        # not by the loop, which would take two that come at once for one
        restore()
        loop.call_soon_threadsafe(event.set)

    for number in numbers:
        signal.signal(number, interrupt)
    try:
        yield event
    finally:
        restore()


async def run_unless(event: asyncio.Event, work: Coroutine[Any, Any, object]) -> bool:
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
        # both are awaited, so that a signal leaves no request half sent
        task.cancel()
        interrupted.cancel()
        await asyncio.wait((task, interrupted))
