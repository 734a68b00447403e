"""Fixtures of chart tests: Helm, and a control plane without JobFlow."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml

from support.cluster.control_plane import ControlPlane, control_plane, token
from support.cluster.control_plane_binaries import MODULE
from support.cluster.real_cluster import DEFAULT_QUEUE, RealCluster

CONTROLLERS = (
    "garbage-collector-controller",
    "namespace-controller",
    "deployment-controller",
    "replicaset-controller",
    "job-controller",
    "disruption-controller",
    "clusterrole-aggregation-controller",
)
"""All that a node waits for, and a reader of PodDisruptionBudgets and aggregated roles."""


@pytest.fixture(scope="session")
def chart_plane(assets: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The control plane that releases are installed on."""
    with control_plane(
        assets,
        tmp_path_factory.mktemp("chart"),
        controllers=CONTROLLERS,
        admission_plugins=("OwnerReferencesPermissionEnforcement",),
    ) as plane:
        yield plane


@pytest.fixture(scope="session")
def bare(chart_plane: ControlPlane) -> Iterator[RealCluster]:
    """A control plane with Volcano's definitions and none of ours."""
    head = {"Authorization": f"Bearer {token('admin')}"}
    with httpx.Client(
        base_url=chart_plane.url,
        headers=head,
        verify=chart_plane.trust(),
        trust_env=False,
        timeout=30,
    ) as admin:
        cluster = RealCluster(chart_plane, admin)
        for path in sorted((MODULE / "crds").glob("*.yaml")):
            cluster.install(yaml.safe_load(path.read_text()))
        cluster.install(DEFAULT_QUEUE)
        yield cluster


@pytest.fixture
def home(bare: RealCluster) -> Iterator[str]:
    """A namespace for a release, which takes only pods that keep to the strictest standard."""
    name = bare.new_namespace("home")
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    head = {"Content-Type": "application/merge-patch+json"}
    path = f"/api/v1/namespaces/{name}"
    bare.admin.patch(path, json={"metadata": {"labels": labels}}, headers=head).raise_for_status()
    yield name
    bare.admin.delete(path)
