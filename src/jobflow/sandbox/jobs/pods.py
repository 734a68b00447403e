"""Pods of vcjobs: created like Volcano's, and read back.

A vcjob's `volumes` are ignored. Its `plugins` do not change the pod here: the process runner sets
the variables of env and svc (nodes/process/environment).
"""

from typing import Any

import msgspec

from jobflow.api.meta import ObjectMeta, Struct
from jobflow.api.resources import JOBS
from jobflow.api.volcano.job import Task
from jobflow.api.volcano.pod import JOB_NAME, TASK, TASK_INDEX, Pod, PodPhase, PodSpec
from jobflow.api.volcano.scheduling import QUEUE_NAME
from jobflow.sandbox.jobs.job import Vcjob
from jobflow.sandbox.jobs.policies import PodFacts
from jobflow.sandbox.jobs.state_machine import pod_name

JOB_NAMESPACE = "volcano.sh/job-namespace"
JOB_VERSION = "volcano.sh/job-version"
RETRY_COUNT = "volcano.sh/job-retry-count"
TEMPLATE = "volcano.sh/template-uid"
PARTITION = "volcano.sh/partition-id"
POD_GROUP = "scheduling.k8s.io/group-name"

NODE = "sandbox"
ADDRESS = "127.0.0.1"


class PodTemplate(Struct, frozen=True, kw_only=True):
    """A task's pod template."""

    metadata: ObjectMeta | None = None
    spec: PodSpec | None = None


def template_fault(task: Task) -> str | None:
    """Return why no pod can be made of a task's template, or None."""
    try:
        msgspec.convert(task.template or {}, PodTemplate)
    except msgspec.ValidationError as error:
        return str(error)
    return None


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


def build_pod(job: Vcjob, task: Task, index: int) -> dict[str, Any]:
    """Return the pod that Volcano creates for a replica of a task, bound to the sandbox's node."""
    name, namespace = job.metadata.name, job.metadata.namespace
    task_name, template, policy = task.name or "", task.template or {}, task.partition_policy
    meta = template.get("metadata") or {}
    both = {
        TASK_INDEX: str(index),
        TASK: task_name,
        JOB_NAME: name,
        QUEUE_NAME: job.spec.queue or "",
    }
    labels = both | {JOB_NAMESPACE: namespace}
    if policy is not None:
        size = policy.partition_size or 0
        labels[PARTITION] = str(index // size if size > 0 else 0)
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
