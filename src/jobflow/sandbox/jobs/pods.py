"""Pods of vcjobs: created like Volcano's, and read back.

A vcjob's `volumes` are ignored. Its `plugins` do not change the pod here: the process runner sets
the variables of env and svc (nodes/process/environment).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from jobflow.api.job import Task
from jobflow.api.meta import ObjectMeta, Struct
from jobflow.api.pod import PodPhase
from jobflow.api.resources import JOBS
from jobflow.sandbox.jobs.job import Vcjob
from jobflow.sandbox.jobs.policies import PodFacts
from jobflow.sandbox.jobs.state_machine import pod_name

JOB_NAME = "volcano.sh/job-name"
JOB_NAMESPACE = "volcano.sh/job-namespace"
JOB_VERSION = "volcano.sh/job-version"
RETRY_COUNT = "volcano.sh/job-retry-count"
TASK = "volcano.sh/task-spec"
TASK_INDEX = "volcano.sh/task-index"
QUEUE = "volcano.sh/queue-name"
TEMPLATE = "volcano.sh/template-uid"
PARTITION = "volcano.sh/partition-id"
POD_GROUP = "scheduling.k8s.io/group-name"

NODE = "sandbox"
ADDRESS = "127.0.0.1"


class Container(Struct, frozen=True, kw_only=True):
    """A container of a pod template."""

    name: str = ""
    image: str = ""


class TemplateMeta(Struct, frozen=True, kw_only=True):
    """What a pod template's metadata may hold."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class PodSpec(Struct, frozen=True, kw_only=True):
    """What is read of a pod's spec."""

    containers: list[Container] | None = None
    init_containers: list[Container] | None = None


class PodTemplate(Struct, frozen=True, kw_only=True):
    """What is read of a task's pod template."""

    metadata: TemplateMeta | None = None
    spec: PodSpec | None = None


class Terminated(Struct, frozen=True, kw_only=True):
    """How a container ended."""

    exit_code: int = 0
    started_at: datetime | None = None
    finished_at: datetime | None = None


class Running(Struct, frozen=True, kw_only=True):
    """Since when a container runs."""

    started_at: datetime | None = None


class ContainerState(Struct, frozen=True, kw_only=True):
    """Where a container stands."""

    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Struct, frozen=True, kw_only=True):
    """One container of a pod's status."""

    ready: bool = False
    restart_count: int = 0
    state: ContainerState = msgspec.field(default_factory=ContainerState)


class PodStatus(Struct, frozen=True, kw_only=True):
    """What is read of a pod's status."""

    phase: str = ""
    start_time: datetime | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class PodObject(Struct, frozen=True, kw_only=True):
    """A pod as it is stored."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)

    @property
    def owner(self) -> str:
        """The UID of the vcjob that it belongs to; empty for a pod of anything else."""
        owner = self.metadata.controller
        if owner is None or owner.kind != JOBS.kind or owner.api_version != JOBS.api_version:
            return ""
        return owner.uid

    @property
    def phase(self) -> PodPhase:
        """`status.phase`; a pod without any is Pending."""
        phase = self.status.phase
        return PodPhase(phase) if phase in set(PodPhase) else PodPhase.PENDING

    @property
    def task(self) -> str:
        """The name of its task."""
        return (self.metadata.annotations or {}).get(TASK, "")

    @property
    def retry(self) -> str:
        """How often its vcjob had been restarted when it was made."""
        return (self.metadata.annotations or {}).get(RETRY_COUNT, "0")

    @property
    def started(self) -> datetime:
        """When its time began to run, to the second."""
        return self.status.start_time or self.metadata.creation_timestamp or _EPOCH


_EPOCH = datetime.fromtimestamp(0, UTC)


def template_fault(task: Task) -> str:
    """Return why no pod can be made of a task's template, or ""."""
    try:
        msgspec.convert(task.template or {}, PodTemplate)
    except msgspec.ValidationError as error:
        return str(error)
    return ""


def as_seen(pod: PodObject, *, doomed: bool = False) -> PodFacts:
    """Return the pod as the policies see it; `doomed` means that the job controller deleted it."""
    statuses = pod.status.container_statuses or []
    ends = [status.state.terminated for status in statuses]
    version = (pod.metadata.annotations or {}).get(JOB_VERSION, "0")
    times = {
        PodPhase.PENDING: pod.metadata.creation_timestamp,
        PodPhase.RUNNING: pod.status.start_time,
    }
    first = ends[0] if ends else None
    return PodFacts(
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        task=pod.task,
        phase=pod.phase,
        version=int(version) if version.isdecimal() else 0,
        partition=(pod.metadata.labels or {}).get(PARTITION, ""),
        exit_code=first.exit_code if first else 0,
        ready=all(status.ready for status in statuses),
        restarts=sum(
            status.restart_count
            for status in [*statuses, *(pod.status.init_container_statuses or ())]
        ),
        deleting=doomed or pod.metadata.deletion_timestamp is not None,
        since=times.get(pod.phase, first.finished_at if first else None),
    )


def build_pod(job: Vcjob, task: Task, index: int) -> dict[str, Any]:
    """Return the pod that Volcano creates for one replica of a task (createJobPod), bound to the
    sandbox's node."""
    name = job.metadata.name
    task_name = task.name or ""
    template = task.template or {}
    meta = template.get("metadata") or {}
    marks = {TASK_INDEX: str(index), TASK: task_name, JOB_NAME: name, QUEUE: job.spec.queue or ""}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(name, task_name, index),
            "namespace": job.metadata.namespace,
            "labels": {
                **(meta.get("labels") or {}),
                **marks,
                JOB_NAMESPACE: job.metadata.namespace,
                **_partition(task, index),
            },
            "annotations": {
                **(meta.get("annotations") or {}),
                **marks,
                JOB_VERSION: str(job.status.version or 0),
                RETRY_COUNT: str(job.status.retry_count or 0),
                TEMPLATE: f"{name}-{task_name}",
                POD_GROUP: f"{name}-{job.metadata.uid}",
            },
            "ownerReferences": [owner_reference(job.metadata)],
        },
        "spec": _spec(job, template.get("spec") or {}),
        "status": {"phase": PodPhase.PENDING},
    }


def owner_reference(job: ObjectMeta) -> dict[str, Any]:
    """Return the reference that makes a vcjob the controller of an object."""
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "name": job.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _partition(task: Task, index: int) -> dict[str, str]:
    policy = task.partition_policy
    if policy is None:
        return {}
    size = policy.partition_size or 0
    return {PARTITION: str(index // size if size > 0 else 0)}


def _spec(job: Vcjob, spec: Mapping[str, Any]) -> dict[str, Any]:
    given = {key: value for key, value in spec.items() if value is not None}
    defaults: dict[str, Any] = {"schedulerName": job.spec.scheduler_name}
    if job.spec.priority_class_name:
        defaults["priorityClassName"] = job.spec.priority_class_name
    return defaults | given | {"nodeName": NODE}
