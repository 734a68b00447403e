"""A replica that follows the cluster and can lead, for tests of the start of a term."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

from jobflow.api.resources import Resource
from jobflow.controller.controller import lead
from jobflow.kube.client import Client
from jobflow.store import Store, feeds

C = TypeVar("C", bound=Client)


class FollowingReplica(Generic[C]):
    """A store that is kept up to date, and terms of leadership over it."""

    def __init__(self, client: C) -> None:
        self.client = client
        self.store = Store()
        self.feeds = feeds(self.store, client)
        self._tasks = {feed.resource: asyncio.create_task(feed.run()) for feed in self.feeds}

    async def stop_following(self, resource: Resource) -> None:
        """Stop following a kind, so that its copy becomes outdated."""
        self._tasks[resource].cancel()
        await asyncio.wait([self._tasks[resource]])

    @asynccontextmanager
    async def leading(self) -> AsyncIterator[None]:
        """Lead for one term while the body runs."""
        stop = asyncio.Event()
        term = asyncio.create_task(lead(self.client, stop, store=self.store, feeds=self.feeds))
        try:
            yield
        finally:
            stop.set()
            await term

    async def end(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
