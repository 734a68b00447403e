"""The watches of flows: summaries of all flows of a namespace, and one flow with its details."""

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, suppress
from datetime import datetime

import msgspec

from jobflow.api import labels
from jobflow.api.flow.control import Reuse
from jobflow.api.flow.cronjobflow import CronJobFlow
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import FINAL_PHASES, FlowPhase, FlowState
from jobflow.api.resources import CRONJOBFLOWS, JOBFLOWS, NAMESPACES, Object, ObjectMeta, Struct
from jobflow.client.errors import CommandError
from jobflow.client.flows.children import has_children
from jobflow.client.flows.find_flow import find_outermost, to_flow
from jobflow.client.flows.live import stop_task
from jobflow.core.names import root_label
from jobflow.core.timelines.time_left import History, learn
from jobflow.kube.answers import ItemList, RawList
from jobflow.kube.cache import key_of
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client
from jobflow.kube.connections import METADATA_ONLY
from jobflow.page.watches.live import Live, Watches

MAX_FLOWS = 2_000
"""Earlier flows from which running times are learned."""


async def list_namespaces(client: Client, chosen: str) -> list[str]:
    """Return the names of all namespaces, if the user may list them, with the client's own and the
    chosen one ("" is none) in any case."""
    names = {client.namespace, chosen}
    try:
        async for page in client.list(NAMESPACES, ItemList[Object], accept=METADATA_ONLY):
            names |= {item.metadata.name for item in page.items or ()}
    except (ApiError, *NETWORK_ERRORS):  # the list is a convenience; others say what is wrong
        pass
    return sorted(names - {""})


class SummaryStatus(Struct):
    """The part of a status that a list shows."""

    state: FlowState = msgspec.field(default_factory=FlowState)
    progress: str = ""
    start_time: datetime | None = None
    completion_time: datetime | None = None


class SummarySpec(Struct):
    """The part of a spec that tells how flows belong together."""

    reuse: Reuse | None = None


class FlowSummary(Struct):
    """A flow without its steps. Ten thousand of them take a few megabytes."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: SummarySpec = msgspec.field(default_factory=SummarySpec)
    status: SummaryStatus = msgspec.field(default_factory=SummaryStatus)

    @property
    def phase(self) -> str:
        """The phase; that of a flow that no controller has handled yet is Pending."""
        return self.status.state.phase or FlowPhase.PENDING

    @property
    def is_final(self) -> bool:
        return self.status.state.phase in FINAL_PHASES

    @property
    def is_child(self) -> bool:
        return labels.PARENT in (self.metadata.labels or {})


LiveFlows = Live[FlowSummary]


class _Reusing(Live[FlowSummary]):
    """The flows of a namespace, of which those that reuse another one are told."""

    def _update(self, old: FlowSummary | None, new: FlowSummary | None) -> None:
        if (old is None or new is None) and (found := new or old) and found.spec.reuse is not None:
            super()._update(old, new)


class LiveFlow(Live[JobFlow]):
    """One flow, with all its details."""

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        query = [("fieldSelector", f"metadata.name={name}")]
        super().__init__(client, JOBFLOWS, JobFlow, namespace=namespace, query=query)
        self.name = name
        self.flow: JobFlow | None = None
        """The flow, or its last state if it is deleted; None if it does not exist."""
        self.is_deleted = False
        self._client = client
        self._below: Live[JobFlow] | None = None
        self._reusing: _Reusing | None = None
        self._cron: Live[CronJobFlow] | None = None
        self._outermost = "", ""
        self._finding: asyncio.Task[None] | None = None
        self._history: History | None = None
        self._reading: asyncio.Task[None] | None = None

    def below(self, flow: JobFlow) -> Live[JobFlow]:
        """Return the watch of the child flows at any level, which begins with the first call."""
        if self._below is None:
            query = [("labelSelector", f"{labels.ROOT}={root_label(flow)}")]
            self._below = Live(
                self._client,
                JOBFLOWS,
                JobFlow,
                namespace=self.namespace,
                query=query,
                changed=self.changed,
            )
            self._below.start()
        return self._below

    def children(self) -> Mapping[str, JobFlow]:
        """Return the child flows below the flow, at any level, by name."""
        if self._below is None and self.flow is not None and has_children(self.flow):
            self.below(self.flow)
        return {flow.metadata.name: flow for flow in self._below.cache} if self._below else {}

    def outermost(self) -> tuple[str, str]:
        """Return the name of the outermost flow, and the path from it to the steps of this one,
        such as `samples/3/`; both "" as long as it is not known."""
        if self._finding is None and self.flow is not None:
            if not self.flow.is_child:
                return self.name, ""
            self._finding = asyncio.create_task(self._find_outermost(self.flow))
        return self._outermost

    async def _find_outermost(self, flow: JobFlow) -> None:
        # without the right to read the flows above, it stays unknown
        with suppress(CommandError, ApiError, *NETWORK_ERRORS):
            found, path = await find_outermost(self._client, flow)
            self._outermost = found.metadata.name, path
        self.changed.notify()

    def reused_by(self) -> list[str]:
        """Return the flows that reuse the flow, as far as they are known. Their watch begins with
        the first call after the end of the flow."""
        if self._reusing is None and self.flow is not None and self.flow.final:
            self._reusing = _Reusing(
                self._client,
                JOBFLOWS,
                FlowSummary,
                namespace=self.namespace,
                changed=self.changed,
            )
            self._reusing.start()
        found = self._reusing.cache if self._reusing is not None else ()
        return [
            each.metadata.name
            for each in found
            if each.spec.reuse is not None and each.spec.reuse.flow == self.name
        ]

    def awaited_by(self) -> CronJobFlow | None:
        """Return the CronJobFlow that waits for the flow, as far as it is known. Its watch begins
        with the first call."""
        owner = self.flow.metadata.controller if self.flow is not None else None
        if owner is None or owner.kind != CRONJOBFLOWS.kind:
            return None
        if self._cron is None:
            self._cron = Live(
                self._client,
                CRONJOBFLOWS,
                CronJobFlow,
                namespace=self.namespace,
                query=[("fieldSelector", f"metadata.name={owner.name}")],
                changed=self.changed,
            )
            self._cron.start()
        cron = self._cron.cache.get(self.namespace, owner.name)
        return cron if cron is not None and cron.status.waits_for == self.name else None

    def history(self) -> History | None:
        """Return what earlier flows of the namespace tell about running times. They are read once,
        after the first call; None until then. `changed` tells when."""
        # each drawing asks for it
        if self._reading is None:
            self._reading = asyncio.create_task(self._learn())
        return self._history

    async def stop(self) -> None:
        await stop_task(self._reading)
        await stop_task(self._finding)
        if self._below is not None:
            await self._below.stop()
        for watch in (self._reusing, self._cron):
            if watch is not None:
                await watch.stop()
        await super().stop()

    async def _learn(self) -> None:
        flows: list[JobFlow] = []
        try:
            async for page in self._client.list(JOBFLOWS, RawList, namespace=self.namespace):
                flows += [to_flow(each) for each in page.items or ()]
                # more do not make the estimate better
                if len(flows) >= MAX_FLOWS:
                    break
        except (ApiError, CommandError, *NETWORK_ERRORS):  # the estimate is made of what was read
            pass
        self._history = learn(flows)
        self.changed.notify()

    def _update(self, old: JobFlow | None, new: JobFlow | None) -> None:
        flow = new if new is not None else old
        if flow is not None and key_of(flow) == (self.namespace, self.name):
            self.flow, self.is_deleted = flow, new is None
        super()._update(old, new)


def summaries(watches: Watches, namespace: str) -> AbstractAsyncContextManager[LiveFlows]:
    """Provide the flows of a namespace; "" is all namespaces."""
    key, client = ("flows", namespace), watches.client
    return watches.using(key, lambda: Live(client, JOBFLOWS, FlowSummary, namespace=namespace))


def one_flow(watches: Watches, namespace: str, name: str) -> AbstractAsyncContextManager[LiveFlow]:
    key = ("flow", namespace, name)
    return watches.using(key, lambda: LiveFlow(watches.client, namespace, name))
