"""Flows of one concurrency group: never more at once than the limit, in their order."""

import asyncio
from itertools import count
from typing import Any

import httpx
import msgspec
import pytest

from jobflow.api.resources import COMMANDS
from jobflow.kube.client import Client
from jobflow.sandbox.apiserver.requests.failures import failure
from support.network.anonymous import anonymous
from support.sandbox.crashing_requests import Dying, Point
from support.sandbox.manual_reconciler import World
from support.sandbox.places_held import places_held
from support.sandbox.running_controller import (
    NAMESPACE,
    Cluster,
    cluster,
    flow,
    set_phase,
    template,
)

NAMES = [f"f{i}" for i in range(6)]


def member(name: str, **concurrency: Any) -> dict[str, Any]:
    return flow(name, {"a": ""}, concurrency={"group": "g", **concurrency})


async def create(world: Cluster, **concurrency: Any) -> None:
    await world.apply(template("a"), *(member(name, **concurrency) for name in NAMES))


class Losing(Client):
    """A client that loses the answer to every third write of a status."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._writes = count(1)

    async def request(self, method: str, path: str, **more: Any) -> bytes:
        answer = await super().request(method, path, **more)
        if method == "PATCH" and next(self._writes) % 3 == 0:
            raise httpx.ReadError("the answer was lost")
        return answer


@pytest.mark.parametrize("limit", [1, 2])
async def test_flows_start_one_after_another_in_their_order(limit: int) -> None:
    async with cluster() as world, world.controller(), world.ends():
        async with places_held(world.client, NAMESPACE) as held:
            await create(world, limit=limit)
            for name in NAMES:
                assert (await world.ended(name)).status.state.phase == "Succeed"
        assert held.most == limit
        assert held.started == NAMES


@pytest.mark.long
async def test_a_lost_answer_lets_no_second_flow_start() -> None:
    async with cluster() as world, Losing(anonymous(world.server.url)) as client:
        async with world.controller(client), world.ends():
            async with places_held(world.client, NAMESPACE) as held:
                await create(world)
                for name in NAMES:
                    assert (await world.ended(name)).status.state.phase == "Succeed"
            assert (held.most, held.started) == (1, NAMES)


async def test_a_flow_that_comes_first_by_name_does_not_start_beside_one_that_may_have() -> None:
    """Both are created in the same second, and nobody knows whether the start was stored."""
    async with cluster() as world:
        await world.apply(template("a"), member("f"))
        manual = World(world, await world.flow("f"))
        world.fails("PATCH", "/f/status", failure(500, "InternalError", "etcd timed out"))
        assert (await manual.reconciler.reconcile((NAMESPACE, "f"))).error
        await world.apply(member("e"))
        created = (await world.flow("f")).metadata.creation_timestamp
        other = await world.flow("e")
        metadata = msgspec.structs.replace(other.metadata, creation_timestamp=created)
        manual.store.flows.learn(msgspec.structs.replace(other, metadata=metadata))
        await manual.reconciler.reconcile((NAMESPACE, "e"))
        assert (await world.flow("e")).status.state.reason == "Concurrency"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("number", range(2, 20, 4))
@pytest.mark.parametrize("after", [False, True], ids=["before sending", "after the commit"])
async def test_a_crash_lets_no_second_flow_start(number: int, after: bool) -> None:
    async with cluster() as world, world.ends():
        async with places_held(world.client, NAMESPACE) as held:
            async with Dying(anonymous(world.server.url)) as client:
                client.point = Point(number, after)
                async with world.controller(client):
                    await create(world)
                    await client.dead.wait()
            async with world.controller():
                for name in NAMES:
                    assert (await world.ended(name)).status.state.phase == "Succeed"
        assert (held.most, held.started) == (1, NAMES)


async def test_a_flow_replaces_those_that_run_and_wait() -> None:
    async with cluster() as world, world.controller(), world.ends({"f0-a": "Running"}):
        async with places_held(world.client, NAMESPACE) as held:
            await world.apply(template("a"), member("f0"))
            await world.until_jobs(f0_a="Running")
            await world.apply(member("f1"))
            await world.until("f1", lambda flow: flow.status.state.reason == "Concurrency")
            await world.apply(member("f2", policy="Replace"))
            await world.until("f0", lambda flow: flow.status.state.reason == "Cancelled")
            waiting = await world.ended("f1")
            assert (waiting.status.state.phase, waiting.status.start_time) == ("Failed", None)
            message = "the flow was cancelled: replaced by the JobFlow f2"
            assert waiting.status.state.message == message
            assert "f2-a" not in await world.jobs()
            async with asyncio.timeout(10):
                while not await world.raw(COMMANDS):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            await set_phase(world.client, "f0-a", "Aborted")
            assert (await world.ended("f2")).status.state.phase == "Succeed"
            assert await world.jobs() == {"f0-a": "Aborted", "f2-a": "Completed"}
            assert (held.started, held.most) == (["f0", "f2"], 1)
        commands = [item["metadata"]["name"] for item in await world.raw(COMMANDS)]
        assert commands == ["f0-a-abort"]
