"""Facts about a step that a page reads now and then, because they cannot be watched for a single
step: words of Volcano about its jobs that wait, child flows that explain it, and events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.volcano.pod import Pod
from jobflow.client.errors import CommandError
from jobflow.client.flows.why import explain_children, read_facts
from jobflow.core.explain.explain import explain_step
from jobflow.core.explain.scheduling import NO_FACTS, SchedulingFacts
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client
from jobflow.page.watches.events import EventLine, read_events
from jobflow.page.watches.flows import LiveFlow
from jobflow.page.watches.live import ANSWER_SECONDS
from jobflow.page.web.stream import Signal

PAUSE_SECONDS = 2.0
"""Shortest time between two readings."""
RENEW_SECONDS = 10.0
"""Longest time between two readings while the flow has not finished: PodGroups, queues and events
change without a change of flow and pods."""


class StepReadings:
    """The readings about a step, or about an item of it."""

    def __init__(
        self,
        client: Client,
        live: LiveFlow,
        step: str,
        index: int | None,
        pods: Callable[[JobFlow], Sequence[Pod]],
        signals: Sequence[Signal],
    ) -> None:
        self.changed = Signal()
        self.facts: SchedulingFacts = NO_FACTS
        self.children: tuple[str, ...] = ()
        """Sentences about child flows that explain the step."""
        self.events: tuple[EventLine, ...] = ()
        """Events of the step's jobs, their PodGroups and pods; the newest first."""
        self.problem = ""
        """Why events are missing."""
        self._client = client
        self._live = live
        self._step = step
        self._index = index
        self._pods = pods
        self._signals = signals
        self._was_read = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to read."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stop reading."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def answered(self) -> None:
        """Return once everything was read, or after ANSWER_SECONDS."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._was_read.wait(), ANSWER_SECONDS)

    async def _run(self) -> None:
        event = asyncio.Event()
        for signal in self._signals:
            signal.watch(event)
        try:
            while True:
                event.clear()
                await self._read()
                self._was_read.set()
                await asyncio.sleep(PAUSE_SECONDS)
                flow = self._live.flow
                with suppress(TimeoutError):
                    has_ended = flow is None or flow.final
                    await asyncio.wait_for(event.wait(), None if has_ended else RENEW_SECONDS)
        finally:
            for signal in self._signals:
                signal.unwatch(event)

    async def _read(self) -> None:
        if (flow := self._live.flow) is None:
            return
        before = self._shown
        try:
            await self._read_causes(flow)
            found = await read_events(self._client, flow, self._step, self._index, self._pods(flow))
            self.events, self.problem = found.lines, found.problem
        except (KeyError, IndexError):  # a later flow of this name has no such step or item
            return
        except (ApiError, CommandError, *NETWORK_ERRORS) as error:
            self.problem = f"Some of it could not be read: {error}"
        if self._shown != before:
            self.changed.notify()

    async def _read_causes(self, flow: JobFlow) -> None:
        facts = await read_facts(self._client, flow, self._step, self._index)
        now = datetime.now(UTC)
        found = explain_step(flow, self._step, index=self._index, now=now, facts=facts)
        children = await explain_children(self._client, flow, found, self._step, self._index)
        self.facts, self.children = facts, tuple(children)

    @property
    def _shown(self) -> tuple[object, ...]:
        return self.facts, self.children, self.events, self.problem
