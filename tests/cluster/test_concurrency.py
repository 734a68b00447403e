"""One concurrency group with many flows on a real API server, while leaders are killed."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from jobflow.api.resources import JOBFLOWS, JOBTEMPLATES
from support.cluster.completing_driver import driven
from support.cluster.real_cluster import RealCluster
from support.cluster.release_checks import post
from support.cluster.served import Served
from support.sandbox.manifests import jobflow, template
from support.sandbox.places_held import places_held
from support.sandbox.servers import Server

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

MANY = 200
LIMIT = 3
STATUS_WRITES = 5
"""Most writes of the status of a flow of one step that has to wait: it waits, starts, its job is
there, it has ended, and one more for a conflict after a kill."""


def member(number: int) -> dict[str, Any]:
    concurrency = {"group": "g", "limit": LIMIT}
    return jobflow(f"f{number:03}", {"a": []}, concurrency=concurrency)


async def create_flows(real: RealCluster, namespace: str) -> None:
    await post(real, JOBTEMPLATES.path(namespace), template("a"))
    for number in range(MANY):
        await post(real, JOBFLOWS.path(namespace), member(number))


async def test_no_more_flows_run_than_the_limit_although_leaders_are_killed(
    real: RealCluster, api: Server, tmp_path: Path
) -> None:
    one = Served(real, tmp_path, webhook=False)
    other = Served(real, tmp_path, webhook=False, user="jobflow-2")
    await create_flows(real, api.namespace)
    async with await real.client() as client, places_held(client, api.namespace) as held:
        with one.running(), other.running():
            async with driven(real, api.namespace) as driver:
                for started in (MANY // 10, MANY // 3):
                    await driver.until(lambda started=started: len(held.started) >= started)
                    (leader,) = [each for each in (one, other) if each.metric("leader") == 1]
                    leader.kill()
                    assert driver.phases["Succeed"] < MANY, "killed too late"
                    await asyncio.to_thread(leader.start)
                await driver.until(lambda: driver.phases["Succeed"] == MANY, seconds=240)
    assert held.most <= LIMIT
    assert sorted(held.started) == [f"f{number:03}" for number in range(MANY)]
    calls = real.audit.asked(api.namespace)
    writes = [c for c in calls if (c.verb, c.resource) == ("patch", "jobflows/status")]
    print(f"status writes a flow, {MANY} in one group: {len(writes) / MANY:.1f}")
    assert len(writes) <= STATUS_WRITES * MANY
    assert len(real.audit.created("jobs", api.namespace)) == MANY
