"""A real API server accepts every object of the chart, with strict field validation."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.cluster.real_cluster import RealCluster
from support.cluster.rendered_chart import CHART, NAMESPACE, VALUES, Rendered

pytestmark = pytest.mark.cluster

OTHERS = ("cert-manager.io/", "monitoring.coreos.com/")
"""Groups whose kinds this server does not have."""


def collection(manifest: dict[str, Any]) -> str:
    version, namespace = manifest["apiVersion"], manifest["metadata"].get("namespace")
    plural = f"{manifest['kind'].lower()}s".replace("policys", "policies")
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"


def messages_of(bare: RealCluster, manifests: list[dict[str, Any]]) -> list[str]:
    messages = []
    for manifest in manifests:
        answer = bare.admin.post(
            collection(manifest),
            params={"dryRun": "All", "fieldValidation": "Strict"},
            content=json.dumps(manifest),
        )
        if answer.status_code != 201:
            messages.append(f"{manifest['kind']}: {answer.text}")
        messages += [f"{manifest['kind']}: {value}" for value in answer.headers.get_list("warning")]
    return messages


@pytest.fixture(scope="module")
def cluster(bare: RealCluster) -> RealCluster:
    """The cluster with the namespace of the rendered releases, which warns of unrestricted pods."""
    labels = {"pod-security.kubernetes.io/warn": "restricted"}
    body = {"metadata": {"name": NAMESPACE, "labels": labels}}
    bare.admin.post("/api/v1/namespaces", json=body).raise_for_status()
    followed = VALUES["one namespace"]["namespace"]
    bare.admin.post("/api/v1/namespaces", json={"metadata": {"name": followed}}).raise_for_status()
    return bare


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_an_api_server_accepts_every_object(cluster: RealCluster, values: dict[str, Any]) -> None:
    manifests = [o for o in Rendered(values).objects if not o["apiVersion"].startswith(OTHERS)]
    for manifest in manifests:
        if manifest["kind"] == "ValidatingWebhookConfiguration":
            for webhook in manifest["webhooks"]:
                webhook["clientConfig"].pop("caBundle", None)  # an example value
    assert messages_of(cluster, manifests) == []


def test_host_network_is_the_only_violation_of_the_standard(cluster: RealCluster) -> None:
    rendered = Rendered({"hostNetwork": True})
    messages = messages_of(cluster, [rendered.one("Deployment"), rendered.one("Job")])
    assert len(messages) == 2
    assert all("host namespaces (hostNetwork=true)" in item for item in messages)


def test_the_server_reports_violations(cluster: RealCluster) -> None:
    deployment = Rendered().one("Deployment")
    deployment["spec"]["template"]["spec"]["hostPID"] = True
    (warning,) = messages_of(cluster, [deployment])
    assert "would violate PodSecurity" in warning and "hostPID=true" in warning
    deployment["spec"]["replica"] = 1
    (refusal,) = messages_of(cluster, [deployment])
    assert "unknown field" in refusal and "spec.replica" in refusal


def manifests_in(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text()))


FILES = sorted((CHART.parent.parent / "deploy").glob("*.yaml"))


def test_kubectl_can_apply_deploy(bare: RealCluster) -> None:
    manifests = [manifest for path in FILES for manifest in manifests_in(path)]
    home = next(item for item in manifests if item["kind"] == "Namespace")["metadata"]["name"]
    bare.admin.post("/api/v1/namespaces", json={"metadata": {"name": home}}).raise_for_status()
    new = [
        item for item in manifests if item["kind"] not in ("Namespace", "CustomResourceDefinition")
    ]
    assert messages_of(bare, new) == []
    assert {item["kind"] for item in manifests} >= {"Deployment", "CustomResourceDefinition"}
