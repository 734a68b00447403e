"""The event loop of every command, and coroutines that run at once and end together."""

import asyncio
import gc
import logging
import signal
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from jobflow.runtime import ctrl_c

log = logging.getLogger(__name__)

S = TypeVar("S")
T = TypeVar("T")
_FEW_OBJECTS = (700, 10, 10)


def run(main: Coroutine[Any, Any, T], *, is_brief: bool = False) -> T:
    """Run a coroutine on an event loop and return its result. Ctrl-C cancels it and then raises
    KeyboardInterrupt; another one ends the process at once. `is_brief`: the loop is that of
    asyncio, because importing uvloop would take longer than it saves."""
    is_main = threading.current_thread() is threading.main_thread()
    handles = is_main and ctrl_c.is_ours()

    async def cancellable() -> T:
        task = asyncio.current_task()
        assert task is not None

        def cancel(*_: object) -> None:
            signal.signal(signal.SIGINT, ctrl_c.end)
            task.get_loop().call_soon_threadsafe(task.cancel)

        signal.signal(signal.SIGINT, cancel)
        try:
            return await main
        finally:
            # nothing is left to cancel while the loop is closed
            signal.signal(signal.SIGINT, ctrl_c.skip)

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


Task = asyncio.Task[None]
Part = Callable[[], Coroutine[Any, Any, None]]


class PartDied(Exception):
    """A part ended too early; `__cause__` is the exception, if it raised one."""


class Parts:
    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self.stopping = False
        """Set before parts are asked to end, so that their end is expected."""
        self._tasks = tasks
        self._started: list[Task] = []

    def start(self, name: str, part: Part) -> Task:
        task = self._tasks.create_task(self._watch(name, part), name=name)
        self._started.append(task)
        return task

    def end(self) -> None:
        self.stopping = True
        for task in self._started:
            task.cancel()

    async def _watch(self, name: str, part: Part) -> None:
        try:
            await part()
        except Exception as error:
            log.exception("part died", extra={"part": name})
            cause = _first(error)
            raise PartDied(f"{name} died: {str(cause) or type(cause).__name__}") from cause
        # a part that ends early leaves the process useless without anybody noticing
        if not self.stopping:
            raise PartDied(f"{name} ended before it was told to")


@asynccontextmanager
async def together() -> AsyncIterator[Parts]:
    """Cancel the parts when the body ends. If a part ends first, cancel the body and raise
    PartDied. An exception of the body is raised as it is."""
    try:
        async with asyncio.TaskGroup() as tasks:
            parts = Parts(tasks)
            yield parts
            parts.end()
    except BaseExceptionGroup as group:
        raise _first(group) from _first(group).__cause__


def _first(error: BaseException) -> BaseException:
    """Return the first exception of nested groups; the log has the others."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def either(*waits: Coroutine[Any, Any, Any]) -> None:
    """Return when one of them returns, or raise its exception. The others are cancelled."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        finished, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for task in finished:
        task.result()


async def each_of(
    work: Callable[[S], Coroutine[Any, Any, T]], items: Iterable[S], *, at_once: int
) -> list[T]:
    """Return the result of `work` for each item, in order, as `all_of` does; at most `at_once` run
    at a time."""
    slots = asyncio.Semaphore(at_once)

    async def work_on(item: S) -> T:
        async with slots:
            return await work(item)

    return await all_of(*map(work_on, items))


async def all_of(*works: Coroutine[Any, Any, T]) -> list[T]:
    """Return the results in order. If one raises, cancel the others, wait for them and raise its
    exception: a request must not outlive its client, as it may with `asyncio.gather`."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in works]
    except BaseExceptionGroup as errors:
        raise _first(errors) from _first(errors).__cause__
    return [task.result() for task in tasks]
