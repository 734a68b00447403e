"""The real controller on the sandbox's API server, with a driver that finishes vcjobs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

import msgspec

from jobflow.api import labels
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import (
    COMMANDS,
    CRONJOBFLOWS,
    EVENTS,
    JOBFLOWS,
    JOBS,
    JOBTEMPLATES,
    ObjectMeta,
    OwnerReference,
    Resource,
)
from jobflow.api.volcano.command import Command, encoded
from jobflow.api.volcano.job import Job
from jobflow.controller.controller import Controller
from jobflow.kube.cache import Cache
from jobflow.kube.client import ApiError, Client
from jobflow.kube.clock import ExponentialBackoff
from jobflow.kube.reflector import Reflector
from jobflow.sandbox.apiserver.handlers.pod_logs import LogSource
from jobflow.sandbox.apiserver.requests.failures import RequestFailure
from jobflow.sandbox.apiserver.requests.http import Request
from jobflow.sandbox.apiserver.requests.in_process import in_process_client
from jobflow.store import Store, feeds
from support.sandbox.api_server import ApiServer, InjectedFault
from support.time.alongside import alongside
from support.time.leaping_loop import clock, now

K = TypeVar("K")

NAMESPACE = "default"
WITHIN_SECONDS = 20.0
ENDED = frozenset({"Completed", "Failed", "Terminated", "Aborted"})

DIAMOND = {"a": "", "b": "a", "c": "a", "d": "b c", "e": "d"}


def template(name: str, **spec: Any) -> dict[str, Any]:
    """Return a JobTemplate of one task."""
    pod = {"spec": {"containers": [{"name": "main", "image": "busybox"}], "restartPolicy": "Never"}}
    tasks = [{"name": "main", "replicas": 1, "template": pod}]
    return {
        "apiVersion": JOBTEMPLATES.api_version,
        "kind": "JobTemplate",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"minAvailable": 1, "tasks": tasks, **spec},
    }


def flow(name: str, steps: Mapping[str, str], **spec: Any) -> dict[str, Any]:
    """Return a JobFlow of steps, each with its targets separated by spaces."""
    flows = [
        {"name": step, "dependsOn": {"targets": targets.split()}} if targets else {"name": step}
        for step, targets in steps.items()
    ]
    return {
        "apiVersion": JOBFLOWS.api_version,
        "kind": "JobFlow",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"flows": flows, **spec},
    }


def cron(name: str = "c", schedule: str = "*/10 * * * *", **spec: Any) -> dict[str, Any]:
    """Return a CronJobFlow whose flows have one step, `a`."""
    template = {"spec": {"flows": [{"name": "a"}]}}
    return {
        "apiVersion": CRONJOBFLOWS.api_version,
        "kind": CRONJOBFLOWS.kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"schedule": schedule, "jobFlowTemplate": template, **spec},
    }


class Ends:
    """A driver that moves each new vcjob through the phases, separated by spaces, that `phases` has
    for its name, or through `otherwise`. If they are "", the vcjob does not change."""

    def __init__(self, client: Client, phases: Mapping[str, str], otherwise: str) -> None:
        self._client = client
        self._phases = dict(phases)
        self._otherwise = otherwise
        self._group: asyncio.TaskGroup | None = None
        self._jobs = Cache[Job](self._changed)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as self._group:
            await _reflector(self._client, self._jobs).run()

    def _changed(self, old: Job | None, new: Job | None) -> None:
        assert self._group is not None
        if new is not None and old is None and not new.status.state.phase:
            phase = self._phases.get(new.metadata.name, self._otherwise)
            if phase:
                self._group.create_task(self._end(new, phase))

    async def _end(self, job: Job, phase: str) -> None:
        try:
            for word in phase.split():
                meta = job.metadata
                await set_phase(self._client, meta.name, word, namespace=meta.namespace)
        except ApiError as error:
            if not error.not_found:
                raise


def _reflector(client: Client, cache: Cache[Any]) -> Reflector[Any]:
    return Reflector(client, JOBS, Job, cache, backoff=ExponentialBackoff(first=0.001, most=0.01))


async def set_phase(client: Client, job: str, phase: str, *, namespace: str = NAMESPACE) -> None:
    """Write the phase of a vcjob as Volcano does."""
    await write_status(client, JOBS, job, {"state": {"phase": phase}}, namespace=namespace)


async def merge(
    client: Client,
    resource: Resource,
    name: str,
    changes: Mapping[str, Any],
    *,
    namespace: str = NAMESPACE,
    subresource: str = "",
) -> None:
    """Send a merge patch with these changes."""
    body = json.dumps(changes).encode()
    await client.patch(resource, namespace, name, body, subresource=subresource)


async def write_status(
    client: Client, resource: Resource, name: str, status: Any, *, namespace: str = NAMESPACE
) -> None:
    """Merge fields into the status of an object."""
    changes = {"status": status}
    await merge(client, resource, name, changes, namespace=namespace, subresource="status")


def flow_command(
    flow: ObjectMeta, action: str, name: str, message: str = "", **outputs: Any
) -> bytes:
    """Return a Command for a flow."""
    target = OwnerReference(
        api_version=JOBFLOWS.api_version, kind=JOBFLOWS.kind, name=flow.name, uid=flow.uid
    )
    annotations = {labels.OUTPUTS: json.dumps(outputs)} if outputs else None
    meta = ObjectMeta(name=name, annotations=annotations)
    return encoded(Command(metadata=meta, action=action, target=target, message=message))


class Cluster:
    """A server, with queries and waits for tests."""

    def __init__(self, server: ApiServer, client: Client) -> None:
        self.server = server
        self.client = client

    async def apply(self, *objects: dict[str, Any]) -> None:
        """Create objects of our kinds."""
        for obj in objects:
            resources = (JOBFLOWS, JOBTEMPLATES, CRONJOBFLOWS, JOBS)
            resource = next(each for each in resources if each.kind == obj["kind"])
            await self.client.create(resource, NAMESPACE, json.dumps(obj).encode())

    async def flow(self, name: str) -> JobFlow:
        return await self.client.get(JOBFLOWS, NAMESPACE, name, JobFlow)

    async def raw(self, resource: Resource) -> list[dict[str, Any]]:
        """Return all objects of a kind."""
        body = await self.client.request("GET", resource.path(NAMESPACE))
        items: list[dict[str, Any]] = json.loads(body)["items"]
        return items

    async def jobs(self) -> dict[str, str]:
        """Return the phases of the vcjobs by name."""
        items = await self.raw(JOBS)
        return {
            item["metadata"]["name"]: item.get("status", {}).get("state", {}).get("phase", "")
            for item in items
        }

    async def events(self) -> list[dict[str, Any]]:
        return await self.raw(EVENTS)

    async def until(
        self, name: str, holds: Callable[[JobFlow], bool], *, within: float = WITHIN_SECONDS
    ) -> JobFlow:
        """Wait until the condition holds for the flow, and return the flow."""

        def is_reached(flows: Mapping[str, JobFlow]) -> bool:
            return name in flows and holds(flows[name])

        return (await self.seen(JOBFLOWS, JobFlow, is_reached, within=within))[name]

    async def seen(
        self,
        resource: Resource,
        kind: type[K],
        holds: Callable[[Mapping[str, K]], bool],
        *,
        within: float = WITHIN_SECONDS,
    ) -> Mapping[str, K]:
        """Wait until the condition holds for the objects of a kind, and return them by name."""
        found: asyncio.Future[Mapping[str, K]] = asyncio.get_running_loop().create_future()
        cache: Cache[Any] = Cache()

        def check(*_: object) -> None:
            objects = {obj.metadata.name: obj for obj in cache}
            if cache.synced and not found.done() and holds(objects):
                found.set_result(objects)

        cache.on_change, cache.on_state = check, check
        reflector = Reflector(
            self.client, resource, kind, cache, backoff=ExponentialBackoff(first=0.001, most=0.01)
        )
        async with alongside(reflector.run()):
            try:
                async with asyncio.timeout(within):
                    return await found
            except TimeoutError:
                flows = "; ".join([await self.describe(flow) for flow in await self.flow_names()])
                raise AssertionError(f"never came true: {flows}") from None

    async def flow_names(self) -> list[str]:
        return [item["metadata"]["name"] for item in await self.raw(JOBFLOWS)]

    async def ended(self, name: str, *, within: float = WITHIN_SECONDS) -> JobFlow:
        """Wait until the flow is final, and return it."""
        return await self.until(name, lambda flow: flow.final, within=within)

    async def until_jobs(self, **phases: str | None) -> None:
        """Wait until each named vcjob (`_` for `-`) has this phase, or is deleted if it is None."""
        expected = {name.replace("_", "-"): phase for name, phase in phases.items()}

        def is_reached(jobs: Mapping[str, Job]) -> bool:
            return all(
                (jobs[name].status.state.phase if name in jobs else None) == phase
                for name, phase in expected.items()
            )

        await self.seen(JOBS, Job, is_reached)

    async def describe(self, name: str) -> str:
        """Return the flow's status for the message of a failed wait."""
        status = (await self.flow(name)).status
        return f"{name} is at {status.state} {status.conditions} jobs {await self.jobs()}"

    def fails(
        self, method: str, ending: str, how: RequestFailure | None, times: int | None = 1
    ) -> InjectedFault:
        """Fail requests whose path has this ending. The method "" means any method."""

        def matches(request: Request) -> bool:
            return request.method.endswith(method) and request.path.endswith(ending)

        self.server.faults.append(fault := InjectedFault(matches, how, times=times))
        return fault

    def count(self, method: str, resource: Resource, *, subresource: str = "") -> int:
        """Return the number of successful requests."""
        count = 0
        for request in self.server.requests:
            parts = request.path.rstrip("/").split("/")
            is_status = parts[-1] == "status"
            if request.method == method and resource.plural in parts and 200 <= request.code < 300:
                count += is_status == (subresource == "status")
        return count

    @asynccontextmanager
    async def ends(
        self,
        phases: Mapping[str, str] | None = None,
        *,
        otherwise: str = "Completed",
        driver: type[Ends] = Ends,
    ) -> AsyncIterator[None]:
        """Run a driver that finishes new vcjobs."""
        async with in_process_client(self.server) as client:
            async with alongside(driver(client, phases or {}, otherwise).run()):
                yield

    async def order(self, action: str, *, name: str = "stop", flow: str = "f") -> str:
        """Create a Command for a flow, and return the UID of the Command."""
        body = flow_command((await self.flow(flow)).metadata, action, name)
        body = await self.client.create(COMMANDS, NAMESPACE, body)
        return msgspec.json.decode(body, type=Command).metadata.uid

    @asynccontextmanager
    async def controller(
        self, client: Client | None = None, **options: Any
    ) -> AsyncIterator[Product]:
        """Run the product's controller with its own store and reflectors. Kill it at the end."""
        async with AsyncExitStack() as stack:
            if client is None:
                client = await stack.enter_async_context(in_process_client(self.server))
            product = Product(client, **options)
            try:
                yield product
                product.check()
            finally:
                await product.kill()


class Product:
    """Store, reflectors and controller on one client, as tasks that can be killed."""

    def __init__(self, client: Client, *, namespace: str = "", **options: Any) -> None:
        self.store = Store()
        times = {"now": now, "clock": clock} | options
        self.controller = Controller(
            client, self.store, dice=lambda: 1.0, events_per_second=10_000, **times
        )
        follow_feeds = feeds(self.store, client, namespace=namespace)
        self.tasks = [asyncio.create_task(feed.run()) for feed in follow_feeds]
        self.running = asyncio.create_task(self.controller.run())
        self.tasks.append(self.running)

    def check(self) -> None:
        """Raise the exception of a task that died."""
        for task in self.tasks:
            if task.done() and not task.cancelled():
                task.result()

    async def kill(self) -> None:
        """Cancel all tasks, like kill -9."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


@asynccontextmanager
async def cluster(logs: LogSource | None = None) -> AsyncIterator[Cluster]:
    """A new API server."""
    async with ApiServer(logs=logs) as server, in_process_client(server) as client:
        yield Cluster(server, client)
