"""The chart installed, upgraded and uninstalled by Helm on a real API server."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from jobflow.api.resources import CRDS, JOBFLOWS
from support.cluster.real_cluster import RealCluster, object_schema
from support.cluster.release import NAME, Release, release
from support.cluster.release_checks import apply_diamond, delete, get, phase, post, succeeds, until
from support.sandbox.manifests import jobflow
from support.sandbox.volcano_world import volcano

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

MERGE = {"Content-Type": "application/merge-patch+json"}
DEFINITIONS = (
    "jobflows.flow.volcano.sh",
    "jobtemplates.flow.volcano.sh",
    "cronjobflows.flow.volcano.sh",
)
TEXT = {"type": "string"}
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
DEPENDS_ON = object_schema(targets={"type": "array", "items": TEXT})
STEP = object_schema(name=TEXT, dependsOn=DEPENDS_ON) | {"required": ["name"]}
VOLCANOS_SCHEMA = object_schema(
    spec=object_schema(jobRetainPolicy=TEXT, flows={"type": "array", "items": STEP}),
    status=ANYTHING,
)
"""A part of Volcano's own definition of JobFlow."""


@pytest_asyncio.fixture
async def pending(bare: RealCluster, home: str, tmp_path: Path) -> AsyncIterator[Release]:
    """A release that is not installed yet, and is uninstalled at the end of the test."""
    async with release(bare, home, tmp_path) as ready:
        yield ready
        await ready.remove()


async def forget_definitions(bare: RealCluster) -> None:
    """Remove everything that was installed; flows are deleted with their definitions."""
    for name in DEFINITIONS:
        bare.admin.delete(CRDS.path("", name))
    for name in DEFINITIONS:
        await until(bare, CRDS.path("", name), lambda found: found is None)


async def test_a_release_from_install_to_uninstall(bare: RealCluster, pending: Release) -> None:
    await forget_definitions(bare)
    released = await pending.install()
    assert released["status"] == "deployed"
    ready = [pod for pod in pending.kubelet.pods.values() if pod.ready]
    assert len(ready) == 2
    budget = get(
        bare, f"/apis/policy/v1/namespaces/{pending.namespace}/poddisruptionbudgets/{NAME}"
    )
    assert budget["status"]["disruptionsAllowed"] == 1
    namespace = bare.new_namespace("flows")
    refused = await post(bare, JOBFLOWS.path(namespace), jobflow("wrong", {"a": ["nowhere"]}))
    assert (refused["code"], refused["reason"]) == (422, "Invalid")
    assert 'spec.flows[0].dependsOn.targets[0]: Invalid value: "nowhere"' in refused["message"]
    async with volcano(await bare.client(), speed=10):
        before = await apply_diamond(bare, namespace, "before")
        await succeeds(bare, before)
        running = await apply_diamond(bare, namespace, "during", "20s")
        await until(bare, running, lambda flow: phase(flow) == "Running")
        upgraded = await pending.upgrade(podAnnotations={"changed": "yes"})
        assert upgraded["revision"] == 2
        new = [pod for pod in pending.kubelet.pods.values() if pod.ready and pod not in ready]
        assert [pod.manifest["metadata"]["annotations"] for pod in new] == [{"changed": "yes"}] * 2
        await succeeds(bare, running)
    assert all(pod.code == 0 for pod in pending.kubelet.ended), [
        pod.log for pod in pending.kubelet.ended if pod.code
    ]
    await pending.uninstall()
    assert [phase(get(bare, flow)) for flow in (before, running)] == ["Succeed", "Succeed"]
    assert get(bare, f"/apis/apps/v1/namespaces/{pending.namespace}/deployments/{NAME}") is None
    # no object of the release prevents flows after it
    assert (await post(bare, JOBFLOWS.path(namespace), jobflow("after", {"a": []})))["kind"]


async def test_definitions_of_volcano_are_replaced(bare: RealCluster, pending: Release) -> None:
    await forget_definitions(bare)
    apply_definitions_of_volcano(bare)
    namespace = bare.new_namespace("volcanos")
    path = JOBFLOWS.path(namespace)
    bare._await_served(path)
    posted = await post(bare, path, jobflow("old", {"a": [], "b": ["a"]}, jobRetainPolicy="retain"))
    status = {"state": {"phase": "Succeed"}, "completedJobs": ["old-a", "old-b"]}
    bare.admin.patch(f"{path}/old/status", json={"status": status}, headers=MERGE)
    await pending.install()
    old = get(bare, f"{path}/old")
    assert (old["spec"], old["status"]) == (posted["spec"], status)
    assert old["metadata"]["uid"] == posted["metadata"]["uid"]
    definition = get(bare, CRDS.path("", DEFINITIONS[0]))
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert "progress" in schema["properties"]["status"]["properties"]
    assert definition["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    new = jobflow("new", {"a": []})
    new["spec"]["flows"][0]["patch"] = {"spec": {"maxRetry": 1}}
    stored = await post(bare, path, new)
    assert stored["spec"]["flows"][0]["patch"] == {"spec": {"maxRetry": 1}}


def apply_definitions_of_volcano(bare: RealCluster) -> None:
    """Apply the definitions as Volcano's chart does."""
    for kind in ("JobFlow", "JobTemplate", "CronJobFlow"):
        plural = f"{kind.lower()}s"
        names = {
            "kind": kind,
            "listKind": f"{kind}List",
            "plural": plural,
            "singular": kind.lower(),
            "shortNames": [{"JobFlow": "jf", "JobTemplate": "jt", "CronJobFlow": "cjf"}[kind]],
        }
        version = {
            "name": "v1alpha1",
            "served": True,
            "storage": True,
            "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": VOLCANOS_SCHEMA if kind == "JobFlow" else ANYTHING},
        }
        manifest = {
            "apiVersion": CRDS.api_version,
            "kind": CRDS.kind,
            "metadata": {
                "name": f"{plural}.flow.volcano.sh",
                "annotations": {
                    "helm.sh/resource-policy": "keep",
                    "meta.helm.sh/release-name": "volcano",
                    "meta.helm.sh/release-namespace": "volcano-system",
                },
                "labels": {"app.kubernetes.io/managed-by": "Helm"},
            },
            "spec": {
                "group": "flow.volcano.sh",
                "names": names,
                "scope": "Namespaced",
                "versions": [version],
            },
        }
        answer = bare.admin.patch(
            CRDS.path("", manifest["metadata"]["name"]),
            params={"fieldManager": "helm"},
            content=json.dumps(manifest),
            headers={"Content-Type": "application/apply-patch+yaml"},
        )
        assert answer.is_success, answer.text


async def test_a_namespace_is_deleted_without_replicas(bare: RealCluster, pending: Release) -> None:
    await pending.install()
    namespace = bare.new_namespace("going")
    flow = await apply_diamond(bare, namespace, "held", "1h")
    async with volcano(await bare.client(), speed=10):
        await until(bare, flow, lambda flow: phase(flow) == "Running")
    await pending.upgrade(replicas=0)
    await pending.kubelet.idle()
    refused = await delete(bare, flow)
    assert refused["code"] == 500 and "failed calling webhook" in refused["message"]
    bare.admin.delete(f"/api/v1/namespaces/{namespace}").raise_for_status()
    for pods in bare.admin.get(f"/api/v1/namespaces/{namespace}/pods").json()["items"]:
        path = f"/api/v1/namespaces/{namespace}/pods/{pods['metadata']['name']}"
        bare.admin.request("DELETE", path, json={"gracePeriodSeconds": 0})
    await until(bare, f"/api/v1/namespaces/{namespace}", lambda found: found is None)


async def test_editors_of_a_namespace_can_edit_flows(bare: RealCluster, pending: Release) -> None:
    await pending.install()
    for role, verb in (("view", "get"), ("edit", "create"), ("admin", "delete")):
        path = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{role}"

        def allows(found: Any, verb: str = verb) -> bool:
            return any(
                "jobflows" in rule.get("resources", ()) and verb in rule["verbs"]
                for rule in found["rules"]
            )

        await until(bare, path, allows)
