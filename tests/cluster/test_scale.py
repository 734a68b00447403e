"""Many flows on a real API server: requests, killed leaders, deleted namespaces."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from jobflow.api.resources import VALIDATING_WEBHOOKS
from support.cluster.completing_driver import (
    all_jobs,
    assert_created_once,
    create_diamonds,
    driven,
    writes_per_flow,
)
from support.cluster.kubectl import Kubectl
from support.cluster.real_cluster import RealCluster
from support.cluster.rendered_chart import Rendered
from support.cluster.served import Served
from support.sandbox.manifests import DIAMOND
from support.sandbox.servers import Server

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

MANY = 100
STATUS_WRITES = 6
"""Maximum writes of the status of a five-step flow whose vcjobs complete at once."""


async def test_each_of_many_flows_needs_few_writes(
    real: RealCluster, api: Server, tmp_path: Path
) -> None:
    with Served(real, tmp_path, webhook=False).running():
        async with driven(real, api.namespace) as driver:
            await create_diamonds(api, MANY)
            await driver.until_ended(MANY)
            assert driver.phases == {"Succeed": MANY}
    writes = writes_per_flow(real, api.namespace, MANY)
    print(f"API writes a five-step flow, {MANY} at once:", writes)
    assert writes["create jobs"] == len(DIAMOND)
    assert writes["patch jobflows/status"] <= STATUS_WRITES
    assert writes["create events"] <= 3 * len(DIAMOND)
    lists = writes.pop("patch jobtemplates/status", 0)  # at most one in 30 s a template
    assert lists <= 0.2
    assert writes.keys() <= {"create jobs", "patch jobflows/status", "create events"}
    assert real.audit.created("jobs", api.namespace) == all_jobs(MANY)


async def test_no_job_runs_twice_although_two_leaders_are_killed(
    real: RealCluster, api: Server, tmp_path: Path
) -> None:
    one = Served(real, tmp_path, webhook=False)
    other = Served(real, tmp_path, webhook=False, user="jobflow-2")
    with one.running(), other.running():
        async with driven(real, api.namespace) as driver:
            await create_diamonds(api, MANY)
            for jobs in (MANY, 3 * MANY):
                await driver.until(lambda jobs=jobs: len(driver.jobs) >= jobs)
                leader = await asyncio.to_thread(leader_of, one, other)
                leader.kill()
                assert driver.phases["Succeed"] < MANY, "killed too late"
                await asyncio.to_thread(leader.start)
            await driver.until_ended(MANY)
            assert driver.phases == {"Succeed": MANY}
            await asyncio.to_thread(assert_created_once, real, driver, MANY)
    writes = writes_per_flow(real, api.namespace, MANY)
    print("API writes a five-step flow, two leaders killed:", writes)


def leader_of(*replicas: Served) -> Served:
    (leader,) = [replica for replica in replicas if replica.metric("leader") == 1]
    return leader


@contextmanager
def installed(real: RealCluster, served: Served) -> Iterator[None]:
    ca = {"mode": "files", "secretName": "unused", "caBundle": served.ca.decode()}
    values: dict[str, Any] = {"webhook": {"url": served.webhook_url}, "certificates": ca}
    configuration = Rendered(values).one("ValidatingWebhookConfiguration")
    path = VALIDATING_WEBHOOKS.path()
    real.admin.post(path, json=configuration).raise_for_status()
    try:
        yield
    finally:
        real.admin.delete(f"{path}/{configuration['metadata']['name']}").raise_for_status()


@pytest.mark.kubectl
@pytest.mark.parametrize("down", [False, True], ids=["up", "down"])
async def test_a_namespace_is_deleted_with_its_running_flows(
    real: RealCluster, api: Server, tmp_path: Path, down: bool
) -> None:
    serve = Served(real, tmp_path)
    flows = 20
    with serve.running(), installed(real, serve):
        async with driven(real, api.namespace) as driver:
            await create_diamonds(api, flows)
            await driver.until(lambda: len(driver.jobs) > flows)
            driver.completes = False
            if down:
                await asyncio.to_thread(serve.kill)
            assert sum(flow.final for flow in driver.flows) < flows, "none was running any more"
            kubectl = Kubectl(real.plane.kubeconfig("admin"), tmp_path)
            await asyncio.to_thread(kubectl, "delete", "namespace", api.namespace, "--timeout=60s")
        assert (await api.get(api.home)).code == 404
    created = real.audit.created("jobs", api.namespace)
    assert set(created.values()) == {1}
