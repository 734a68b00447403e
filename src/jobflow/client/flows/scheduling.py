"""Reports of Volcano's scheduler on jobs of a flow that wait: PodGroups, queues and pods.

A user needs three rights for all of it. What may not be read is left out and named.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.labels import CREATED_BY_FLOW, INDEX, STEP
from jobflow.api.meta import ListMeta, Struct
from jobflow.api.resources import POD_GROUPS, PODS, QUEUES, Resource
from jobflow.api.volcano.pod import JOB_NAME, Pod
from jobflow.api.volcano.scheduling import QUEUE_NAME, PodGroup, Queue
from jobflow.core.explain.scheduling import (
    MAX_JOBS,
    QueuedJob,
    Scheduling,
    SchedulingFacts,
    describe_scheduling,
    queue_of,
    select_own,
)
from jobflow.core.names import qualify_name, to_label_value
from jobflow.core.text import format_command
from jobflow.kube.client import ApiError, Client
from jobflow.runtime.task_group import all_of

T = TypeVar("T")


class _PodGroups(Struct, frozen=True, kw_only=True):
    metadata: ListMeta = ListMeta()
    items: list[PodGroup] = []


class _Pods(Struct, frozen=True, kw_only=True):
    metadata: ListMeta = ListMeta()
    items: list[Pod] = []


async def read_scheduling(
    client: Client, flow: JobFlow, jobs: Sequence[QueuedJob], *, step: str | None
) -> SchedulingFacts:
    """Return sentences about the first MAX_JOBS jobs, with at most three requests for each (and a
    further one for each 500 pods). `step`: the step that the user asks about, if any."""
    reader = _Reader(client, flow.metadata.namespace)
    owner = to_label_value(qualify_name(flow.metadata.namespace, flow.metadata.name))
    shown = jobs[:MAX_JOBS]
    found = await all_of(*(reader.read(job, owner) for job in shown))
    by_step: dict[str, list[str]] = {}
    for job, scheduling in zip(shown, found, strict=True):
        look = f"`kubectl describe vcjob -n {flow.metadata.namespace} {job.name}`"
        by_step.setdefault(job.step, []).extend(describe_scheduling(job, scheduling, look=look))
    notes = [*reader.notes]
    if more := len(jobs) - len(shown):
        are = "job also waits" if more == 1 else "jobs also wait"
        each = format_command("jobflow why", flow.metadata, " STEP")
        notes.append(f"{more:,} more {are} for Volcano" + ("." if step else f"; see {each}."))
    return SchedulingFacts({step: told for step, told in by_step.items() if told}, notes)


@dataclass
class _Reader:
    """Reads the objects of one job after the other, and notes each kind that cannot be read."""

    client: Client
    namespace: str
    refused: dict[str, str] = field(default_factory=dict)
    """A sentence for each plural."""

    @property
    def notes(self) -> list[str]:
        return [*self.refused.values()]

    async def read(self, job: QueuedJob, owner: str) -> Scheduling:
        """Return the objects of a job; `owner` is the flow as a label of the job names it."""
        labels = {CREATED_BY_FLOW: owner, STEP: to_label_value(job.step)}
        if job.index is not None:
            labels[INDEX] = str(job.index)
        groups = await self._unless_refused(POD_GROUPS, "list", self._pod_groups(job, labels))
        pods = await self._unless_refused(PODS, "list", self._pods(job))
        name = next((queue_of(group) for group in groups or ()), "")
        if not name and pods:
            name = (pods[0].metadata.labels or {}).get(QUEUE_NAME, "")
        queues = await self._unless_refused(QUEUES, "get", self._queue(name)) if name else None
        return Scheduling(groups, queues, pods)

    async def _pod_groups(self, job: QueuedJob, labels: dict[str, str]) -> list[PodGroup]:
        """Return the job's PodGroup, which has the labels of the job and is named after its UID."""
        query = [("labelSelector", ",".join(f"{key}={value}" for key, value in labels.items()))]
        pages = self.client.list(POD_GROUPS, _PodGroups, namespace=self.namespace, query=query)
        return select_own(job, [group async for page in pages for group in page.items])

    async def _pods(self, job: QueuedJob) -> list[Pod]:
        query = [("labelSelector", f"{JOB_NAME}={job.name}")]
        pages = self.client.list(PODS, _Pods, namespace=self.namespace, query=query)
        return select_own(job, [pod async for page in pages for pod in page.items])

    async def _queue(self, name: str) -> list[Queue]:
        """Return the queue, or nothing if it does not exist."""
        try:
            return [await self.client.get(QUEUES, "", name, Queue)]
        except ApiError as error:
            if error.not_found and error.status.details and error.status.details.name:
                return []
            raise

    async def _unless_refused(
        self, resource: Resource, verb: str, work: Coroutine[Any, Any, T]
    ) -> T | None:
        try:
            return await work
        except ApiError as error:
            self.refused[resource.plural] = _describe_refusal(resource, verb, error)
        return None


def _describe_refusal(resource: Resource, verb: str, error: ApiError) -> str:
    kind = f"{resource.kind}s"
    if error.code == 403:
        why = f"reading them needs the right to {verb} {resource.qualified}"
    elif error.not_found:
        why = f"this cluster does not serve {resource.qualified}"
    else:
        why = f"they could not be read: {error.message}"
    return f"{kind} are left out: {why}."
