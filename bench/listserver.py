"""An API server with many flows, vcjobs and pods that never change; its watches have no events.

`python -m bench.listserver FLOWS` prints its port. Each flow is a chain of ten steps of which nine
have completed and the last is running, so each flow has ten vcjobs. Each vcjob has one pod,
because a Kubernetes cluster has at most 150,000.
"""

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import msgspec
from aiohttp import web

from bench import core, samples
from jobflow.api.crd import crd
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.kinds import KINDS
from jobflow.api.resources import (
    COMMANDS,
    CRDS,
    CRONJOBFLOWS,
    JOBFLOWS,
    JOBS,
    JOBTEMPLATES,
    PODS,
    QUEUES,
)
from jobflow.api.volcano.job import Job
from jobflow.core.planning.observed.view import View
from jobflow.core.planning.plan import plan
from jobflow.runtime.event_loop import run

STEPS = 10
VERSION = "900000000"
NAME, UID = "flow-nnnnnn", "no-uuid-0000-4000-8000-nnnnnn000000"
"""The UID of the sample; `nnnnnn` becomes the number of the flow. It is no UUID, so a status has
it as it is."""

MANAGED: dict[str, Any] = {
    "manager": "jobflow",
    "operation": "Update",
    "time": "2026-08-01T12:00:00Z",
    "fieldsType": "FieldsV1",
}
FIELDS: dict[str, Any] = {
    f"f:{name}": {"f:inner": {}, ".": {}} for name in ("metadata", "labels", "spec", "tasks")
}


class Kind:
    """The objects of one kind, created for each page."""

    def __init__(self, a_flow: list[dict[str, Any]]) -> None:
        self.a_flow = len(a_flow)
        bare = [{"metadata": each["metadata"]} for each in a_flow]
        self._whole = [msgspec.json.encode(each).decode() for each in a_flow]
        self._metadata = [msgspec.json.encode(each).decode() for each in bare]

    def page(self, begin: int, limit: int, flows: int, *, metadata_only: bool) -> bytes:
        """Return the objects from number `begin` on."""
        count = flows * self.a_flow
        end = min(count, begin + limit) if limit else count
        texts = self._metadata if metadata_only else self._whole
        items = ",".join(
            texts[number % self.a_flow].replace("nnnnnn", f"{number // self.a_flow:06}")
            for number in range(begin, end)
        )
        meta = {"resourceVersion": VERSION, "continue": str(end) if end < count else ""}
        return f'{{"metadata":{msgspec.json.encode(meta).decode()},"items":[{items}]}}'.encode()


def kinds() -> dict[str, Kind]:
    """The objects by the path of their collection."""
    sample = msgspec.convert(samples.manifest(samples.chain(STEPS), NAME, UID), JobFlow)
    flow, view = core.carried(sample, STEPS, "Running")
    jobs = [_stored(job, JOBS.kind) for job in view.jobs.values()]
    for job in jobs:
        job["spec"] = samples.template_manifest()["spec"]
        job["status"] |= _as_volcano_writes(job["status"]["state"])
    known = {job["metadata"]["name"]: msgspec.convert(job, Job) for job in jobs}
    pods = [_pod(job, STEPS - 1 - number) for number, job in enumerate(jobs)]
    planned = plan(flow, View(templates=view.templates, jobs=known), now=core.NOW)
    flow = msgspec.structs.replace(flow, status=planned.status)
    return {
        JOBFLOWS.path(): Kind([_stored(flow, JOBFLOWS.kind)]),
        JOBS.path(): Kind(jobs),
        PODS.path(): Kind(pods),
    }


def _pod(job: dict[str, Any], left: int) -> dict[str, Any]:
    """Return the pod of a vcjob as a kubelet writes it: ended, or running for the last vcjob."""
    meta = job["metadata"]
    name, ended = f"{meta['name']}-worker-0", {"exitCode": 0, "reason": "Completed"}
    state = {"terminated": ended} if left else {"running": {"startedAt": "2026-08-01T12:00:00Z"}}
    owner = {"kind": JOBS.kind, "name": meta["name"], "uid": meta["uid"], "controller": True}
    said = {
        f"volcano.sh/{key}": word
        for key, word in {
            "job-name": meta["name"],
            "job-namespace": meta["namespace"],
            "queue-name": "default",
            "task-index": "0",
            "task-spec": "worker",
        }.items()
    }
    told = [
        {"type": each, "status": "True", "lastTransitionTime": "2026-08-01T12:00:00Z"}
        for each in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    container = {"name": "main", "image": "registry.example.com/train:1", "imageID": "sha256:0"}
    return {
        "kind": PODS.kind,
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "uid": meta["uid"].replace("0000", "0001", 1),
            "resourceVersion": "1000",
            "labels": said,
            "annotations": said,
            "ownerReferences": [{"apiVersion": JOBS.api_version, **owner}],
            "managedFields": meta["managedFields"],
        },
        "spec": job["spec"]["tasks"][1]["template"]["spec"] | {"nodeName": "node-1"},
        "status": {
            "phase": "Succeeded" if left else "Running",
            "podIP": "10.0.0.7",
            "hostIP": "192.168.0.7",
            "startTime": "2026-08-01T12:00:00Z",
            "conditions": told,
            "containerStatuses": [{**container, "restartCount": 0, "state": state}],
        },
    }


def _as_volcano_writes(state: dict[str, Any]) -> dict[str, Any]:
    """Return the rest of the status of a vcjob: its phases and its running time."""
    phases = ["Pending", "Running", *({"Completed"} & {state["phase"]})]
    told = [{"status": each, "lastTransitionTime": state["lastTransitionTime"]} for each in phases]
    return {"conditions": told, "minAvailable": 3, "runningDuration": "3.2s", "version": 3}


def _stored(obj: Any, kind: str) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(obj)
    found["kind"] = kind
    managed = [MANAGED | {"fieldsV1": FIELDS}, MANAGED | {"fieldsV1": FIELDS, "manager": "vc"}]
    found["metadata"] |= {"resourceVersion": "1000", "managedFields": managed}
    return found


def create_app(flows: int) -> web.Application:
    """The server."""
    many = kinds()
    template = _stored(samples.template(), JOBTEMPLATES.kind)
    queue = {"metadata": {"name": "default", "resourceVersion": "1"}, "status": {"state": "Open"}}
    few: dict[str, Callable[[web.Request], list[Any]]] = {
        JOBTEMPLATES.path(): lambda request: [template],
        QUEUES.path(): lambda request: [queue],
        COMMANDS.path(): lambda request: [],
        CRONJOBFLOWS.path(): lambda request: [],
        CRDS.path(): _definition,
    }

    async def answer(request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            response = web.StreamResponse()
            await response.prepare(request)
            await asyncio.Event().wait()
        if (kind := many.get(request.path)) is not None:
            begin, limit = (int(request.query.get(key, 0)) for key in ("continue", "limit"))
            bare = "PartialObjectMetadataList" in request.headers.get("Accept", "")
            return web.Response(body=kind.page(begin, limit, flows, metadata_only=bare))
        if (items := few.get(request.path)) is not None:
            page = {"metadata": {"resourceVersion": VERSION}, "items": items(request)}
            return web.json_response(page)
        if request.method == "PATCH" and request.path.endswith(f"/{samples.TEMPLATE}/status"):
            return web.json_response(template | await request.json())
        unexpected.append(f"{request.method} {request.path}")
        return web.json_response({"kind": "Status", "code": 404, "message": "none"}, status=404)

    async def asked(request: web.Request) -> web.Response:
        """Answer a request that is not expected."""
        return web.json_response(unexpected)

    unexpected: list[str] = []
    app = web.Application()
    app.router.add_get("/unexpected", asked)
    app.router.add_route("*", "/{path:.*}", answer)
    return app


def _definition(request: web.Request) -> list[Any]:
    wanted = request.query["fieldSelector"].removeprefix("metadata.name=")
    found = [crd(kind) for kind in KINDS]
    for each in found:
        each["metadata"]["resourceVersion"] = "1"
    return [each for each in found if each["metadata"]["name"] == wanted]


async def main(flows: int) -> None:
    """Serve until the process ends."""
    runner = web.AppRunner(create_app(flows), handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    run(main(int(sys.argv[1])))
