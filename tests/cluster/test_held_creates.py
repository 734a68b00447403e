"""A namespace without quota, and an account without rights, on a real API server."""

import asyncio

import pytest

from jobflow.api.resources import JOBS
from jobflow.kube.client import ApiError
from support.cluster.kubectl import Kubectl
from support.cluster.real_cluster import RealCluster
from support.cluster.release_checks import state
from support.cluster.served import Served
from support.sandbox.manifests import as_list, jobflow, template
from support.sandbox.servers import Server
from support.sandbox.volcano_world import volcano

pytestmark = [pytest.mark.cluster, pytest.mark.kubectl]
COUNT = "count/jobs.batch.volcano.sh"


def quota(real: RealCluster, namespace: str, most: int) -> None:
    """Give the namespace a quota of this many vcjobs, as the quota controller would count them."""
    path, hard = f"/api/v1/namespaces/{namespace}/resourcequotas", {COUNT: str(most)}
    real.admin.post(path, json={"metadata": {"name": "q"}, "spec": {"hard": hard}})
    found = real.admin.get(f"{path}/q").raise_for_status().json()
    changed = found | {"spec": {"hard": hard}}
    found = real.admin.put(f"{path}/q", json=changed).raise_for_status().json()
    with_usage = found | {"status": {"hard": hard, "used": {COUNT: "0"}}}
    real.admin.put(f"{path}/q/status", json=with_usage).raise_for_status()


async def test_one_job_is_tried_until_a_full_quota_is_lifted(
    real: RealCluster, api: Server, served: Served, kubectl: Kubectl
) -> None:
    quota(real, api.namespace, 0)
    flow = jobflow("f", {})
    flow["spec"]["flows"] = [{"name": "a", "forEach": {"count": 40}}]
    objects = as_list(template("a", duration="50ms"), flow)

    async with volcano(await real.client("volcano")):
        await asyncio.to_thread(kubectl, "-n", api.namespace, "apply", "-f", "-", stdin=objects)
        waiting = state(await api.until(f"{api.flows}/f", lambda found: state(found).get("reason")))
        assert waiting["reason"] == "CreateRefused"
        assert waiting["message"].startswith("step a: exceeded quota: q, requested: ")
        asked = real.audit.asked(api.namespace, user="jobflow")
        creates = [call for call in asked if (call.verb, call.resource) == ("create", "jobs")]
        assert {call.code for call in creates} == {403}
        assert len(creates) <= 8
        quota(real, api.namespace, 100)
        await api.until(f"{api.flows}/f", lambda found: state(found).get("phase") == "Succeed")
    assert len(real.audit.created("jobs", api.namespace)) == 40


async def test_a_missing_right_is_recognized_by_its_message(real: RealCluster, api: Server) -> None:
    async with await real.client("volcano") as client:
        body = b'{"apiVersion":"batch.volcano.sh/v1alpha1","kind":"Job","metadata":{"name":"j"}}'
        with pytest.raises(ApiError) as info:
            await client.create(JOBS, api.namespace, body)
    assert info.value.for_the_namespace.startswith('User "volcano" cannot create resource "jobs"')
