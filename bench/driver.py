"""A driver that plays the parts of a cluster that run jobs and pods, alike for every controller.

`python -m bench.driver jobs URL CA TOKEN` plays Volcano's job controller: as soon as the ADDED
event of a vcjob arrives, it patches the status to Pending, Running and Completed. `pods` plays the
kubelet and Argo's executor: it patches a pod to Running, reports its outputs, and patches it to
Succeeded.

It prints `watching`. For each line on stdin it prints one line of JSON: the events of the watch
since the last line, in their order.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

import msgspec

from bench.wire import Pool, Where, watch
from jobflow.api.resources import JOBS, PODS, Resource
from jobflow.runtime.event_loop import run

CONNECTIONS = 32
MERGE = "application/merge-patch+json"
JSON = "application/json"
TASK_RESULTS = Resource("argoproj.io", "v1alpha1", "workflowtaskresults", "WorkflowTaskResult")
ARGO = "workflows.argoproj.io"


class Seen(msgspec.Struct, array_like=True):
    """One event of a step's job; `at` is time.perf_counter() when its last byte arrived."""

    at: float
    type: str
    namespace: str
    name: str
    """Name of the flow, `-`, name of the step."""
    phase: str
    """That of a vcjob; a pod that succeeded is Completed."""


class Meta(msgspec.Struct):
    """The metadata that the driver reads."""

    name: str
    namespace: str
    resource_version: str = msgspec.field(name="resourceVersion")
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class _State(msgspec.Struct):
    phase: str = ""


class Status(msgspec.Struct):
    """The phase of a vcjob or of a pod."""

    state: _State = msgspec.field(default_factory=_State)
    phase: str = ""


class Object(msgspec.Struct):
    """A vcjob or a pod."""

    metadata: Meta
    status: Status = msgspec.field(default_factory=Status)


class _Frame(msgspec.Struct):
    type: str
    object: Object


# ---------------------------------------------------------------------- jobs and pods


def step_of_job(job: Object) -> tuple[str, str]:
    """Return the name of a vcjob, which consists of flow and step, and its phase."""
    return job.metadata.name, job.status.state.phase


def step_of_pod(pod: Object) -> tuple[str, str]:
    """Return the flow and the step of a pod of Argo Workflows, and its phase as that of a vcjob."""
    phase = pod.status.phase
    node = pod.metadata.annotations.get(f"{ARGO}/node-name", pod.metadata.name)
    return node.replace(".", "-"), "Completed" if phase == "Succeeded" else phase


async def complete_job(pool: Pool, job: Object) -> None:
    """Write the three statuses that Volcano writes for a job of three pods."""
    path = JOBS.path(job.metadata.namespace, job.metadata.name, "status")
    conditions: list[dict[str, str]] = []
    counts: dict[str, dict[str, int | None]] = {
        "Pending": {"pending": 3},
        "Running": {"pending": None, "running": 3},
        "Completed": {"running": None},
    }
    for phase, count in counts.items():
        now = _now()
        conditions.append({"status": phase, "lastTransitionTime": now})
        status = {
            "state": {"phase": phase, "lastTransitionTime": now},
            "conditions": conditions,
            "minAvailable": 3,
            **count,
        }
        await pool.ask("PATCH", path, msgspec.json.encode({"status": status}), MERGE)


async def complete_pod(pool: Pool, pod: Object) -> None:
    """Run a pod, report its outputs as Argo's executor does, and end it."""
    meta = pod.metadata
    path = PODS.path(meta.namespace, meta.name, "status")
    await pool.ask("PATCH", path, msgspec.json.encode({"status": {"phase": "Running"}}), MERGE)
    labels = {
        f"{ARGO}/workflow": meta.labels[f"{ARGO}/workflow"],
        f"{ARGO}/report-outputs-completed": "true",
    }
    result = {
        "apiVersion": TASK_RESULTS.api_version,
        "kind": TASK_RESULTS.kind,
        "metadata": {"name": meta.annotations[f"{ARGO}/node-id"], "labels": labels},
    }
    await pool.ask("POST", TASK_RESULTS.path(meta.namespace), msgspec.json.encode(result), JSON)
    await pool.ask("PATCH", path, msgspec.json.encode({"status": {"phase": "Succeeded"}}), MERGE)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Kind(msgspec.Struct, frozen=True):
    """How to follow and complete one kind of object."""

    resource: Resource
    step: Callable[[Object], tuple[str, str]]
    complete: Callable[[Pool, Object], Coroutine[Any, Any, None]]
    new: str
    """The phase of an object that was just created."""


KINDS = {
    "jobs": Kind(JOBS, step_of_job, complete_job, ""),
    "pods": Kind(PODS, step_of_pod, complete_pod, "Pending"),
}

# ---------------------------------------------------------------------- the process


class Driver:
    """Completes objects of a kind and records the events that it sees."""

    def __init__(self, kind: Kind, pool: Pool, tasks: asyncio.TaskGroup) -> None:
        self._kind = kind
        self._pool = pool
        self._tasks = tasks
        self._read = msgspec.json.Decoder(_Frame)
        self._seen: list[Seen] = []

    def frame(self, line: bytes) -> str:
        """Handle an event of the watch; return its version."""
        at = time.perf_counter()
        event = self._read.decode(line)
        meta = event.object.metadata
        name, phase = self._kind.step(event.object)
        self._seen.append(Seen(at, event.type, meta.namespace, name, phase))
        if event.type == "ADDED" and phase == self._kind.new:
            self._tasks.create_task(self._kind.complete(self._pool, event.object))
        return meta.resource_version

    def report(self) -> bytes:
        """Return the events since the last report."""
        seen, self._seen = self._seen, []
        return msgspec.json.encode(seen)


async def main(kind: Kind, where: Where) -> None:
    """Drive until stdin ends."""
    reader = asyncio.StreamReader(limit=2**20)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    pool = await Pool(where).open(CONNECTIONS)
    async with asyncio.TaskGroup() as tasks:
        driver = Driver(kind, pool, tasks)
        watching = tasks.create_task(watch(where, kind.resource.path(), driver.frame))
        print("watching", flush=True)
        while await reader.readline():
            sys.stdout.buffer.write(driver.report() + b"\n")
            sys.stdout.buffer.flush()
        watching.cancel()


if __name__ == "__main__":
    run(main(KINDS[sys.argv[1]], Where(*sys.argv[2:])))
