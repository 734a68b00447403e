"""vcjobs on the sandbox's API server, carried out by the stand-in: phases, pods, restarts, cost."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from jobflow.api.resources import EVENTS, JOBS, PODS
from jobflow.kube.client import Client
from jobflow.kube.errors import ApiError
from jobflow.sandbox.server import ApiServer
from jobflow.sandbox.volcano import JobController, SimulateRunner

NAMESPACE = "default"
PREFIX = "sandbox.jobflow.volcano.sh/"


def vcjob(name: str, *, tasks: Any = None, labels: Any = None, **more: Any) -> dict[str, Any]:
    """A vcjob; keyword arguments with a dash for an underscore are its annotations."""
    spec = more.pop("spec", {})
    annotations = {PREFIX + key.replace("_", "-"): value for key, value in more.items()}
    return {
        "apiVersion": JOBS.api_version,
        "kind": "Job",
        "metadata": {"name": name, "annotations": annotations, "labels": labels or {}},
        "spec": {"tasks": tasks or [task("t")], **spec},
    }


def task(name: str, replicas: int = 1, **more: Any) -> dict[str, Any]:
    template = {
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}
    }
    return {"name": name, "replicas": replicas, "template": template, **more}


class World:
    """An API server and a client of it."""

    def __init__(self, server: ApiServer, client: Client) -> None:
        self.server = server
        self.client = client

    async def create(self, *manifests: dict[str, Any]) -> None:
        for manifest in manifests:
            await self.client.create(JOBS, NAMESPACE, msgspec.json.encode(manifest))

    async def job(self, name: str) -> dict[str, Any]:
        path = JOBS.path(NAMESPACE, name)
        answer: dict[str, Any] = msgspec.json.decode(await self.client.request("GET", path))
        return answer

    async def items(self, resource: Any) -> list[dict[str, Any]]:
        body = await self.client.request("GET", resource.path(NAMESPACE))
        items: list[dict[str, Any]] = msgspec.json.decode(body)["items"]
        return items

    async def pods(self) -> dict[str, str]:
        return {pod["metadata"]["name"]: pod["status"]["phase"] for pod in await self.items(PODS)}

    async def until(
        self, *names: str, holds: Callable[[dict[str, Any]], bool] | None = None
    ) -> list[dict[str, Any]]:
        """Wait until all these vcjobs have ended and settled, or until `holds` of each."""
        holds = holds or ended
        last: dict[str, dict[str, Any]] = {}
        version = "0"
        async for line in self.client.watch(JOBS, namespace=NAMESPACE, resource_version=version):
            frame = msgspec.json.decode(line)
            if frame["type"] != "BOOKMARK":
                last[frame["object"]["metadata"]["name"]] = frame["object"]
            if all(name in last and holds(last[name]) for name in names):
                return [last[name] for name in names]
        raise AssertionError("the watch ended")

    def writes(self, *, agent: str = "jobflow") -> Counter[str]:
        """Writes so far, by method and kind."""
        return Counter(
            f"{seen.method} {'/'.join(seen.path.split('/namespaces/')[1].split('/')[1::2])}"
            for seen in self.server.requests
            if seen.method != "GET" and seen.code < 300
        )


def ended(job: dict[str, Any]) -> bool:
    status = job.get("status", {})
    over = status.get("state", {}).get("phase") in ("Completed", "Failed", "Terminated", "Aborted")
    return over and "runningDuration" in status and "terminating" not in status


def phases(job: dict[str, Any]) -> list[str]:
    return [entry["status"] for entry in job["status"]["conditions"]]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with ApiServer() as server, Client.at(server.url) as client:
        yield World(server, client)


@asynccontextmanager
async def stand_in(world: World, speed: float = math.inf) -> AsyncIterator[JobController]:
    controller = JobController(world.client, SimulateRunner(speed))
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(controller.run())
        yield controller
        running.cancel()


async def test_a_job_completes(world: World) -> None:
    async with stand_in(world):
        await world.create(vcjob("j"))
        [job] = await world.until("j")
    assert phases(job) == ["Pending", "Running", "Completed"]
    assert "taskStatusCount" not in job["status"]
    assert await world.pods() == {"j-t-0": "Succeeded"}
    print(world.writes())
