"""Flows that run while watches repeat events, lag or break, and writes fail."""

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
from support.network.anonymous import anonymous
from support.sandbox.api_server import InjectedFault
from support.sandbox.running_controller import DIAMOND, Cluster, cluster, flow, template

WRITES = frozenset({"POST", "PATCH", "DELETE", "PUT"})


class Repeating(Client):
    """A watch sends every frame twice, and repeats older ones in between."""

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
    """A watch sometimes loses its next frame and sends 410 instead."""

    async def watch(self, *args: Any, **more: Any) -> AsyncGenerator[bytes, None]:
        async with aclosing(super().watch(*args, **more)) as frames:
            async for frame in frames:
                if _coin.random() < 0.5:
                    yield b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Gone"}}'
                yield frame


_coin = random.Random(5)


class Lagging(Client):
    """A watch lags: every write is stored long before the watch shows it."""

    async def watch(self, *args: Any, **more: Any) -> AsyncGenerator[bytes, None]:
        async with aclosing(super().watch(*args, **more)) as frames:
            async for frame in frames:
                await asyncio.sleep(0.03)
                yield frame


async def run_diamonds(world: Cluster, client: Client, flows: int = 5) -> None:
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


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", [Repeating, Breaking, Forgetting, Lagging])
async def test_a_faulty_watch_duplicates_and_delays_no_job(kind: type[Client]) -> None:
    async with cluster() as world:
        await run_diamonds(world, kind(anonymous(world.server.url)))
        assert world.count("POST", JOBS) == 25


def pick_writes(dice: random.Random, share: float) -> Any:
    """Pick a share of the writes of jobs and flow statuses."""

    def picks(request: Request) -> bool:
        matches = request.path.endswith("/jobs") or request.path.endswith("/status")
        matches = matches and "/jobs/" not in request.path
        return matches and request.method in WRITES and dice.random() < share

    return picks


@pytest.mark.sampled(2)
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
async def test_writes_that_fail_in_bursts_take_effect_once(fault: dict[str, Any]) -> None:
    async with cluster() as world:
        picks = pick_writes(random.Random(3), 0.3)
        injected = InjectedFault(picks, times=20, **fault)
        world.server.faults.append(injected)
        await run_diamonds(world, Client(anonymous(world.server.url)), flows=3)
        assert injected.times is not None
        assert injected.times <= 15


async def test_a_retry_waits_as_long_as_the_server_asks() -> None:
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
