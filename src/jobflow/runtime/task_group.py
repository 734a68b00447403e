"""Long-running parts that live together: when one of them dies, all end. Knows none of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import structlog

log = structlog.get_logger(__name__)

Task = asyncio.Task[None]
Part = Callable[[], Coroutine[Any, Any, None]]


class PartDied(Exception):
    """A part ended that should have gone on; `__cause__` is why, where it raised."""


class Parts:
    """The parts that run while the body of `together` does."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self.stopping = False
        """Set before parts are told to end, so that their end is no death."""
        self._tasks = tasks
        self._started: list[Task] = []

    def start(self, name: str, part: Part) -> Task:
        """Run a part from now on."""
        task = self._tasks.create_task(self._watch(name, part), name=name)
        self._started.append(task)
        return task

    def end(self) -> None:
        """Cancel every part that still runs."""
        self.stopping = True
        for task in self._started:
            task.cancel()

    async def _watch(self, name: str, part: Part) -> None:
        try:
            await part()
        except Exception as error:
            log.exception("part died", part=name)
            cause = _first(error)
            raise PartDied(f"{name} died: {str(cause) or type(cause).__name__}") from cause
        if not self.stopping:
            raise PartDied(f"{name} ended before it was told to")


@asynccontextmanager
async def together() -> AsyncIterator[Parts]:
    """Parts that are cancelled when the body ends. The body is cancelled when a part dies, and
    PartDied is raised; an exception of the body comes out as it is."""
    try:
        async with asyncio.TaskGroup() as tasks:
            parts = Parts(tasks)
            yield parts
            parts.end()
    except BaseExceptionGroup as group:
        raise _first(group) from _first(group).__cause__


def _first(error: BaseException) -> BaseException:
    """The exception itself out of a group of groups; others of the group are in the log."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def either(*waits: Coroutine[Any, Any, Any]) -> None:
    """Return when the first of them does."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
