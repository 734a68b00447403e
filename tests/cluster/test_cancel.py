"""A user who has few rights except that to create Commands cancels a flow on a real API server."""

import asyncio
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from jobflow.api.resources import COMMANDS
from support.cluster.kubectl import Kubectl
from support.cluster.real_cluster import RealCluster
from support.cluster.release_checks import phase
from support.cluster.served import Served
from support.sandbox.manifests import DIAMOND, as_list, jobflow, template
from support.sandbox.servers import Server
from support.sandbox.volcano_world import volcano

pytestmark = [pytest.mark.cluster, pytest.mark.kubectl]


def cancel(kubectl: Kubectl, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("jobflow")), "cancel", *arguments]
    return subprocess.run(
        command, env=kubectl.environment, capture_output=True, text=True, timeout=60, check=False
    )


async def test_a_running_flow_is_cancelled_then_deleted(
    real: RealCluster, api: Server, served: Served, kubectl: Kubectl
) -> None:
    start = datetime.now(UTC)
    here = ("-n", api.namespace)
    slow = {step: "1h" if step in ("c", "d") else "50ms" for step in DIAMOND}
    steps = [template(step, duration=duration) for step, duration in slow.items()]
    objects = as_list(*steps, jobflow("test", DIAMOND))
    async with volcano(await real.client("volcano")):
        await asyncio.to_thread(kubectl, *here, "apply", "-f", "-", stdin=objects)
        for step in "cd":
            await api.until(f"{api.vcjobs}/test-{step}", lambda job: phase(job) == "Running")
        refusal = await asyncio.to_thread(kubectl.refused, *here, "delete", "jf", "test")
        assert f"cancel it (`jobflow cancel test -n {api.namespace}`)" in refusal
        done = await asyncio.to_thread(cancel, kubectl, "test", *here, "--wait")
    assert (done.returncode, done.stderr) == (0, "")
    last = done.stdout.splitlines()[-1]
    assert last == "JobFlow test: Failed, 5/5 steps finished (Cancelled): the flow was cancelled"
    await api.until(COMMANDS.path(api.namespace), lambda listed: listed["items"] == [])
    flow = (await api.get(f"{api.flows}/test")).json
    result = {key: (c["phase"], c.get("reason")) for key, c in flow["status"]["conditions"].items()}
    assert result == {
        "test-a": ("Completed", None),
        "test-b": ("Completed", None),
        "test-c": ("Failed", "Cancelled"),
        "test-d": ("Failed", "Cancelled"),
        "test-e": ("Skipped", "Stopped"),
    }
    created = real.audit.created("jobs", api.namespace)
    assert created == dict.fromkeys(("test-a", "test-b", "test-c", "test-d"), 1)
    for user in ("jobflow", "volcano"):
        assert real.audit.denied(user, api.namespace, since=start) == []
    await asyncio.to_thread(kubectl, *here, "delete", "jf", "test")


async def test_missing_rights_to_create_commands_are_reported(
    real: RealCluster, api: Server, kubectl: Kubectl, tmp_path: Path
) -> None:
    here = ("-n", api.namespace)
    flow = as_list(jobflow("test", {"a": []}))
    await asyncio.to_thread(kubectl, *here, "apply", "-f", "-", stdin=flow)
    other = Kubectl(real.plane.kubeconfig("volcano"), tmp_path)
    done = await asyncio.to_thread(cancel, other, "test", *here)
    assert (done.returncode, done.stdout) == (1, "")
    assert 'User "volcano" cannot get resource "jobflows"' in done.stderr

    rule = "/apis/rbac.authorization.k8s.io/v1/namespaces/" + api.namespace
    reads = {"apiGroups": ["flow.volcano.sh"], "resources": ["jobflows"], "verbs": ["get"]}
    binding = {
        "metadata": {"name": "reads"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reads"},
        "subjects": [{"kind": "User", "name": "volcano"}],
    }
    role = {"metadata": {"name": "reads"}, "rules": [reads]}
    real.admin.post(f"{rule}/roles", json=role).raise_for_status()
    real.admin.post(f"{rule}/rolebindings", json=binding).raise_for_status()
    refused = "cannot be asked at all"
    async with asyncio.timeout(30):  # an API server uses a new role a moment later
        while "cannot get resource" in refused or refused == "cannot be asked at all":
            done = await asyncio.to_thread(cancel, other, "test", *here)
            refused = done.stderr
    assert (done.returncode, done.stdout) == (1, "")
    assert "cancelling needs the right to create commands.bus.volcano.sh in namespace" in refused
    assert 'User "volcano" cannot create resource "commands"' in refused
