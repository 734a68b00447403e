"""Unexpected errors of a plan's requests: `apply` returns when all requests have ended."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from jobflow.api.flow.status import FlowState, JobFlowStatus
from jobflow.controller.apply.requests import STATUS, Applied, request_of
from jobflow.core.planning.actions import DeleteFlow, ReadJob, ReadPods
from support.sandbox.applier_world import World

RUNNING = JobFlowStatus(state=FlowState(phase="Running"))


class Requests:
    def __init__(self, world: World, **instead: Callable[[], Awaitable[bytes]]) -> None:
        self.ended: list[str] = []
        self._send = world.cluster.client.request
        self._instead = instead
        world.cluster.client.request = self  # type: ignore[method-assign,assignment]

    async def __call__(self, method: str, path: str, **more: Any) -> bytes:
        name = path.rsplit("/", 1)[-1]
        try:
            if name in self._instead:
                return await self._instead[name]()
            return await self._send(method, path, **more)
        finally:
            self.ended.append(name)


async def fail() -> bytes:
    raise ValueError("what a decoder says of an odd answer")


async def cancel() -> bytes:
    raise asyncio.CancelledError("the connections are being closed")


async def slow() -> bytes:
    await asyncio.sleep(30)
    return b"{}"


@pytest.mark.parametrize("error", [fail, cancel])
async def test_an_error_waits_for_the_other_requests_and_is_in_the_result(
    world: World, error: Callable[[], Awaitable[bytes]]
) -> None:
    requests = Requests(world, jobs=error, status=slow)
    applied = await world.apply(world.create(), status=RUNNING)
    assert requests.ended == ["jobs", "status"]
    assert len(applied.errors) == 1
    assert applied.failed == {"CreateJob f-a"}
    assert applied.status_written


@pytest.mark.parametrize("error", [fail, cancel])
async def test_one_request_can_fail(world: World, error: Callable[[], Awaitable[bytes]]) -> None:
    Requests(world, jobs=error)
    applied = await world.apply(world.create())
    assert len(applied.errors) == 1
    assert applied.failed == {"CreateJob f-a"}


async def test_requests_that_succeeded_are_not_among_the_failed(world: World) -> None:
    Requests(world, status=fail)
    applied = await world.apply(world.create(), ReadJob("f-b"), status=RUNNING)
    assert (applied.failed, applied.again) == ({STATUS}, True)


@pytest.mark.parametrize("also", [False, True], ids=["alone", "among others"])
async def test_a_cancelled_plan_cancels_all_its_requests(world: World, also: bool) -> None:
    requests = Requests(world, jobs=slow, status=slow)
    applying = asyncio.create_task(world.apply(world.create(), status=RUNNING if also else None))
    await asyncio.sleep(1)
    applying.cancel()
    await asyncio.wait([applying])
    assert applying.cancelled()
    assert sorted(requests.ended) == (["jobs", "status"] if also else ["jobs"])


async def test_a_repeated_request_keeps_its_name(world: World) -> None:
    actions = [ReadJob("f-a"), ReadPods("f-a", "uid-a"), DeleteFlow("uid-f"), world.create()]
    names = ["ReadJob f-a", "ReadPods uid-a", "DeleteFlow uid-f", "CreateJob f-a"]
    assert [request_of(action) for action in actions] == names
    assert await world.apply() == Applied()
