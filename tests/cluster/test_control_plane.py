"""The control plane of these tests: users, audit log and restarts."""

import json

import pytest

from jobflow.api.resources import JOBFLOWS, PODS
from jobflow.kube.client import ApiError
from support.cluster.control_plane import API_SERVER, CONTROLLERS, ETCD
from support.cluster.real_cluster import RealCluster
from support.sandbox.rest_client import flow

pytestmark = pytest.mark.cluster


async def test_the_audit_log_has_the_writes_of_each_user(real: RealCluster) -> None:
    namespace = real.new_namespace("audit")
    async with await real.client("alice") as alice:
        await alice.create(JOBFLOWS, namespace, json.dumps(flow("f")).encode())
        dry = [("dryRun", "All")]
        await alice.create(JOBFLOWS, namespace, json.dumps(flow("g")).encode(), query=dry)
        with pytest.raises(ApiError, match='User "alice" cannot delete resource "pods"'):
            await alice.delete(PODS, namespace, "p")
    assert real.audit.writes(namespace) == {"create jobflows": 1}
    assert real.audit.created("jobflows", namespace) == {"f": 1}
    denied = [call for call in real.audit.denied("alice") if call.namespace == namespace]
    assert [(call.verb, call.resource, call.code) for call in denied] == [("delete", "pods", 403)]
    assert real.audit.asked(namespace, user="jobflow") == []


@pytest.mark.parametrize("hard", [False, True], ids=["stopped", "killed"])
def test_a_restarted_control_plane_has_its_objects(real: RealCluster, hard: bool) -> None:
    namespace = real.new_namespace("back")
    path = JOBFLOWS.path(namespace)
    real.admin.post(path, json=flow("f")).raise_for_status()
    for name in (CONTROLLERS, API_SERVER, ETCD):
        real.plane.end(name, hard=hard)
    real.plane.start_etcd()
    real.plane.start_api_server()
    real.plane.start_controllers()
    assert real.admin.get(f"{path}/f").json()["kind"] == "JobFlow"
