"""Coroutines that run at once and end together."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")
Task = asyncio.Task[None]
Part = Callable[[], Coroutine[Any, Any, None]]


class PartDied(Exception):
    """A part ended too early; `__cause__` is the exception, if it raised one."""


class Parts:
    """The parts that run while the body of `together` runs."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self.stopping = False
        """Set before parts are asked to end, so that their end is expected."""
        self._tasks = tasks
        self._started: list[Task] = []

    def start(self, name: str, part: Part) -> Task:
        """Run a part from now on."""
        task = self._tasks.create_task(self._watch(name, part), name=name)
        self._started.append(task)
        return task

    def end(self) -> None:
        """Cancel all parts."""
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


async def all_of(*works: Coroutine[Any, Any, T]) -> list[T]:
    """Return the results in order. If one raises, cancel the others, wait for them and raise its
    exception: a request must not outlive its client, as it may with `asyncio.gather`."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in works]
    except BaseExceptionGroup as errors:
        raise _first(errors) from _first(errors).__cause__
    return [task.result() for task in tasks]
