"""Leadership of a replica: one term after another while the installed definitions fit."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

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
            # a leader without fitting definitions would write statuses that lose fields
            await either(self.crds.fit.wait(), self.finish.wait())
            # a candidate that knows nothing keeps others from leading
            await either(self.store.synced.wait(), self.finish.wait())
            if self.finish.is_set():
                return
            stopping = asyncio.Event()

            async def stop_in_time(stopping: asyncio.Event = stopping) -> None:
                await either(self.crds.unfit.wait(), self.finish.wait())
                stopping.set()

            watching = asyncio.create_task(stop_in_time())
            try:
                if self.lease is None:
                    self.on_change(True)
                    await self.lead(self.client, stopping)
                else:
                    await Election(
                        self.client,
                        self.lead,
                        namespace=self.lease.namespace,
                        name=self.lease.name,
                        timing=self.lease.timing,
                        stopping=stopping,
                        on_change=self.on_change,
                    ).run()
            finally:
                if self.lease is None:
                    self.on_change(False)
                watching.cancel()
                await asyncio.wait([watching])
