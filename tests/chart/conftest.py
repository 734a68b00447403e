"""Fixtures of chart tests: Helm, and a control plane without JobFlow."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster.real_cluster import RealCluster, volcanos_cluster

CONTROLLERS = (
    "garbage-collector-controller",
    "namespace-controller",
    "deployment-controller",
    "replicaset-controller",
    "job-controller",
    "disruption-controller",
    "clusterrole-aggregation-controller",
)
"""The controllers that a node needs, and those of PodDisruptionBudgets and aggregated roles."""


@pytest.fixture(scope="session")
def bare(assets: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """A control plane for releases, with Volcano's definitions and none of JobFlow's."""
    with volcanos_cluster(
        assets,
        tmp_path_factory.mktemp("chart"),
        controllers=CONTROLLERS,
        admission_plugins=("OwnerReferencesPermissionEnforcement",),
    ) as cluster:
        yield cluster


@pytest.fixture
def home(bare: RealCluster) -> Iterator[str]:
    """A namespace for a release, which accepts only pods of the strictest standard."""
    name = bare.new_namespace("home")
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    head = {"Content-Type": "application/merge-patch+json"}
    path = f"/api/v1/namespaces/{name}"
    bare.admin.patch(path, json={"metadata": {"labels": labels}}, headers=head).raise_for_status()
    yield name
    bare.admin.delete(path)
