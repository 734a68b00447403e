"""The table of the kinds of work whose attempts are objects: where each is sent, read and kept; and
live reads: of objects that a plan requests, and of pods at the beginning of a term."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec
import structlog

from jobflow.api import resources
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.traits import WorkKind
from jobflow.api.volcano.job import Job
from jobflow.api.volcano.pod import JOB_NAME, Pod
from jobflow.controller.probes.fair_slots import FairSlots
from jobflow.core.planning.observed.child_flow import observe
from jobflow.kube.answers import Identified, Identity, ItemList, find_status_writer
from jobflow.kube.cache import Cache, Key, full_name, key_of
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client, UnreadableAnswer, decoder
from jobflow.store import Store, slim_pod

log = structlog.get_logger(__name__)

T = TypeVar("T")

SOMEBODY = "somebody else"
READS_AT_ONCE = 32
"""Maximum concurrent live reads of all flows, a third of a client's connections."""


class LiveReads:
    """Reads of objects in the namespace of a flow; None if they are gone. All raise ApiError or one
    of NETWORK_ERRORS."""

    def __init__(self, client: Client) -> None:
        self._client = client
        # bounded, because they share connections with the watches; fair, so that a flow with many
        # reads does not keep others waiting
        self._slots: FairSlots[Key] = FairSlots(seconds=0.0, at_once=READS_AT_ONCE)

    async def flow(self, flow: JobFlow) -> JobFlow | None:
        return await self.get(flow, resources.JOBFLOWS, flow.metadata.name, JobFlow)

    async def flow_with_identity(self, flow: JobFlow) -> tuple[JobFlow, Identity] | None:
        raw = await self.get(flow, resources.JOBFLOWS, flow.metadata.name, msgspec.Raw)
        if raw is None:
            return None
        return decoder(JobFlow).decode(raw), decoder(Identified).decode(raw).metadata

    async def status_writer(self, flow: JobFlow) -> str:
        """Return the field manager of the last writer of the flow's status, if it is not JobFlow;
        "somebody else" if that is not known."""
        try:
            found = await self.get(flow, resources.JOBFLOWS, flow.metadata.name, Identified)
        except (ApiError, *NETWORK_ERRORS):
            return SOMEBODY
        writer = find_status_writer(found.metadata.managed_fields) if found is not None else None
        return SOMEBODY if writer is None else writer.name

    async def job(self, flow: JobFlow, name: str) -> Job | None:
        """Read a vcjob. If the rest cannot be read, return only its metadata."""
        try:
            return await self.get(flow, resources.JOBS, name, Job)
        except UnreadableAnswer as error:
            found = await self.get(flow, resources.JOBS, name, resources.Object)
            log.warning("job cannot be read", flow=full_name(flow), job=name, error=error.message)
            # enough to know its owner; it does not tell whether it has ended
            return Job(metadata=found.metadata) if found is not None else None

    async def child(self, flow: JobFlow, name: str) -> JobFlow | None:
        return await self.get(flow, resources.JOBFLOWS, name, JobFlow)

    async def pods(self, flow: JobFlow, job: str, uid: str) -> tuple[Pod, ...]:
        async with self._slots.slot(key_of(flow)):
            return await _pods_of(self._client, flow.metadata.namespace, job, uid)

    async def is_alive(self, flow: JobFlow, owner: resources.OwnerReference | None) -> bool:
        """Whether the owner of a vcjob exists and is not being deleted. True without an owner, and
        if this account may not read it."""
        if owner is None:
            return True
        async with self._slots.slot(key_of(flow)):
            resource = await self._client.resource_of_kind(owner.api_version, owner.kind)
        if resource is None:
            return True
        try:
            found = await self.get(flow, resource, owner.name, resources.Object)
        except ApiError as error:
            if error.code == 403:
                return True
            raise
        if found is None or found.metadata.uid != owner.uid:
            return False
        return found.metadata.deletion_timestamp is None

    async def get(
        self, flow: JobFlow, resource: resources.Resource, name: str, type: type[T]
    ) -> T | None:
        try:
            async with self._slots.slot(key_of(flow)):
                return await self._client.get(resource, flow.metadata.namespace, name, type)
        except ApiError as error:
            if error.not_found:
                return None
            raise


async def _pods_of(client: Client, namespace: str, job: str, uid: str) -> tuple[Pod, ...]:
    query = [("labelSelector", f"{JOB_NAME}={job}")]
    pages = client.list(resources.PODS, ItemList[Pod], namespace=namespace, query=query)
    return tuple(
        [slim_pod(pod) async for page in pages for pod in page.items or () if pod.owner == uid]
    )


async def catch_up_pods(client: Client, store: Store) -> None:
    """Read the pods of every ended vcjob without known pods whose end is not recorded yet: after a
    change of leader the watch of pods may be behind that of vcjobs, and no plan asks for the pods
    of a vcjob that may never have had any."""
    slots = asyncio.Semaphore(READS_AT_ONCE)

    async def learn(job: Job) -> None:
        try:
            async with slots:
                pods = await _pods_of(client, *key_of(job), job.metadata.uid)
        except (ApiError, *NETWORK_ERRORS) as error:
            log.warning("pods cannot be read", job=full_name(job), error=str(error))
            return  # they would only add details to an end
        for pod in pods:
            store.pods.cache.learn(pod)

    unknown = [job for job in store.unrecorded() if not store.pods.of(job.metadata.uid)]
    await asyncio.gather(*map(learn, unknown))


class ObjectKind(NamedTuple):
    """The objects of one kind of work."""

    resource: resources.Resource
    type: type[Any]
    cache: Callable[[Store], Cache[Any]]
    """The copy that their reflector fills (`store/feeds.py`)."""
    read: Callable[[LiveReads, JobFlow, str], Awaitable[Any]]
    """Read one live, by the flow and its name; None if it is gone."""
    observe: Callable[[Any], Job]
    """Make it what plans read."""


OBJECTS: Mapping[WorkKind, ObjectKind] = {
    WorkKind.JOB: ObjectKind(
        resources.JOBS, Job, lambda store: store.jobs, LiveReads.job, lambda job: job
    ),
    WorkKind.FLOW: ObjectKind(
        resources.JOBFLOWS, JobFlow, lambda store: store.flows, LiveReads.child, observe
    ),
}
