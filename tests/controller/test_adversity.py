"""Flows that run while watches repeat, lag and break, and writes fail."""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest

from jobflow.api.resources import JOBS
from jobflow.kube.client import Client
from jobflow.sandbox.apiserver.requests.failures import failure
from jobflow.sandbox.apiserver.requests.http import Request
from jobflow.sandbox.apiserver.server import InjectedFault
from support.sandbox.running_controller import DIAMOND, Cluster, cluster, flow, template

WRITES = frozenset({"POST", "PATCH", "DELETE", "PUT"})


class Repeating(Client):
    """Every frame of a watch comes twice, and older ones come again in between."""

    async def watch(self, *args: Any, **more: Any) -> AsyncGenerator[bytes, None]:
        dice, past = random.Random(7), []
        async with aclosing(super().watch(*args, **more)) as frames:
            async for frame in frames:
                past.append(frame)
                yield frame
                yield frame
                yield dice.choice(past)


class Breaking(Client):
    async def watch(self, *args: Any, **more: Any) -> AsyncGenerator[bytes, None]:
        async with aclosing(super().watch(*args, **more)) as frames:
            async for frame in frames:
                yield frame
                raise ConnectionResetError("cut by the test")


class Forgetting(Client):
    """The server forgets: now and then a watch loses its next frame and says 410 instead."""

    async def watch(self, *args: Any, **more: Any) -> AsyncGenerator[bytes, None]:
        async with aclosing(super().watch(*args, **more)) as frames:
            async for frame in frames:
                if _coin.random() < 0.5:
                    yield b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Gone"}}'
                yield frame


_coin = random.Random(5)


class Lagging(Client):
    """A watch is a while behind: everything we write is stored long before we see it."""

    async def watch(self, *args: Any, **more: Any) -> AsyncGenerator[bytes, None]:
        async with aclosing(super().watch(*args, **more)) as frames:
            async for frame in frames:
                await asyncio.sleep(0.03)
                yield frame


async def carried(world: Cluster, client: Client, flows: int = 5) -> None:
    """Run diamonds; check that each succeeds with one attempt of each step."""
    await world.apply(*(template(name) for name in DIAMOND))
    names = [f"f{number}" for number in range(flows)]
    async with client, world.controller(client), world.ends():
        for name in names:
            await world.apply(flow(name, DIAMOND))
        for name in names:
            done = await world.ended(name)
            assert done.status.state.phase == "Succeed"
            conditions = done.status.conditions or {}
            assert {entry.attempts for entry in conditions.values()} == {1}
    assert set(await world.jobs()) == {f"{name}-{step}" for name in names for step in DIAMOND}


@pytest.mark.parametrize("kind", [Repeating, Breaking, Forgetting, Lagging])
async def test_a_faulty_watch_duplicates_and_delays_no_job(kind: type[Client]) -> None:
    async with cluster() as world:
        await carried(world, kind.at(world.server.url))
        assert world.count("POST", JOBS) == 25


def of_the_controller(dice: random.Random, share: float) -> Any:
    """Picks a share of the writes of jobs and flow status."""

    def picks(request: Request) -> bool:
        ours = request.path.endswith("/jobs") or request.path.endswith("/status")
        ours = ours and "/jobs/" not in request.path
        return ours and request.method in WRITES and dice.random() < share

    return picks


@pytest.mark.parametrize(
    "fault",
    [
        {"failure": failure(409, "Conflict", "try again")},
        {"failure": failure(429, "TooManyRequests", "slow down")},
        {"failure": failure(500, "InternalError", "etcdserver: leader changed")},
        {"failure": failure(500, "InternalError", "answer lost"), "after": True},
        {"failure": None},
        {"failure": None, "after": True},
    ],
    ids=["409", "429", "500", "500 after commit", "cut", "cut after commit"],
)
async def test_writes_that_fail_in_bursts_are_made_once_in_the_end(fault: dict[str, Any]) -> None:
    async with cluster() as world:
        picks = of_the_controller(random.Random(3), 0.3)
        trouble = InjectedFault(picks, times=20, **fault)
        world.server.faults.append(trouble)
        await carried(world, Client.at(world.server.url), flows=3)
        assert trouble.times is not None
        assert trouble.times <= 15


async def test_a_server_that_asks_for_time_gets_it() -> None:
    async with cluster() as world, world.ends():
        waits: list[float] = []
        later = failure(429, "TooManyRequests", "later", retryAfterSeconds=1)
        world.fails("POST", "/jobs", later)
        await world.apply(template("a"), flow("f", {"a": ""}))
        async with world.controller() as product:
            queue = product.controller._queue
            retry = queue.retry
            queue.retry = lambda key, at_least=0.0: waits.append(at_least) or retry(key)  # type: ignore[func-returns-value,method-assign]
            await world.ended("f")
        assert waits == [1.0]
