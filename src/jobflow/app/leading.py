"""Leadership of a replica: one term after another while the installed definitions fit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from jobflow.app.crd_watch import CrdWatch
from jobflow.kube.client import Client
from jobflow.kube.election.candidate import Timing
from jobflow.kube.election.election import Election, Lead
from jobflow.runtime.task_group import either
from jobflow.store import Store


@dataclass(frozen=True, slots=True)
class LeaseOptions:
    """The Lease that replicas compete for."""

    namespace: str
    name: str
    timing: Timing = field(default_factory=Timing)


class Leadership(Protocol):
    """Runs `lead` when it may: an Election, or SoleLeader."""

    async def run(self) -> None: ...

    def stop(self) -> None: ...


@dataclass(frozen=True, slots=True)
class SoleLeader:
    """Leads at once: no other replica runs flows."""

    client: Client
    lead: Lead
    on_change: Callable[[bool], None]
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Lead for one term, until `stop`."""
        self.on_change(True)
        try:
            await self.lead(self.client, self.stopping)
        finally:
            self.on_change(False)

    def stop(self) -> None:
        """End the term."""
        self.stopping.set()


@dataclass(frozen=True, slots=True)
class Leading:
    """Leads whenever this replica may, until `finish` is set."""

    client: Client
    store: Store
    crds: CrdWatch
    lead: Lead
    lease: LeaseOptions | None
    on_change: Callable[[bool], None]
    """Called with True when a term begins, with False when it ends."""
    finish: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Lead until `finish`. Candidates have read the cluster: a leader that has not would only
        keep others from leading."""
        while True:
            await either(self.crds.wait_fit(), self.finish.wait())
            await either(self.store.wait_synced(), self.finish.wait())
            if self.finish.is_set():
                return
            leadership = self._leadership()
            stopping = asyncio.create_task(self._stop_in_time(leadership))
            try:
                await leadership.run()
            finally:
                stopping.cancel()
                await asyncio.wait([stopping])

    def _leadership(self) -> Leadership:
        if self.lease is None:
            return SoleLeader(self.client, self.lead, self.on_change)
        return Election(
            self.client,
            self.lead,
            namespace=self.lease.namespace,
            name=self.lease.name,
            timing=self.lease.timing,
            on_change=self.on_change,
        )

    async def _stop_in_time(self, leadership: Leadership) -> None:
        await either(self.crds.wait_unfit(), self.finish.wait())
        leadership.stop()
