"""etcd is restored from a snapshot while replicas run: flows go on from what the snapshot holds."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.cluster.completing_driver import create_diamonds, driven
from support.cluster.real_cluster import RealCluster
from support.cluster.served import Served, until
from support.sandbox.manifests import DIAMOND
from support.sandbox.servers import Server

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

FLOWS = 60


@pytest.fixture
def replicas(real: RealCluster, tmp_path: Path) -> Iterator[list[Served]]:
    found = [
        Served(real, tmp_path, "--max-copy-age=6s", user=user, webhook=False)
        for user in ("jobflow", "jobflow-2")
    ]
    with ExitStack() as stack:
        for each in found:
            stack.enter_context(each.running())
        yield found


@pytest.mark.parametrize(
    "options", [(), ("--bump-revision=1000000", "--mark-compacted")], ids=["plain", "bumped"]
)
async def test_flows_continue_after_a_restore(
    real: RealCluster, api: Server, replicas: list[Served], options: tuple[str, ...]
) -> None:
    async with driven(real, api.namespace) as driver:
        await create_diamonds(api, FLOWS)
        await driver.until(lambda: len(driver.jobs) > FLOWS)
        snapshot = await asyncio.to_thread(real.plane.snapshot)
        assert driver.phases["Succeed"] < FLOWS, "ended too late"
        await driver.until_ended(FLOWS)
    await asyncio.to_thread(real.plane.restore, snapshot, *options)
    async with driven(real, api.namespace) as driver:
        await driver.until(lambda: len(driver.flows) == FLOWS)
        await driver.until_ended(FLOWS)
        assert driver.phases == {"Succeed": FLOWS}
        assert len(driver.jobs) == len(DIAMOND) * FLOWS
    for each in replicas:
        await until(each.ready)
        assert "the API server went back in time" in each.log()
