"""Pods for worlds of `plan`, as Volcano creates them. No decisions are made here."""

from datetime import datetime

import msgspec

from jobflow.api.resources import JOBS, ObjectMeta, OwnerReference
from jobflow.api.volcano import pod as names
from jobflow.api.volcano.job import Job
from jobflow.api.volcano.pod import Pod, PodStatus


def pods_of(job: Job, /, **tasks: str) -> dict[str, Pod]:
    """Pods by name: `worker="Running Succeeded"` gives the first two of a task."""
    pods = [
        pod_of(job, task, index, phase)
        for task, phases in tasks.items()
        for index, phase in enumerate(phases.split())
    ]
    return {pod.metadata.name: pod for pod in pods}


def pod_of(job: Job, task: str, index: int, phase: str = "Running") -> Pod:
    meta = job.metadata
    owner = OwnerReference(
        api_version=JOBS.api_version, kind=JOBS.kind, name=meta.name, uid=meta.uid, controller=True
    )
    metadata = ObjectMeta(
        name=f"{meta.name}-{task}-{index}",
        namespace="ns",
        uid=f"uid-{meta.name}-{task}-{index}",
        labels={names.JOB_NAME: meta.name, names.TASK: task, names.TASK_INDEX: str(index)},
        owner_references=[owner],
    )
    return Pod(metadata=metadata, status=PodStatus(phase=phase))


def deleting_pod(pod: Pod, since: datetime) -> Pod:
    metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp=since)
    return msgspec.structs.replace(pod, metadata=metadata)
