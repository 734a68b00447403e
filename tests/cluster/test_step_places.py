"""Many flows that share the places of their steps on a real API server."""

import os
from collections import Counter
from pathlib import Path

import pytest

from jobflow.api.resources import JOBFLOWS, JOBTEMPLATES
from support.cluster.audit import Asked
from support.cluster.completing_driver import driven
from support.cluster.real_cluster import RealCluster
from support.cluster.release_checks import post
from support.cluster.served import Served
from support.sandbox.manifests import jobflow, template
from support.sandbox.places_held import step_places_held
from support.sandbox.servers import Server

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

FLOWS = int(os.environ.get("FLOWS", "60"))
"""CI has few of them; `FLOWS=1000` takes two minutes."""
LIMIT = 3


async def test_jobs_of_many_flows_start_once_in_order_and_few_at_once(
    real: RealCluster, api: Server, tmp_path: Path
) -> None:
    await post(real, JOBTEMPLATES.path(api.namespace), template("a"))
    names = [f"f{number:04}" for number in range(FLOWS)]
    for name in names:
        made = jobflow(name, {"a": []})
        made["spec"]["flows"][0]["concurrency"] = {"group": "g", "limit": LIMIT}
        await post(real, JOBFLOWS.path(api.namespace), made)
    async with await real.client() as client, step_places_held(client, api.namespace) as held:
        with Served(real, tmp_path, webhook=False).running():
            async with driven(real, api.namespace) as driver:
                await driver.until(lambda: driver.phases["Succeed"] == FLOWS, seconds=840)
    # a job is created after its place is stored, while other places may go from flow to flow
    for place, name in enumerate(held.started):
        # places that are taken at once are stored in any order
        assert abs(int(name[1:]) - place) < LIMIT, f"{name} got its place as number {place}"
    assert (len(held.started), held.most) == (FLOWS, LIMIT)
    assert real.audit.created("jobs", api.namespace) == Counter(f"{name}-a" for name in names)
    asked = [call for call in real.audit.asked(api.namespace) if call.writes]
    assert most_at_once(asked) <= LIMIT


def is_create(call: Asked) -> bool:
    return (call.verb, call.resource) == ("create", "jobs")


def most_at_once(writes: list[Asked]) -> int:
    """Return how many jobs were at most between their create and the last write of their status."""
    begun = {call.name: call.answered for call in writes if is_create(call)}
    ended = {call.name: call.came for call in writes if call.resource == "jobs/status"}
    changes = [(at, 1) for at in begun.values()] + [(at, -1) for at in ended.values()]
    now = most = 0
    for _, change in sorted(changes):
        now += change
        most = max(most, now)
    return most
