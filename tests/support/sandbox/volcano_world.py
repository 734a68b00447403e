"""An API server with the sandbox's job controller, for tests."""

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import msgspec

from jobflow.api.resources import JOBS, PODS, Resource
from jobflow.kube.client import Client
from jobflow.sandbox.apiserver.requests.in_process import in_process_client
from jobflow.sandbox.nodes.runner import Runner
from jobflow.sandbox.nodes.simulate import Clock, SimulateRunner, utc_now
from jobflow.sandbox.volcano.controller import JobController
from support.sandbox.api_server import ApiServer
from support.sandbox.vcjobs import vcjob
from support.time.alongside import alongside

NAMESPACE = "default"
Json = dict[str, Any]


class World:
    """An API server and its client."""

    def __init__(self, server: ApiServer, client: Client) -> None:
        self.server = server
        self.client = client

    async def create(self, *manifests: Json) -> None:
        """Create vcjobs."""
        for manifest in manifests:
            await self.client.create(JOBS, NAMESPACE, msgspec.json.encode(manifest))

    async def get(self, resource: Resource, name: str) -> Json:
        """Return an object."""
        body = await self.client.request("GET", resource.path(NAMESPACE, name))
        answer: Json = msgspec.json.decode(body)
        return answer

    async def items(self, resource: Resource) -> list[Json]:
        """Return all objects of a kind."""
        body = await self.client.request("GET", resource.path(NAMESPACE))
        items: list[Json] = msgspec.json.decode(body)["items"]
        return items

    async def pods(self) -> dict[str, str]:
        """Return the phases of all pods."""
        return {pod["metadata"]["name"]: pod["status"]["phase"] for pod in await self.items(PODS)}

    async def until(self, holds: Callable[[dict[str, Json]], bool], kind: Resource = JOBS) -> None:
        """Wait until a condition holds for all objects of a kind, by name."""
        body = await self.client.request("GET", kind.path(NAMESPACE))
        page = msgspec.json.decode(body)
        objects = {item["metadata"]["name"]: item for item in page["items"]}
        if holds(objects):
            return
        version = page["metadata"]["resourceVersion"]
        frames = self.client.watch(kind, namespace=NAMESPACE, resource_version=version)
        async with aclosing(frames):
            async for line in frames:
                frame = msgspec.json.decode(line)
                name = frame["object"]["metadata"].get("name")
                if frame["type"] == "DELETED":
                    del objects[name]
                elif frame["type"] != "BOOKMARK":
                    objects[name] = frame["object"]
                if holds(objects):
                    return
        raise AssertionError("the watch ended")

    async def wait_for_end(self, *names: str) -> list[Json]:
        """Wait for the last write of these vcjobs, and return them."""
        await self.until(lambda jobs: all(name in jobs and has_ended(jobs[name]) for name in names))
        return [await self.get(JOBS, name) for name in names]

    async def wait_for_job(self, name: str, expected: str) -> None:
        """Wait until a vcjob is in a phase."""
        await self.until(lambda jobs: phase(jobs.get(name, {})) == expected)

    async def wait_for_pod(self, name: str, expected: str) -> None:
        """Wait until a pod is in a phase."""
        await self.until(
            lambda pods: pods.get(name, {}).get("status", {}).get("phase") == expected, PODS
        )

    def writes(self) -> Counter[str]:
        """Count the writes by method and kind, without the test's own creation of vcjobs."""
        counts = Counter(
            f"{seen.method} {'/'.join(seen.path.split('/namespaces/')[1].split('/')[1::2])}"
            for seen in self.server.requests
            if seen.method != "GET" and 0 < seen.code < 300
        )
        del counts["POST jobs"]
        return counts


def phase(job: Json) -> str:
    """`status.state.phase`."""
    found: str = job.get("status", {}).get("state", {}).get("phase", "")
    return found


def phases(job: Json) -> list[str]:
    """Return the phases of a vcjob's conditions."""
    return [entry["status"] for entry in job["status"]["conditions"]]


def has_ended(job: Json) -> bool:
    """Return whether a vcjob has ended and its counts are gone, which is the last write."""
    status = job.get("status", {})
    is_final = phase(job) in ("Completed", "Failed", "Terminated", "Aborted")
    return is_final and "runningDuration" in status and not {"terminating", "failed"} & set(status)


@asynccontextmanager
async def small_world() -> AsyncIterator[World]:
    """An API server without a job controller."""
    async with ApiServer() as server, in_process_client(server) as client:
        yield World(server, client)


@asynccontextmanager
async def stand_in(
    world: World,
    *,
    speed: float = math.inf,
    clock: Clock = utc_now,
    client: Client | None = None,
    runner: Runner | None = None,
) -> AsyncIterator[asyncio.Task[None]]:
    """Run a job controller."""
    node = runner or SimulateRunner(speed, clock=clock)
    controller = JobController(client or world.client, node, clock=clock)
    async with alongside(controller.run()) as running:
        yield running


@asynccontextmanager
async def long_job(world: World, *tasks: Json, **more: Any) -> AsyncIterator[None]:
    """Run a job controller with a vcjob j, which is Running and takes an hour."""
    async with stand_in(world, speed=1):
        await world.create(vcjob("j", *tasks, duration="1h", **more))
        await world.wait_for_job("j", "Running")
        yield


async def run_job(world: World, manifest: Json, **options: Any) -> Json:
    """Run a job controller until a new vcjob has ended; return the vcjob."""
    async with stand_in(world, **options):
        await world.create(manifest)
        [job] = await world.wait_for_end(manifest["metadata"]["name"])
        return job


@asynccontextmanager
async def volcano(
    client: Client, *, speed: float = 1, runner: Runner | None = None
) -> AsyncIterator[None]:
    """Run a job controller with a client of its own, which is closed at the end."""
    controller = JobController(client, runner or SimulateRunner(speed))
    async with client, alongside(controller.run()):
        yield
