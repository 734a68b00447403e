"""A client that dies at one of its API requests, for tests that restart the controller."""

import asyncio
import json
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from jobflow.api import labels
from jobflow.api.resources import JOBFLOWS, JOBS
from jobflow.kube.client import Client
from support.laws.effort_of_laws import STRIDE
from support.network.anonymous import anonymous
from support.sandbox.running_controller import Cluster, Product


@dataclass
class Point:
    """Point of a crash: the number of a request, from 0, before it is sent or after its commit."""

    number: int
    after: bool

    def __str__(self) -> str:
        return f"request {self.number}, {'after its commit' if self.after else 'before sending'}"


def points(first: int, *, after: bool) -> Iterator[Point]:
    """Yield crash points, in `make test` every sixth. Tests start at different points, so that
    together they cover all."""
    stride = min(STRIDE, 6)
    for number in count(first % stride, stride):
        yield Point(number, after)


class Dying(Client):
    """A client that sends nothing after one of its requests."""

    counts_reads = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.point = Point(-1, after=False)
        self.sent: list[str] = []
        """The requests so far that count as crash points: writes, or all."""
        self.too_early: list[str] = []
        """The jobs that must not have been created yet."""
        self.dead = asyncio.Event()

    async def request(self, method: str, path: str, **more: Any) -> bytes:
        is_point = False
        if method != "GET" or self.counts_reads:
            is_point = len(self.sent) == self.point.number
            self.sent.append(f"{method} {path}")
        if is_point and not self.point.after:
            self.dead.set()
        await self._alive()
        answer = await super().request(method, path, **more)
        if is_point:
            self.dead.set()
        await self._alive()
        return answer

    async def _alive(self) -> None:
        if self.dead.is_set():
            await asyncio.Event().wait()


class DyingAnywhere(Dying):
    """A client that counts reads too."""

    counts_reads = True


class Reusing(Dying):
    """A client that notes the jobs that are created before the result of a reused step that they
    depend on is stored."""

    async def request(self, method: str, path: str, **more: Any) -> bytes:
        if method == "POST" and path.endswith(f"/{JOBS.plural}"):
            job = json.loads(more["body"])["metadata"]
            namespace, owner = job["namespace"], job["ownerReferences"][0]["name"]
            flow = await Client.request(self, "GET", JOBFLOWS.path(namespace, owner))
            jobs = await Client.request(self, "GET", JOBS.path(namespace))
            ran = {
                each["metadata"]["annotations"][labels.STEP]
                for each in json.loads(jobs)["items"]
                if each["metadata"]["ownerReferences"][0]["name"] == owner
            }
            step = job["annotations"][labels.STEP]
            self.too_early += _missing_results(json.loads(flow), step, ran)
        return await super().request(method, path, **more)


def _missing_results(flow: Mapping[str, Any], step: str, ran: Container[str]) -> list[str]:
    """Return which targets of a step have no stored end, and no job that shows it (`ran`)."""
    steps = {each["name"]: each for each in flow["spec"]["flows"]}
    conditions = flow.get("status", {}).get("conditions", {})
    targets = steps[step].get("dependsOn", {}).get("targets", ())
    ends = {name: conditions.get(f"{flow['metadata']['name']}-{name}", {}) for name in targets}
    return [
        f"{step} is created before the result of {name} is stored"
        for name, condition in ends.items()
        if condition.get("phase") != "Completed" and name not in ran
    ]


async def first_life(world: Cluster, point: Point, kind: type[Dying] = DyingAnywhere) -> bool:
    """Run the product until it dies at this point, or until the flow `f` is final and idle. Return
    whether it died."""
    async with kind(anonymous(world.server.url)) as client:
        client.point, dead = point, client.dead
        product = Product(client)
        ended = asyncio.create_task(world.until("f", lambda flow: flow.final))
        crashed = asyncio.create_task(dead.wait())
        await asyncio.wait({ended, crashed}, return_when="FIRST_COMPLETED")
        if ended.done():
            await settled(client)
        await product.kill()
        for task in (ended, crashed):
            task.cancel()
        await asyncio.gather(ended, crashed, return_exceptions=True)
        assert not client.too_early, point
        return dead.is_set()


async def settled(client: Dying) -> None:
    """Wait until the controller sends nothing more."""
    before = -1
    while before != len(client.sent):
        before = len(client.sent)
        await asyncio.sleep(0.03)
