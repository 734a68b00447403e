"""The command lines of docker-compose.yml, started without containers, run flows."""

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobflow.kube.client import Client
from support.cluster.compose_services import Composition
from support.cluster.control_plane_binaries import MODULE
from support.cluster.kubectl import Kubectl
from support.cluster.real_cluster import DEFAULT_QUEUE
from support.sandbox.manifests import DIAMOND
from support.sandbox.manifests import jobflow as flow_of
from support.sandbox.volcano_world import volcano

pytestmark = [pytest.mark.cluster, pytest.mark.kubectl, pytest.mark.timeout(300)]

SAMPLE = MODULE.parent.parent / "examples" / "diamond.yaml"
ASKED_WITHIN_SECONDS = 30
USERS = {"admin", "kube-controller-manager", "volcano", "kwok", "jobflow"}


@pytest.fixture
def compose(assets: Path, tmp_path: Path) -> Iterator[Composition]:
    """All services of the composition, running and healthy."""
    composition = Composition(assets, tmp_path)
    with composition.running():
        yield composition


@pytest.fixture
def kubectl(compose: Composition, tmp_path: Path) -> Kubectl:
    """kubectl as the first lines of the file describe its use."""
    return Kubectl(compose.files("certs") / "admin.kubeconfig", tmp_path)


def replace_volcano(kubectl: Kubectl) -> None:
    """Delete Volcano's webhooks, and create the queue that Volcano creates at its start."""
    for kind in ("mutating", "validating"):
        names = kubectl("get", f"{kind}webhookconfigurations", "-o", "name").out.split()
        found = [name for name in names if "/volcano-" in name]
        assert found
        kubectl("delete", *found)
    kubectl("apply", "-f", "-", stdin=json.dumps(DEFAULT_QUEUE))
    opened = json.dumps({"status": DEFAULT_QUEUE["status"]})
    kubectl("patch", "queue", "default", "--subresource=status", "--type=merge", "-p", opened)


def refusal(kubectl: Kubectl) -> str:
    """Return the refusal of a flow with a fault, once the API server trusts the webhook."""
    broken = json.dumps(flow_of("broken", {"a": ["b"], "b": ["a"]}))
    deadline = time.monotonic() + ASKED_WITHIN_SECONDS
    while "failed calling webhook" in (text := kubectl.refused("apply", "-f", "-", stdin=broken)):
        assert time.monotonic() < deadline, text
    return text


async def test_the_documented_sample_succeeds(compose: Composition, kubectl: Kubectl) -> None:
    replace_volcano(kubectl)
    assert "a -> b -> a" in refusal(kubectl)
    kubectl("apply", "-f", str(SAMPLE))
    state = "--for=jsonpath={.status.state.phase}"
    kubectl("wait", "--for=create", "vcjob/test-a", "--timeout=30s")
    kubectl("wait", f"{state}=Pending", "jf/test", "--timeout=30s")
    assert [row[0] for row in kubectl("get", "vcjob", "--no-headers").rows] == ["test-a"]
    volcano_config = compose.files("certs") / "volcano.kubeconfig"
    client = await Client.from_kubeconfig(str(volcano_config))
    async with volcano(client, speed=10):
        await asyncio.to_thread(kubectl, "wait", f"{state}=Succeed", "jf/test", "--timeout=50s")
    rows = kubectl("get", "vcjob", "--no-headers").rows
    assert [row[0] for row in rows] == [f"test-{step}" for step in DIAMOND]
    assert compose.stop("jobflow") == 0, compose.output("jobflow")


def test_keys_and_kubeconfigs_are_created_once(tmp_path: Path) -> None:
    composition = Composition(tmp_path, tmp_path)
    composition.mount()

    def complete_services() -> dict[Path, bytes]:
        for name in ("certificates", "kubeconfigs"):
            composition.complete(name)
        files = composition.files("certs").rglob("*")
        return {path: path.read_bytes() for path in files if path.is_file()}

    first = complete_services()
    assert all(path.stat().st_mode & 0o077 == 0 for path in first)
    assert {path.stat().st_uid for path in first} == {composition.files("certs").stat().st_uid}
    assert {path.stem for path in first if path.suffix == ".kubeconfig"} == USERS
    assert complete_services() == first
