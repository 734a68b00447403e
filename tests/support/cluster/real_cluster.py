"""The real control plane of a test session, with the CRDs of JobFlow and Volcano, users, audit log.

A pytest plugin for its fixtures, because tests/cluster and tests/contract share the control plane.
"""

import itertools
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from jobflow.kube.client import Client
from support.cluster.audit import Audit
from support.cluster.control_plane import ControlPlane, control_plane
from support.cluster.control_plane_binaries import MISSING, MODULE, find

CRDS = MODULE.parent.parent / "charts" / "jobflow" / "crds"
SERVED_WITHIN_SECONDS = 30
DEFAULT_QUEUE = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "Queue",
    "metadata": {"name": "default"},
    "spec": {"reclaimable": True, "weight": 1},
    "status": {"state": "Open"},
}
"""Volcano creates it when it starts."""


def object_schema(**properties: Any) -> dict[str, Any]:
    """Return the schema of an object with these properties, for a foreign definition."""
    return {"type": "object", "properties": properties}


class RealCluster:
    """A control plane and the requests that tests send to it."""

    def __init__(self, plane: ControlPlane, admin: httpx.Client) -> None:
        self.plane = plane
        self.admin = admin
        self.audit = Audit(plane.audit_log, self._mark)
        self._numbers = itertools.count(1)

    async def client(self, user: str = "admin") -> Client:
        """Return a client of the product; the caller closes it."""
        return await Client.from_kubeconfig(str(self.plane.kubeconfig(user)))

    def new_namespace(self, prefix: str) -> str:
        """A namespace that no other test has."""
        name = f"{prefix[:50].strip('-')}-{next(self._numbers)}"
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        self.admin.post("/api/v1/namespaces", json=body).raise_for_status()
        return name

    def install_all(self, folder: Path) -> None:
        """Create the objects in the files of a folder."""
        for path in sorted(folder.glob("*.yaml")):
            self.install(yaml.safe_load(path.read_text()))

    def install(self, manifest: dict[str, Any]) -> None:
        """Create an object of the cluster, status included; of a CRD, return once it is served."""
        collection = f"/apis/{manifest['apiVersion']}/{manifest['kind'].lower()}s"
        answer = self.admin.post(collection, json=manifest)
        assert answer.status_code == 201, answer.text
        if "status" in manifest:
            path = f"{collection}/{manifest['metadata']['name']}/status"
            head = {"Content-Type": "application/merge-patch+json"}
            body = json.dumps({"status": manifest["status"]})
            self.admin.patch(path, content=body, headers=head).raise_for_status()
        if manifest["kind"] == "CustomResourceDefinition":
            spec = manifest["spec"]
            for served in spec["versions"]:
                path = f"/apis/{spec['group']}/{served['name']}/{spec['names']['plural']}"
                self._await_served(path)

    def _await_served(self, path: str) -> None:
        """Wait for 200: 404 and 429 (`storage is (re)initializing`) last a second or two."""
        deadline = time.monotonic() + SERVED_WITHIN_SECONDS
        while (answer := self.admin.get(path)).status_code != 200:
            assert time.monotonic() < deadline, answer.text
            time.sleep(0.05)

    def _mark(self, name: str) -> None:
        self.admin.get(f"/api/v1/namespaces/default/configmaps/{name}")


@contextmanager
def volcanos_cluster(assets: Path, directory: Path, **options: Any) -> Iterator[RealCluster]:
    """A control plane with the definitions of Volcano only; options as of ControlPlane."""
    with control_plane(assets, directory, **options) as plane, plane.connect() as admin:
        cluster = RealCluster(plane, admin)
        cluster.install_all(MODULE / "crds")
        cluster.install(DEFAULT_QUEUE)
        yield cluster


@contextmanager
def real_cluster(assets: Path, directory: Path) -> Iterator[RealCluster]:
    """A control plane with everything that flows need."""
    with volcanos_cluster(assets, directory) as cluster:
        cluster.install_all(CRDS)
        for role in yaml.safe_load_all((MODULE / "roles.yaml").read_text()):
            cluster.install(role)
        yield cluster


@pytest.fixture(scope="session")
def assets() -> Path:
    """Return the folder of the binaries. Skips without them; fails if JOBFLOW_REQUIRE_TOOLS=1."""
    if (found := find()) is not None:
        return found
    if os.environ.get("JOBFLOW_REQUIRE_TOOLS") == "1":
        pytest.fail(f"{MISSING} (JOBFLOW_REQUIRE_TOOLS=1)")
    pytest.skip(MISSING)


@pytest.fixture(scope="session")
def cluster_of_session(
    assets: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealCluster]:
    """The session's control plane."""
    with real_cluster(assets, tmp_path_factory.mktemp("control-plane")) as cluster:
        yield cluster


@pytest.fixture
def real(cluster_of_session: RealCluster) -> RealCluster:
    """The session's control plane; processes that a test stopped have been started again."""
    ended = [
        name
        for name, process in cluster_of_session.plane.processes.items()
        if process.poll() is not None
    ]
    assert not ended, f"{ended} died: {cluster_of_session.plane.log(ended[0])}"
    return cluster_of_session


@pytest.fixture
def namespace_of_test(request: pytest.FixtureRequest) -> str:
    """A prefix for a namespace, from the name of the test."""
    name: str = request.node.originalname
    return "".join(c if c.isalnum() else "-" for c in name.removeprefix("test_").lower())
