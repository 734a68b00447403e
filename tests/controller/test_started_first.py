"""Flows that have started go on before others start, and none waits for ever.

The order of creates shows it: the controller has few places for writes, and finds all flows when it
starts.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from jobflow.api.resources import JOBS
from jobflow.controller.reconciler import is_unstarted
from jobflow.kube import write_order
from jobflow.kube.client import Client
from support.network.anonymous import anonymous
from support.sandbox.child_flows import create_child
from support.sandbox.running_controller import Cluster, flow, set_phase, template
from support.time.alongside import until


class Creates(Client):
    """A client that keeps the names of the vcjobs that it creates, in their order. They are sent
    while `go` is set."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.names: list[str] = []
        self.go = asyncio.Event()
        self.go.set()

    async def request(self, method: str, path: str, **options: Any) -> bytes:
        if method == "POST" and path.endswith(f"/{JOBS.plural}"):
            self.names.append(json.loads(options["body"])["metadata"]["name"])
            await self.go.wait()
        return await super().request(method, path, **options)


@pytest.fixture
async def creates(world: Cluster) -> AsyncIterator[Creates]:
    async with Creates(anonymous(world.server.url)) as client:
        yield client


@pytest.fixture(autouse=True)
def few_places(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FIRST_PLACES", "MOST_PLACES"):
        monkeypatch.setattr(write_order, name, write_order.LEAST_PLACES)


async def started(
    world: Cluster, name: str, steps: dict[str, str], *, completes: bool = True
) -> None:
    """Start a flow. Its first step, `a`, completes while no controller runs, if `completes`."""
    await world.apply(*map(template, steps), flow(name, steps))
    async with world.controller():
        await world.until(name, lambda flow: flow.status.start_time is not None)
        await world.until_jobs(**{f"{name}_a": ""})
    if completes:
        await set_phase(world.client, f"{name}-a", "Completed")


@pytest.mark.long
async def test_a_hand_over_comes_before_the_starts_of_others(
    world: Cluster, creates: Creates
) -> None:
    await started(world, "old", {"a": "", "b": "a"})
    await world.apply(*(flow(f"a{number:02}", {"a": ""}) for number in range(40)))
    async with world.controller(creates):
        await until(lambda: len(creates.names) == 41)
    assert "old-b" in creates.names[:2]


@pytest.mark.long
async def test_a_hand_over_comes_before_starts_that_wait_already(
    world: Cluster, creates: Creates
) -> None:
    await started(world, "old", {"a": "", "b": "a"}, completes=False)
    await world.apply(*(flow(f"a{number:02}", {"a": ""}) for number in range(40)))
    creates.go.clear()
    async with world.controller(creates):
        await until(lambda: len(creates.names) == write_order.LEAST_PLACES)
        await set_phase(world.client, "old-a", "Completed")
        await asyncio.sleep(write_order.PATIENCE_SECONDS / 2)
        creates.go.set()
        await until(lambda: len(creates.names) == 41)
    assert "old-b" in creates.names[: write_order.LEAST_PLACES + 2]


async def test_a_flow_starts_while_another_has_much_to_create(
    world: Cluster, creates: Creates
) -> None:
    parallel = {f"b{number:02}": "a" for number in range(60)}
    await started(world, "old", {"a": ""} | parallel)
    await world.apply(flow("new", {"a": ""}))
    async with world.controller(creates):
        await until(lambda: len(creates.names) == 61)
    assert "new-a" in creates.names[:5]


async def test_a_child_flow_is_a_part_of_a_flow_that_has_started(world: Cluster) -> None:
    await world.apply(flow("f", {"a": ""}))
    child = await create_child(world, "f", "a")
    assert is_unstarted(await world.flow("f"))
    assert not is_unstarted(await world.flow(child))
