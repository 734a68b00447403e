"""Objects of a cluster that one list and watch keeps up to date, and signals of their changes."""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from jobflow.api.resources import Resource
from jobflow.kube.cache import Cache, KubeObject
from jobflow.kube.client import Client, Query
from jobflow.kube.reflector import Reflector

T = TypeVar("T", bound=KubeObject)


class Signal:
    """Tells that something has changed, also whenever one of its sources does."""

    def __init__(self, sources: Iterable["Signal"] = ()) -> None:
        self._waiting: set[asyncio.Event] = set()
        self._sources = list(sources)

    def notify(self) -> None:
        for event in self._waiting:
            event.set()

    def watch(self, event: asyncio.Event) -> None:
        """Set this event from now on."""
        self._waiting.add(event)
        for source in self._sources:
            source.watch(event)

    @contextmanager
    def watched(self) -> Iterator[asyncio.Event]:
        """Yield an event that is set by each change."""
        event = asyncio.Event()
        self.watch(event)
        try:
            yield event
        finally:
            self.unwatch(event)

    def unwatch(self, event: asyncio.Event) -> None:
        self._waiting.discard(event)
        for source in self._sources:
            source.unwatch(event)


async def stop_task(task: asyncio.Task[None] | None) -> None:
    """Cancel a task, if there is one, and wait for its end."""
    if task is not None:
        task.cancel()
        await asyncio.wait([task])


class LiveObjects(Generic[T]):
    """Objects of one kind. `changed` tells of every change."""

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
        self.task: asyncio.Task[None] | None = None
        """The watch, once it has begun. It ends by itself only by a fault of this program."""

    def start(self) -> None:
        self.task = asyncio.create_task(self.reflector.run())
        self.task.add_done_callback(lambda _: self.changed.notify())

    async def stop(self) -> None:
        await stop_task(self.task)

    def _update(self, old: T | None, new: T | None) -> None:
        self.changed.notify()
