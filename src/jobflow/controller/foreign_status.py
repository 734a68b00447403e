"""Statuses that somebody else has written over those of JobFlow, such as Volcano's own controller.

Only the leader writes the statuses of flows. If another status appears in its term, it plans from
the one that was there before and writes it again, at most every AGAIN seconds. A new leader does
not know what was there before: it recognizes the writer by `managedFields`, and plans from an empty
status, as if it were lost (docs/decisions/status-writes.md).
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import msgspec
import structlog

from jobflow.api import labels
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import JobFlowStatus
from jobflow.api.volcano.job import Job
from jobflow.controller.apply.api_answers import Memory
from jobflow.controller.apply.objects import LiveReads
from jobflow.controller.hooks import Hooks
from jobflow.core.planning.actions import Event, EventType
from jobflow.core.planning.observed.child_flow import observe
from jobflow.core.work import work_of_object
from jobflow.kube.answers import Identity, StatusWriter, find_status_writer
from jobflow.kube.cache import Key, full_name, key_of, version_of
from jobflow.kube.client import UnreadableAnswer, retried
from jobflow.store import Store

log = structlog.get_logger(__name__)

AGAIN = 10.0
"""Seconds between two writes of a status that somebody else writes over."""


class SeenStatus(NamedTuple):
    """The status of a flow before the term."""

    version: str
    """The resource version of the flow."""
    writer: StatusWriter | None
    """Who else has written the status last."""


def see_status(flow: Identity) -> SeenStatus:
    writer = None
    try:
        writer = find_status_writer(flow.managed_fields)
    except UnreadableAnswer as error:
        name = f"{flow.namespace}/{flow.name}"
        log.warning("writers cannot be read", flow=name, error=error.message)
    return SeenStatus(flow.resource_version, writer)


@dataclass(slots=True)
class OwnStatus:
    """The status that JobFlow believes instead of the stored one."""

    status: JobFlowStatus
    writer: str = ""
    """Who has written the stored one; "" if not known yet."""
    reported: bool = False


@dataclass(eq=False)
class ForeignStatuses:
    """The flows whose stored status is not of JobFlow."""

    store: Store
    memory: Memory
    reads: LiveReads
    hooks: Hooks
    clock: Callable[[], float]
    _own: dict[Key, OwnStatus] = field(default_factory=dict)
    _written: dict[Key, float] = field(default_factory=dict)
    """When a status was last written again."""
    _unseen: set[Key] = field(default_factory=set)
    """The flows whose writers are being read."""

    async def begin(self, seen: dict[Key, SeenStatus]) -> None:
        """Note the flows whose status others have written before the term. `flow_changed` must be
        called from now on."""
        for key, (version, writer) in seen.items():
            flow = self.store.flows.get(*key)
            if flow is not None and flow.metadata.resource_version != version:
                self._unseen.add(key)  # it has changed since it was seen
            elif flow is not None:
                self._note(flow, writer)
        seen.clear()  # it has an entry for every flow of the cluster
        async with asyncio.TaskGroup() as group:
            for key in self._unseen:
                group.create_task(retried(partial(self._look_again, key)))

    async def _look_again(self, key: Key) -> None:
        """Read a flow until the copy has the version whose writers are known."""
        while key in self._unseen and (flow := self.store.flows.get(*key)) is not None:
            found = None
            try:
                found = await self.reads.flow_with_identity(flow)
            except UnreadableAnswer as error:
                log.warning("flow cannot be read", flow="/".join(key), error=error.message)
            if found is None:
                break
            live, identity = found
            self.store.flows.learn(live)
            copy = self.store.flows.get(*key)
            if copy is not None and copy.metadata.resource_version == identity.resource_version:
                self._note(copy, see_status(identity).writer)
                break
        self._unseen.discard(key)

    def _note(self, flow: JobFlow, writer: StatusWriter | None) -> None:
        """Plan from an empty status if somebody else has written that of a flow of JobFlow."""
        jobs = self.store.jobs_of(flow.metadata.uid)
        annotations = (job.metadata.annotations or {} for job in jobs.values())
        is_ours = any(labels.TARGET_ENDS in each for each in annotations)
        if writer is None or not (writer.after_ours or is_ours):
            return  # a flow that Volcano's controller has started is taken over as it is
        if flow.final and not jobs:
            return  # nothing is left that its phases could be rebuilt from
        self._own[key_of(flow)] = OwnStatus(JobFlowStatus(), writer.name)

    def flow_changed(self, old: JobFlow | None, new: JobFlow | None) -> None:
        """Keep the last status of JobFlow if somebody else has written another."""
        flow = new or old
        assert flow is not None
        key = key_of(flow)
        if old is None or new is None or old.metadata.uid != new.metadata.uid:
            self._own.pop(key, None)
            self._written.pop(key, None)
            self._unseen.discard(key)
            return
        if key in self._unseen:  # `_look_again` finds out who has written it
            return
        was, now = (version_of(each.metadata.resource_version) for each in (old, new))
        if now < was:  # the API server was restored from a backup: its status is taken as it is
            self._own.pop(key, None)
        if now <= was:  # a live read has brought this version before
            return
        known = self._own.get(key)
        before = old.status if known is None else known.status
        is_own = self.memory.has_written(new) or new.status == before
        if is_own or self.memory.has_sent(new):
            self._own.pop(key, None)
        elif known is None:
            self._own[key] = OwnStatus(old.status)

    def own(self, flow: JobFlow) -> JobFlow:
        known = self._own.get(key_of(flow)) if self._own else None
        return flow if known is None else msgspec.structs.replace(flow, status=known.status)

    def own_jobs(self, jobs: Mapping[str, Job], namespace: str) -> Mapping[str, Job]:
        """Return the jobs of a flow, with its child flows as JobFlow knows them."""
        if not self._own:
            return jobs
        children = {
            name: observe(self.own(child))
            for name, job in jobs.items()
            if work_of_object(job).has_steps
            and (namespace, name) in self._own
            and (child := self.store.flows.get(namespace, name)) is not None
        }
        return {**jobs, **children}

    def wait(self, key: Key) -> float | None:
        """Return the seconds until the status of JobFlow is written again; None if it is stored."""
        if key not in self._own:
            return None
        last = self._written.get(key)
        # two controllers that write over each other must not keep the API server busy
        return 0.0 if last is None else max(0.0, last + AGAIN - self.clock())

    def writes(self, key: Key) -> None:
        if key in self._own:
            self._written[key] = self.clock()

    async def report(self, flow: JobFlow) -> Event | None:
        """Return the Event about another writer, once each time that it has written."""
        known = self._own.get(key_of(flow))
        if known is None or known.reported:
            return None
        known.reported = True
        writer = known.writer or await self.reads.status_writer(flow)
        self.hooks.status_overwritten(writer)
        log.warning("status overwritten", flow=full_name(flow), writer=writer)
        message = (
            f"{writer} wrote over the status of the flow, which is JobFlow's; JobFlow writes its "
            "own again. If it is Volcano's jobflow controller, turn that off"
        )
        return Event(EventType.WARNING, "StatusOverwritten", message)
