"""Live reads of the pods of a vcjob, for decisions that the watched copy may be too old for."""

from __future__ import annotations

import asyncio

import structlog

from jobflow.api.job import Job
from jobflow.api.meta import ListMeta, Struct
from jobflow.api.pod import JOB_NAME, Pod
from jobflow.api.resources import PODS
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client
from jobflow.store import Store, slim_pod

log = structlog.get_logger(__name__)

READS_AT_ONCE = 32
"""Maximum concurrent live reads of all flows, a third of a client's connections."""


class PodPage(Struct, frozen=True, kw_only=True):
    """A page of pods."""

    metadata: ListMeta
    items: list[Pod] | None = None


async def pods_of(client: Client, namespace: str, job: str, uid: str) -> tuple[Pod, ...]:
    """Return the pods that the vcjob with this UID controls.

    Raises ApiError or one of NETWORK_ERRORS.
    """
    query = [("labelSelector", f"{JOB_NAME}={job}")]
    pages = client.list(PODS, PodPage, namespace=namespace, query=query)
    return tuple(
        [slim_pod(pod) async for page in pages for pod in page.items or () if pod.owner == uid]
    )


async def catch_up_pods(client: Client, store: Store) -> None:
    """Read the pods of every ended vcjob without known pods whose end is not recorded yet.

    A plan does not ask for the pods of a vcjob without known pods, because it may never have had
    any. After a change of leader the watch of pods may be behind that of vcjobs. Errors are only
    logged, because pods add only details to an end.
    """
    slots = asyncio.Semaphore(READS_AT_ONCE)
    unknown = [job for job in store.unrecorded() if not store.pods.of(job.metadata.uid)]
    await asyncio.gather(*(_learn(client, store, job, slots) for job in unknown))


async def _learn(client: Client, store: Store, job: Job, slots: asyncio.Semaphore) -> None:
    meta = job.metadata
    try:
        async with slots:
            pods = await pods_of(client, meta.namespace, meta.name, meta.uid)
    except (ApiError, *NETWORK_ERRORS) as error:
        log.warning("pods cannot be read", job=f"{meta.namespace}/{meta.name}", error=str(error))
        return
    for pod in pods:
        store.pods.cache.learn(pod)
