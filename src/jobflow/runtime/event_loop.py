"""The event loop of every command."""

import asyncio
import gc
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

from jobflow.runtime import ctrl_c

T = TypeVar("T")
_FEW_OBJECTS = (700, 10, 10)
"""The default of Python."""


def run(main: Coroutine[Any, Any, T], *, is_brief: bool = False) -> T:
    """Run a coroutine on an event loop and return its result. Ctrl-C cancels it and then raises
    KeyboardInterrupt; another one ends the process at once. `is_brief`: the loop is that of
    asyncio, because importing uvloop would take longer than it saves."""
    is_main = threading.current_thread() is threading.main_thread()
    handles = is_main and ctrl_c.is_ours()

    async def cancellable() -> T:
        task = asyncio.current_task()
        assert task is not None
        with _cancelling(task):
            return await main

    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    if not is_brief:
        import uvloop

        loop_factory = uvloop.new_event_loop
        gc.set_threshold(*_FEW_OBJECTS)
    try:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            return runner.run(cancellable() if handles else main)
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        if handles:
            signal.signal(signal.SIGINT, ctrl_c.interrupt)


_START_SECONDS = 10.0
"""Time for a thread to start."""


def run_beside(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine from a program that may have an event loop of its own, such as a notebook:
    there it runs in a thread. Ctrl-C cancels it and then raises KeyboardInterrupt."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return run(main())
    from concurrent.futures import ThreadPoolExecutor  # no command needs threads

    begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = Future()

    async def announced() -> T:
        task = asyncio.current_task()
        assert task is not None
        begun.set_result((asyncio.get_running_loop(), task))
        return await main()

    with ThreadPoolExecutor(max_workers=1) as threads:
        try:
            return threads.submit(run, announced()).result()
        except KeyboardInterrupt:
            loop, task = begun.result(timeout=_START_SECONDS)
            loop.call_soon_threadsafe(task.cancel)
            raise


@contextmanager
def _cancelling(task: asyncio.Task[Any]) -> Iterator[None]:
    """Let Ctrl-C cancel the task, and do nothing while the loop is closed after it."""

    def cancel(*_: object) -> None:
        signal.signal(signal.SIGINT, ctrl_c.end)
        task.get_loop().call_soon_threadsafe(task.cancel)

    signal.signal(signal.SIGINT, cancel)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, ctrl_c.skip)
