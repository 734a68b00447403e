"""The earlier flows of a namespace, from which running times are learned."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import JOBFLOWS
from jobflow.client.errors import CommandError
from jobflow.client.flows.find_flow import to_flow
from jobflow.core.timelines.time_left import History, learn
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client
from jobflow.kube.reading import RawList
from jobflow.page.web.stream import Signal

MAX_FLOWS = 2_000
"""Flows that are read."""


class EarlierFlows:
    """Reads flows in the background, once somebody asks for what they tell."""

    def __init__(self, client: Client, namespace: str, changed: Signal) -> None:
        self._client, self._namespace, self._changed = client, namespace, changed
        self._task: asyncio.Task[None] | None = None
        self._history: History | None = None

    def history(self) -> History | None:
        """Return the running times of jobs; None until they are read. `changed` tells when."""
        if self._task is None:
            self._task = asyncio.create_task(self._read())
        return self._history

    async def stop(self) -> None:
        """Stop reading."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _read(self) -> None:
        flows: list[JobFlow] = []
        try:
            async for page in self._client.list(JOBFLOWS, RawList, namespace=self._namespace):
                flows += [to_flow(each) for each in page.items or ()]
                if len(flows) >= MAX_FLOWS:
                    break
        except (ApiError, CommandError, *NETWORK_ERRORS):  # the estimate is made of what was read
            pass
        self._history = learn(flows)
        self._changed.notify()
