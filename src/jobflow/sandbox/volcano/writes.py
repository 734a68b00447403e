"""Writes of the sandbox's job controller: a few at a time, repeated after temporary errors."""

import asyncio
from collections.abc import Collection
from datetime import datetime
from typing import Any
from uuid import uuid4

import msgspec

from jobflow.api.resources import EVENTS, JOBS, PODS, ObjectMeta, Resource
from jobflow.api.volcano.job import JobStatus
from jobflow.api.volcano.pod import Pod
from jobflow.kube.answers import NETWORK_ERRORS, ApiError
from jobflow.kube.client import MERGE_PATCH, Client
from jobflow.kube.clock import ExponentialBackoff
from jobflow.sandbox.jobs.objects import VcjobObject
from jobflow.sandbox.nodes.volumes import Data, Source, read_data

AT_ONCE = 16
JSON_PATCH = "application/json-patch+json"

_pod = msgspec.json.Decoder(Pod).decode
_job = msgspec.json.Decoder(VcjobObject).decode


class Gone(Exception):
    """The object no longer exists, or another object has its name."""


class Refused(Exception):
    """The server refused the write permanently; the text is the server's message."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(error.message)
        self.error = error


class Writes:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._room = asyncio.Semaphore(AT_ONCE)

    async def create_pod(self, namespace: str, pod: dict[str, Any]) -> Pod:
        """Create a pod, or return the existing pod of that name. Raises Refused, Gone."""
        try:
            return _pod(await self._send("POST", PODS.path(namespace), pod, gone=()))
        except Refused as refused:
            if not refused.error.already_exists:
                raise
        return _pod(await self._send("GET", PODS.path(namespace, pod["metadata"]["name"])))

    async def set_pod_status(self, pod: Pod, status: dict[str, Any]) -> Pod:
        """Merge into the status of this pod, identified by its UID. Raises Gone, Refused."""
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": status}
        path = PODS.path(pod.metadata.namespace, pod.metadata.name, "status")
        return _pod(await self._send("PATCH", path, patch, content_type=MERGE_PATCH))

    async def set_job_status(self, job: ObjectMeta, status: JobStatus) -> VcjobObject:
        """Replace the status of this vcjob, identified by its UID. Raises Gone, Refused."""
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": job.uid},
            {"op": "add", "path": "/status", "value": status},
        ]
        path = JOBS.path(job.namespace, job.name, "status")
        return _job(await self._send("PATCH", path, patch, content_type=JSON_PATCH))

    async def delete(self, resource: Resource, meta: ObjectMeta, **options: Any) -> None:
        """Delete this object, identified by its UID. Raises Gone, Refused."""
        kind = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": meta.uid}}
        await self._send("DELETE", resource.path(meta.namespace, meta.name), {**kind, **options})

    async def read(self, namespace: str, source: Source) -> Data | None:
        """Return the data of a Secret, a ConfigMap or a volume claim; None if there is none."""
        kind, name = source
        try:
            return read_data(await self._send("GET", kind.path(namespace, name)))
        except (Gone, Refused):
            return None

    async def warn(
        self, kind: Resource, meta: ObjectMeta, reason: str, message: str, now: datetime
    ) -> None:
        at, namespace = now.replace(microsecond=0), meta.namespace
        about = {"namespace": namespace, "name": meta.name, "uid": meta.uid}
        event = {
            **EVENTS.type_meta,
            "metadata": {"name": f"{meta.name}.{uuid4().hex[:16]}", "namespace": namespace},
            "involvedObject": {**kind.type_meta, **about},
            **{"type": "Warning", "reason": reason, "message": message[:1024]},
            "source": {"component": "jobflow-sandbox"},
            **{"firstTimestamp": at, "lastTimestamp": at, "count": 1},
        }
        await self._send("POST", EVENTS.path(namespace), event, gone=())

    async def _send(
        self,
        method: str,
        path: str,
        content: Any = None,
        *,
        content_type: str = "application/json",
        gone: Collection[int] = (404, 409),
    ) -> bytes:
        """Send a request, again after temporary errors. Raises Refused, or Gone for a code that
        says that the name or the UID of the object no longer matches."""
        body = None if content is None else msgspec.json.encode(content)
        # The server is in this process or next to it, so a fault is over soon.
        backoff = ExponentialBackoff(first=0.05, most=5.0)
        while True:
            try:
                async with self._room:
                    return await self._client.request(
                        method, path, body=body, content_type=content_type
                    )
            except ApiError as error:
                # A patch of an object with another UID and a failed precondition are conflicts.
                if error.code in gone:
                    raise Gone from error
                if error.code != 429 and error.code < 500:
                    raise Refused(error) from error
                # The server knows best when it has room again.
                wait = max(backoff.next(), error.retry_after or 0.0)
            except NETWORK_ERRORS:
                wait = backoff.next()
            await asyncio.sleep(wait)
