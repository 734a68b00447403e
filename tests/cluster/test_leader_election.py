"""Two replicas on a real API server: the leader is stopped, killed, frozen or cut off."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from jobflow.api.resources import LEASES
from jobflow.kube.election.candidate import Timing
from support.cluster.audit import Asked
from support.cluster.completing_driver import Driven, assert_created_once, create_diamonds, driven
from support.cluster.kubectl import Kubectl
from support.cluster.real_cluster import RealCluster
from support.cluster.served import Served, until
from support.network.cut_connection import Hop
from support.sandbox.servers import Server

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

FLOWS = 30
MORE = 10
"""Flows that are created after the end of the leader."""
HAND_OVER_SECONDS = 2.0
SLACK_SECONDS = 5.0
"""Reserve for a busy machine."""
ONE, OTHER = "jobflow", "jobflow-2"


class Pair:
    """Two replicas. The first leads, through a connection that can be cut."""

    def __init__(self, real: RealCluster, api: Server, hop: Hop, home: Path) -> None:
        self.real, self.api, self.hop = real, api, hop
        flags = ("--system-namespace", api.namespace)
        kubeconfig = real.plane.kubeconfig(ONE, through=hop.url)
        self.one = Served(real, home, *flags, user=ONE, webhook=False, kubeconfig=kubeconfig)
        self.other = Served(real, home, *flags, user=OTHER, webhook=False)

    async def begin(self, driver: Driven) -> None:
        await asyncio.to_thread(self.one.start)
        await until(lambda: self.one.metric("leader") == 1)
        await asyncio.to_thread(self.other.start)
        await create_diamonds(self.api, FLOWS)
        await driver.until(lambda: len(driver.jobs) >= FLOWS)

    async def finish(self, driver: Driven) -> None:
        await until(lambda: self.other.metric("leader") == 1)
        await create_diamonds(self.api, MORE, first=FLOWS)
        await driver.until_ended(FLOWS + MORE)
        assert driver.phases == {"Succeed": FLOWS + MORE}
        await asyncio.to_thread(assert_created_once, self.real, driver, FLOWS + MORE)

    async def spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = (
            await self.api.get(LEASES.path(self.api.namespace, "jobflow"))
        ).json["spec"]
        return spec

    def first_claim(self) -> Asked:
        return next(call for call in self.asked(OTHER, "leases") if call.writes)

    def asked(self, user: str, *resources: str) -> list[Asked]:
        requests = self.real.audit.asked(self.api.namespace, user=user)
        return [call for call in requests if not resources or call.resource in resources]

    def writes(self, user: str) -> list[Asked]:
        return [call for call in self.asked(user) if call.writes and call.resource != "leases"]

    def assert_one_wrote_at_a_time(self) -> None:
        taken = self.first_claim().came
        ones, others = self.writes(ONE), self.writes(OTHER)
        assert ones, "the first wrote nothing"
        assert max(call.answered for call in ones) < taken < min(call.came for call in others)


@pytest_asyncio.fixture
async def pair(real: RealCluster, api: Server, tmp_path: Path) -> AsyncIterator[Pair]:
    async with Hop(real.plane) as hop:
        pair = Pair(real, api, hop, tmp_path)
        try:
            yield pair
        finally:
            for replica in (pair.one, pair.other):
                if replica._process is not None:
                    await asyncio.to_thread(replica.kill)


@pytest_asyncio.fixture
async def driver(real: RealCluster, api: Server) -> AsyncIterator[Driven]:
    async with AsyncExitStack() as stack:
        yield await stack.enter_async_context(driven(real, api.namespace))


def seconds(earlier: datetime, later: datetime) -> float:
    return (later - earlier).total_seconds()


async def test_a_leader_that_is_stopped_is_replaced_at_once(pair: Pair, driver: Driven) -> None:
    await pair.begin(driver)
    await asyncio.to_thread(pair.one.stop)
    await pair.finish(driver)
    await asyncio.to_thread(pair.assert_one_wrote_at_a_time)
    last = await asyncio.to_thread(lambda: pair.writes(ONE)[-1].answered)
    gap = seconds(last, (await asyncio.to_thread(lambda: pair.writes(OTHER)[0])).came)
    print(f"hand-over on SIGTERM: {gap:.2f} s from the last write of one to the other's first")
    assert gap < HAND_OVER_SECONDS
    await asyncio.to_thread(pair.other.stop)
    assert "holderIdentity" not in await pair.spec()


@pytest.mark.kubectl
async def test_a_leader_that_is_killed_is_replaced_within_the_lease(
    pair: Pair, driver: Driven, real: RealCluster, tmp_path: Path
) -> None:
    await pair.begin(driver)
    await asyncio.to_thread(pair.one.kill)
    await pair.finish(driver)
    last = await asyncio.to_thread(lambda: pair.asked(ONE, "leases")[-1])
    claim = (await asyncio.to_thread(pair.first_claim)).came
    least, gap = seconds(last.came, claim), seconds(last.answered, claim)
    print(f"takeover after kill -9: {gap:.2f} s from the last renewal to the claim")
    # stored between the two times, because a busy server answers late
    assert Timing().lease <= least
    assert gap < Timing().lease + Timing().look + SLACK_SECONDS
    spec = await pair.spec()
    assert spec["leaseTransitions"] == 1
    kubectl = Kubectl(real.plane.kubeconfig("admin"), tmp_path)
    printed = await asyncio.to_thread(kubectl, "get", "lease", "jobflow", "-n", pair.api.namespace)
    assert spec["holderIdentity"] in str(printed)


@pytest.mark.parametrize("frozen", [False, True], ids=["cut off", "frozen"])
async def test_a_leader_that_cannot_renew_stops_before_another_writes(
    pair: Pair, driver: Driven, frozen: bool
) -> None:
    await pair.begin(driver)
    if frozen:
        pair.one.freeze()
    else:
        pair.hop.go_dark()
        await until(lambda: pair.one.metric("leader") == 0)
        assert pair.other.metric("leader") == 0
    await until(lambda: pair.other.metric("leader") == 1)
    pair.one.thaw() if frozen else pair.hop.light_up()
    await until(lambda: pair.one.metric("leader") == 0)
    await pair.finish(driver)
    await asyncio.to_thread(pair.assert_one_wrote_at_a_time)
    for replica in (pair.one, pair.other):
        await asyncio.to_thread(replica.stop)
