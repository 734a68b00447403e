"""Copies of objects of the cluster that are kept up to date while pages show them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Generic, Protocol, TypeVar

from jobflow.api.resources import Resource
from jobflow.kube.cache import Cache, KubeObject
from jobflow.kube.client import Client, Query
from jobflow.kube.reflector import Reflector
from jobflow.page.web.stream import Signal

T = TypeVar("T", bound=KubeObject)
L = TypeVar("L", bound="Watched")

LINGER_SECONDS = 30.0
"""How long a watch goes on after the last page that needed it, because the next page may too."""
ANSWER_SECONDS = 5.0
"""How long a document waits for the cluster's first answer."""


class Watched(Protocol):
    """A value that pages share while they need it."""

    changed: Signal

    def start(self) -> None:
        """Begin to read."""

    async def stop(self) -> None:
        """Stop reading."""

    async def answered(self) -> None:
        """Return once the cluster has answered, or after ANSWER_SECONDS."""


class Live(Generic[T]):
    """Objects of one kind, by one list and watch. `changed` tells of every change."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        kind: type[T],
        *,
        namespace: str,
        query: Query = (),
        changed: Signal | None = None,
    ) -> None:
        self.resource = resource
        self.namespace = namespace
        self.changed = changed or Signal()
        self.cache: Cache[T] = Cache(self._update)
        self.cache.on_state = self.changed.notify
        self.reflector = Reflector(
            client, resource, kind, self.cache, namespace=namespace, query=query
        )
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to watch."""
        self._task = asyncio.create_task(self.reflector.run())
        self._task.add_done_callback(lambda _: self.changed.notify())

    @property
    def defect(self) -> BaseException | None:
        """The exception that ended the watch, which only a fault of this program can do."""
        ended = self._task is not None and self._task.done() and not self._task.cancelled()
        return self._task.exception() if ended and self._task is not None else None

    async def stop(self) -> None:
        """Stop watching."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def answered(self) -> None:
        """Return once the cluster has answered, or after ANSWER_SECONDS."""
        event = asyncio.Event()
        self.changed.watch(event)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                while not self.cache.answered:
                    event.clear()
                    await event.wait()
        except TimeoutError:
            pass
        finally:
            self.changed.unwatch(event)

    def _update(self, old: T | None, new: T | None) -> None:
        self.changed.notify()


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
    async def using(self, key: Hashable, make: Callable[[Client], L]) -> AsyncIterator[L]:
        """Provide the watch with this key, which begins with its first user. It is returned once
        the cluster has answered."""
        if (ending := self._ends.pop(key, None)) is not None:
            ending.cancel()
        if key not in self._live:
            self._live[key] = made = make(self.client)
            made.start()
        self._users[key] = self._users.get(key, 0) + 1
        live: Any = self._live[key]
        try:
            await live.answered()
            yield live
        finally:
            self._users[key] -= 1
            if not self._users[key] and not self._is_closed:
                self._ends[key] = asyncio.create_task(self._end(key))

    async def _end(self, key: Hashable) -> None:
        await asyncio.sleep(LINGER_SECONDS)
        live = self._live.pop(key)
        del self._users[key], self._ends[key]
        await live.stop()
