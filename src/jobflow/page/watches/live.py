"""Copies of objects of the cluster that are kept up to date while pages show them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Protocol, TypeVar

from jobflow.client.flows.find_flow import NOT_INSTALLED
from jobflow.client.flows.live import LiveObjects, Signal
from jobflow.core.text import format_count, to_sentence
from jobflow.kube.cache import KubeObject
from jobflow.kube.client import Client

T = TypeVar("T", bound=KubeObject)
L = TypeVar("L", bound="Watched")

LINGER_SECONDS = 30.0
"""How long a watch goes on after the last page that needed it, because the next page may too."""
ANSWER_SECONDS = 5.0
"""How long a document waits for the cluster's first answer."""


class Watched(Protocol):
    """A value that pages share while they need it."""

    changed: Signal

    def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def answered(self) -> None: ...


class Live(LiveObjects[T]):
    """Objects of one kind that pages show."""

    @property
    def trouble(self) -> str:
        """Why the objects are not up to date, and what to do; "" if they are, or may soon be."""
        cache, error, task = self.cache, self.reflector.error, self.task
        if task is not None and task.done() and not task.cancelled():
            # only a fault of this program can end the watch
            return f"The watch ended by an error ({task.exception()!r}): start `jobflow ui` again."
        if cache.served is False:
            if error is None or error.code != 403:
                return to_sentence(NOT_INSTALLED)
            kind = self.resource.qualified
            where = f'in namespace "{self.namespace}"' if self.namespace else "in all namespaces"
            return (
                f"You may not list and watch {kind} {where}: ask an administrator for the role "
                f"view there. The cluster says: {error.message}"
            )
        if cache.failing:
            old = "what you see may be old" if cache.synced else "nothing can be shown yet"
            if error is not None and error.code == 401:
                log_in = "The cluster does not accept your login (401): log in again"
                return f"{log_in}. Until then, {old}."
            verb = "does not answer" if error is None else "answers with an error"
            return f"The cluster {verb} ({self.reflector.trouble}): {old}. Trying again."
        if count := self.reflector.unreadable:
            objects = format_count(count, self.resource.kind)
            return f"{objects} cannot be read and {'is' if count == 1 else 'are'} not shown."
        return ""

    async def answered(self) -> None:
        """Return once the cluster has answered, or after ANSWER_SECONDS."""
        with self.changed.watched() as event, suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_SECONDS):
                while not self.cache.answered:
                    event.clear()
                    await event.wait()


class Watches:
    """All watches of the page, each shared by the pages that need it. An async context manager."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._live: dict[Hashable, Watched] = {}
        self._users: dict[Hashable, int] = {}
        self._ends: dict[Hashable, asyncio.Task[None]] = {}
        self._is_closed = False

    async def __aenter__(self) -> Watches:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_closed = True  # the last requests may end later
        for task in self._ends.values():
            task.cancel()
        async with AsyncExitStack() as stack:
            for live in self._live.values():
                stack.push_async_callback(live.stop)
        await asyncio.gather(*self._ends.values(), return_exceptions=True)

    @asynccontextmanager
    async def using(self, key: Hashable, make: Callable[[], L]) -> AsyncIterator[L]:
        """Provide the watch with this key, which begins with its first user. It is returned once
        the cluster has answered."""
        # somebody came back while the watch lingered
        if (ending := self._ends.pop(key, None)) is not None:
            ending.cancel()
        # one watch for all pages that show the same
        if key not in self._live:
            self._live[key] = made = make()
            made.start()
        self._users[key] = self._users.get(key, 0) + 1
        live: Any = self._live[key]
        try:
            # a document without content would be replaced at once by its stream
            await live.answered()
            yield live
        finally:
            # also if the request was cancelled while it waited
            self._users[key] -= 1
            if not self._users[key] and not self._is_closed:
                self._ends[key] = asyncio.create_task(self._end(key))

    async def _end(self, key: Hashable) -> None:
        # a link to another page of the same flow must not list everything once more
        await asyncio.sleep(LINGER_SECONDS)
        live = self._live.pop(key)
        del self._users[key], self._ends[key]
        await live.stop()
