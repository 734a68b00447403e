"""Elections on the sandbox's API server: the leader, the Lease, and the ends of terms."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from jobflow.api.resources import JOBS, LEASES
from jobflow.kube.client import Client
from jobflow.kube.connections import CONNECTIONS
from jobflow.kube.election.candidate import Timing
from jobflow.kube.election.election import Election, NotLeading
from jobflow.sandbox.apiserver.requests.failures import failure
from support.network.anonymous import anonymous
from support.sandbox.api_server import InjectedFault
from support.sandbox.running_controller import Cluster, cluster
from support.time.alongside import until

QUICK = Timing(lease=1, renew=0.5, retry=0.05, look=0.02)
WITHIN_SECONDS = 20
Work = Callable[[Client, asyncio.Event], Awaitable[None]]


@pytest.fixture
async def world() -> AsyncIterator[Cluster]:
    async with cluster() as world:
        yield world


async def until_ending(client: Client, ending: asyncio.Event) -> None:
    await ending.wait()


class Replica:
    """A replica with its own election, and the changes that it reported."""

    def __init__(self, world: Cluster, name: str, work: Work = until_ending) -> None:
        self.changes: list[bool] = []
        self.election = Election(
            world.client,
            work,
            namespace="default",
            identity=name,
            timing=QUICK,
            on_change=self.changes.append,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Task[None]]:
        task = asyncio.create_task(self.election.run())
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def until(self, leads: bool) -> None:
        await until(lambda: self.election.leads == leads)

    async def ended(self, task: asyncio.Task[None]) -> None:
        self.election.stopping.set()
        async with asyncio.timeout(WITHIN_SECONDS):
            await task


async def lease(world: Cluster) -> dict[str, Any]:
    (found,) = await world.raw(LEASES)
    spec: dict[str, Any] = found["spec"]
    return spec


async def test_one_of_two_replicas_leads_and_the_lease_names_it(world: Cluster) -> None:
    one, other = Replica(world, "one"), Replica(world, "other")
    async with one.running():
        await one.until(leads=True)
        async with other.running() as task:
            spec = await lease(world)
            assert spec["holderIdentity"] == "one"
            assert spec["leaseDurationSeconds"] == QUICK.lease
            assert spec["leaseTransitions"] == 0
            await other.ended(task)
    assert other.changes == []
    assert (await lease(world))["holderIdentity"] == "one"


async def test_a_term_ends_without_renewal_and_another_can_start(world: Cluster) -> None:
    clients: list[Client] = []

    async def keep(client: Client, ending: asyncio.Event) -> None:
        clients.append(client)
        await ending.wait()

    one = Replica(world, "one", keep)
    async with one.running():
        await one.until(leads=True)
        no_quorum = failure(500, "InternalError", "no quorum")
        fault = world.fails("", "/leases/jobflow", no_quorum, times=None)
        await one.until(leads=False)
        with pytest.raises(NotLeading):
            await clients[0].create(JOBS, "default", b"{}")
        world.server.faults.remove(fault)
        await one.until(leads=True)
    assert one.changes[:3] == [True, False, True]
    assert len(clients) == 2
    assert (await lease(world))["leaseTransitions"] == 0


async def test_the_lease_does_not_wait_for_busy_connections(world: Cluster) -> None:
    """More watches than a client has connections, like slow reads."""

    async def keep_busy() -> None:
        async for _ in world.client.watch(JOBS, resource_version="1"):
            pass

    watching = [asyncio.create_task(keep_busy()) for _ in range(CONNECTIONS + 1)]
    one = Replica(world, "one")
    try:
        async with one.running() as task:
            await one.until(leads=True)
            await one.ended(task)
    finally:
        for watcher in watching:
            watcher.cancel()
        await asyncio.wait(watching)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after it was stored"])
async def test_a_claim_without_an_answer_is_read_back(world: Cluster, after: bool) -> None:
    world.server.faults.append(
        InjectedFault(
            lambda request: request.method == "POST" and "leases" in request.path, after=after
        )
    )
    one = Replica(world, "one")
    async with one.running():
        await one.until(leads=True)
    assert (await lease(world))["holderIdentity"] == "one"


async def test_an_error_of_the_work_is_raised_and_the_lease_is_released(world: Cluster) -> None:
    async def die(client: Client, ending: asyncio.Event) -> None:
        raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        await Replica(world, "one", die).election.run()
    assert "holderIdentity" not in await lease(world)


async def test_a_leader_without_work_ends_and_the_lease_is_released(world: Cluster) -> None:
    async def nothing(client: Client, ending: asyncio.Event) -> None:
        return None

    one = Replica(world, "one", nothing)
    await one.election.run()
    assert one.changes == [True, False]
    assert "holderIdentity" not in await lease(world)


async def test_work_in_progress_is_finished_before_the_lease_is_released(world: Cluster) -> None:
    holders: list[str] = []

    async def slow(client: Client, ending: asyncio.Event) -> None:
        await ending.wait()
        for _ in range(3):
            await asyncio.sleep(0.1)
            holders.append((await lease(world))["holderIdentity"])

    one = Replica(world, "one", slow)
    async with one.running() as task:
        await one.until(leads=True)
        await one.ended(task)
    assert holders == ["one"] * 3
    assert "holderIdentity" not in await lease(world)


async def test_a_failed_release_of_the_lease_does_not_delay_the_end(world: Cluster) -> None:
    one = Replica(world, "one")
    async with one.running() as task:
        await one.until(leads=True)
        unavailable = failure(503, "Unavailable", "gone fishing")
        world.fails("", "/leases/jobflow", unavailable, times=None)
        await one.ended(task)


async def test_every_process_has_its_own_identity() -> None:
    async with Client(anonymous("http://127.0.0.1:1")) as client:
        one, other = (Election(client, until_ending, namespace="default") for _ in range(2))
        assert one.identity != other.identity
