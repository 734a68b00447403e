"""Vcjobs and their pods: a vcjob as the job controller reads it, and pods created like Volcano's.

The defaults of Volcano's webhook are never written back: in a real cluster the stored object has
them from the start, and a later write would create a second generation. A vcjob's `volumes` are
ignored, and so are its `plugins`, except for their variables (nodes/pod_spec).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from jobflow.api.resources import JOBS, ObjectMeta, Struct
from jobflow.api.volcano.job import JobSpec, JobStatus, Task
from jobflow.api.volcano.pod import JOB_NAME, TASK, TASK_INDEX, Pod, PodPhase, PodSpec
from jobflow.api.volcano.scheduling import QUEUE_NAME
from jobflow.sandbox.jobs.policies import DEFAULT_MAX_RETRY, PodFacts


class VcjobObject(Struct):
    """A vcjob as stored; spec and status are still JSON."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


@dataclass(frozen=True, slots=True)
class Vcjob:
    metadata: ObjectMeta
    spec: JobSpec
    status: JobStatus
    fault: str | None = None
    """Why the spec cannot be read; it is then empty."""

    @property
    def phase(self) -> str:
        return self.status.state.phase

    @property
    def is_deleted(self) -> bool:
        return self.metadata.deletion_timestamp is not None


_decode_spec = msgspec.json.Decoder(JobSpec).decode
_decode_status = msgspec.json.Decoder(JobStatus).decode


def read_vcjob(raw: VcjobObject) -> Vcjob:
    """Decode a vcjob and set the defaults of its spec. An invalid spec is reported as `fault`, an
    invalid status counts as empty: a loose CRD schema lets both be stored."""
    try:
        status = _decode_status(raw.status)
    except msgspec.ValidationError:
        status = JobStatus()
    try:
        return Vcjob(raw.metadata, with_defaults(_decode_spec(raw.spec)), status)
    except msgspec.ValidationError as error:
        return Vcjob(raw.metadata, JobSpec(), status, f"spec cannot be read: {error}")


def with_defaults(spec: JobSpec) -> JobSpec:
    """Return the spec with the defaults of Volcano's webhook (webhooks/admission/jobs/mutate), for
    which 0 means not set in `minAvailable` of the job and in both `maxRetry`."""
    tasks = []
    for index, task in enumerate(spec.tasks or ()):
        available, policy = task.min_available, task.partition_policy
        # A task in partitions needs the pods of its smallest number of partitions.
        if available is None and policy is not None and policy.min_partitions:
            available = policy.min_partitions * (policy.partition_size or 0)
        elif available is None:
            available = task.replicas or 0
        task = msgspec.structs.replace(
            task,
            name=task.name or f"default{index}",
            replicas=task.replicas or 0,
            min_available=available,
            max_retry=task.max_retry or DEFAULT_MAX_RETRY,
        )
        tasks.append(task)
    return msgspec.structs.replace(
        spec,
        queue=spec.queue or "default",
        scheduler_name=spec.scheduler_name or "volcano",
        max_retry=spec.max_retry or DEFAULT_MAX_RETRY,
        min_available=spec.min_available or sum(task.min_available or 0 for task in tasks),
        tasks=tasks,
    )


JOB_NAMESPACE = "volcano.sh/job-namespace"
JOB_VERSION = "volcano.sh/job-version"
RETRY_COUNT = "volcano.sh/job-retry-count"
TEMPLATE = "volcano.sh/template-uid"
PARTITION = "volcano.sh/partition-id"
POD_GROUP = "scheduling.k8s.io/group-name"

NODE = "sandbox"
ADDRESS = "127.0.0.1"


class PodTemplate(Struct):
    metadata: ObjectMeta | None = None
    spec: PodSpec | None = None


def template_faults(spec: JobSpec) -> Iterator[str]:
    for index, task in enumerate(spec.tasks or ()):
        try:
            msgspec.convert(task.template or {}, PodTemplate)
        except msgspec.ValidationError as error:
            yield f"spec.tasks[{index}].template: {error}"


def pod_facts(pod: Pod, *, is_deleted: bool = False) -> PodFacts:
    """Return the facts of a pod; `is_deleted` means that the job controller deleted it."""
    statuses = pod.status.container_statuses or []
    all_statuses = [*statuses, *(pod.status.init_container_statuses or ())]
    first = statuses[0].state.terminated if statuses else None
    version = (pod.metadata.annotations or {}).get(JOB_VERSION, "0")
    phase = PodPhase(pod.phase) if pod.phase in set(PodPhase) else PodPhase.PENDING
    created, started = pod.metadata.creation_timestamp, pod.status.start_time
    since = {PodPhase.PENDING: created, PodPhase.RUNNING: started}
    return PodFacts(
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        task=pod.task,
        phase=phase,
        version=int(version) if version.isdecimal() else 0,
        partition=(pod.metadata.labels or {}).get(PARTITION, ""),
        exit_code=first.exit_code if first else 0,
        ready=all(status.ready for status in statuses),
        restarts=sum(status.restart_count for status in all_statuses),
        deleting=is_deleted or pod.metadata.deletion_timestamp is not None,
        since=since.get(phase, first.finished_at if first else None),
    )


def pod_name(job: str, task: str, index: int) -> str:
    return f"{job}-{task}-{index}"


def build_pod(job: Vcjob, task: Task, index: int) -> dict[str, Any]:
    """Return the pod that Volcano creates for a replica of a task, bound to the sandbox's node."""
    name, namespace = job.metadata.name, job.metadata.namespace
    task_name, template = task.name or "", task.template or {}
    meta = template.get("metadata") or {}
    both = {TASK_INDEX: str(index), TASK: task_name, JOB_NAME: name}
    both[QUEUE_NAME] = job.spec.queue or ""
    labels = both | {JOB_NAMESPACE: namespace}
    if partition := partition_of(task, index):
        labels[PARTITION] = partition
    annotations = both | {
        JOB_VERSION: str(job.status.version or 0),
        RETRY_COUNT: str(job.status.retry_count or 0),
        TEMPLATE: f"{name}-{task_name}",
        POD_GROUP: f"{name}-{job.metadata.uid}",
    }
    # Fields of the template win over those of the job.
    spec: dict[str, Any] = {"schedulerName": job.spec.scheduler_name}
    if job.spec.priority_class_name:
        spec["priorityClassName"] = job.spec.priority_class_name
    given = (template.get("spec") or {}).items()
    # A null in a template is a field that is not set.
    spec |= {key: value for key, value in given if value is not None}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(name, task_name, index),
            "namespace": namespace,
            "labels": (meta.get("labels") or {}) | labels,
            "annotations": (meta.get("annotations") or {}) | annotations,
            "ownerReferences": [JOBS.owner_reference(job.metadata)],
        },
        "spec": spec | {"nodeName": NODE},
        "status": {"phase": PodPhase.PENDING},
    }


def partition_of(task: Task, index: int) -> str:
    """Return the number of the partition that a pod of a task is in, "" without partitions."""
    if task.partition_policy is None:
        return ""
    size = task.partition_policy.partition_size or 0
    return str(index // size if size > 0 else 0)
