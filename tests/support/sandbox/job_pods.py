"""Pods of vcjobs on a server, created and changed as Volcano and a kubelet do."""

import json
from typing import Any

from jobflow.api.resources import JOBS, PODS, ObjectMeta
from jobflow.api.volcano.job import Job
from jobflow.api.volcano.pod import JOB_NAME, TASK, TASK_INDEX
from jobflow.kube.client import ApiError, Client
from support.sandbox.running_controller import Ends, write_status


def pod_of(job: ObjectMeta, task: str, index: int = 0) -> dict[str, Any]:
    """Return a pod that the vcjob controls."""
    labels = {JOB_NAME: job.name, TASK: task, TASK_INDEX: str(index)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{job.name}-{task}-{index}",
            "namespace": job.namespace,
            "labels": labels,
            "ownerReferences": [JOBS.owner_reference(job)],
        },
        "spec": {"containers": [{"name": "main", "image": "busybox"}]},
    }


async def make_pod(client: Client, job: ObjectMeta, task: str = "main", index: int = 0) -> str:
    """Create a pod, and return its name."""
    body = pod_of(job, task, index)
    await client.create(PODS, job.namespace, json.dumps(body).encode())
    name: str = body["metadata"]["name"]
    return name


async def move_pod(client: Client, namespace: str, name: str, phase: str, **more: Any) -> None:
    """Write the status of a pod."""
    await write_status(client, PODS, name, {"phase": phase, **more}, namespace=namespace)


async def end_pod(
    client: Client, namespace: str, name: str, *, code: int = 0, message: str = ""
) -> None:
    """End the only container of a pod."""
    terminated = {"exitCode": code, "reason": "Error" if code else "Completed", "message": message}
    container: dict[str, Any] = {"name": "main", "image": "busybox", "imageID": ""}
    container |= {"ready": False, "restartCount": 0, "state": {"terminated": terminated}}
    phase = "Failed" if code else "Succeeded"
    await move_pod(client, namespace, name, phase, containerStatuses=[container])


class PodEnds(Ends):
    """A driver that gives each vcjob a pod, which ends first and leaves a message."""

    async def _end(self, job: Job, phase: str) -> None:
        meta, client = job.metadata, self._client
        code = 0 if phase.endswith("Completed") else 3
        try:
            name = await make_pod(client, meta)
            await end_pod(client, meta.namespace, name, code=code, message=f"from {meta.name}")
        except ApiError as error:
            if not error.not_found:
                raise
        await super()._end(job, phase)
