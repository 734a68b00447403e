"""Approvals on a real API server: who may answer them, whose name the status has, and what happens
if nobody does."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobflow.api.resources import COMMANDS
from support.cluster.kubectl import Kubectl
from support.cluster.real_cluster import RealCluster
from support.cluster.release_checks import state
from support.cluster.rights import allow
from support.cluster.served import Served
from support.sandbox.manifests import jobflow, template
from support.sandbox.servers import Server
from support.sandbox.volcano_world import volcano

pytestmark = [pytest.mark.cluster, pytest.mark.kubectl]

BY = "flow.volcano.sh/by"
REFUSED = 'user "bob" may not {} jobflows.flow.volcano.sh "release" in namespace "{}"'

Answer = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def answer(real: RealCluster, api: Server, tmp_path: Path) -> Answer:
    """Return a function that runs a command of JobFlow as a user."""
    kubectl = Kubectl(real.plane.kubeconfig("admin"), tmp_path)

    def run(user: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(Path(sys.executable).with_name("jobflow")), *arguments]
        command += ["-n", api.namespace, "--as", user]
        return subprocess.run(
            command,
            env=kubectl.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


async def release(api: Server, **approval: str) -> None:
    """Create a flow that waits for approval before its only job."""
    flow = jobflow("release", {"ok": [], "deploy": ["ok"]})
    flow["spec"]["flows"][0] = {"name": "ok", "approval": approval}
    await api.create(api.templates, template("deploy", duration="50ms"))
    await api.create(api.flows, flow)


async def until(api: Server, phase: str, reason: str = "") -> dict[str, Any]:
    """Return the condition of the approval once the flow is in this phase for this reason."""

    def holds(flow: Any) -> bool:
        return (state(flow).get("phase"), state(flow).get("reason", "")) == (phase, reason)

    flow = await api.until(f"{api.flows}/release", holds)
    found: dict[str, Any] = flow["status"]["conditions"]["release-ok"]
    return found


async def test_who_may_approve_a_flow_is_named_in_its_status(
    real: RealCluster, api: Server, served: Served, answer: Answer
) -> None:
    allow(real, api.namespace, "bob", ["get", "update"])
    allow(real, api.namespace, "carol", ["get", "approve"])
    await release(api, message="Deploy?")
    await until(api, "Pending", "WaitingForApproval")
    for verb in ("approve", "reject"):
        refused = await asyncio.to_thread(answer, "bob", verb, "release", "ok")
        assert refused.returncode == 1
        assert REFUSED.format("approve", api.namespace) in refused.stderr
    done = await asyncio.to_thread(
        answer, "carol", "approve", "release", "ok", "--output", "percent=10", "-m", "looks good"
    )
    assert (done.returncode, done.stderr) == (0, "")
    async with volcano(await real.client("volcano")):
        condition = await until(api, "Succeed")
    assert condition["message"] == "approved by carol: looks good"
    assert (condition["approval"]["answer"], condition["approval"]["by"]) == ("Approve", "carol")
    assert condition["outputs"] == {"percent": 10}
    await api.until(COMMANDS.path(api.namespace), lambda them: them["items"] == [])
    assert real.audit.created("jobs", api.namespace) == {"release-deploy": 1}


async def test_other_commands_need_the_right_to_update_the_flow(
    real: RealCluster, api: Server, served: Served, answer: Answer
) -> None:
    allow(real, api.namespace, "bob", ["get", "approve"])
    allow(real, api.namespace, "dave", ["get", "update"])
    await release(api)
    await until(api, "Pending", "WaitingForApproval")
    refused = await asyncio.to_thread(answer, "bob", "cancel", "release")
    assert REFUSED.format("update", api.namespace) in refused.stderr
    done = await asyncio.to_thread(answer, "dave", "cancel", "release")
    assert done.returncode == 0
    condition = await until(api, "Failed", "Cancelled")
    assert (condition["phase"], condition["reason"]) == ("Skipped", "Stopped")


async def test_a_user_cannot_write_another_name_on_a_command(
    api: Server, served: Served, kubectl: Kubectl
) -> None:
    await release(api)
    await until(api, "Pending", "WaitingForApproval")
    flow = (await api.get(f"{api.flows}/release")).json
    target = {"apiVersion": flow["apiVersion"], "kind": "JobFlow", "name": "release"}
    command = {
        "apiVersion": COMMANDS.api_version,
        "kind": COMMANDS.kind,
        "metadata": {"name": "forged", "annotations": {BY: "the-boss"}},
        "action": "RejectStep",
        "target": target | {"uid": flow["metadata"]["uid"]},
        "message": "ok no",
    }
    here = ("-n", api.namespace, "create", "-o", "json", "-f", "-")
    made = await asyncio.to_thread(kubectl, *here, stdin=json.dumps(command))
    assert json.loads(made.out)["metadata"]["annotations"] == {BY: "alice"}
    condition = await until(api, "Failed", "StepFailed")
    assert condition["message"] == "rejected by alice: no"


async def test_commands_about_jobs_are_not_reviewed(
    api: Server, served: Served, kubectl: Kubectl
) -> None:
    command = {
        "apiVersion": COMMANDS.api_version,
        "kind": COMMANDS.kind,
        "metadata": {"name": "abort", "annotations": {BY: "anything"}},
        "action": "AbortJob",
        "target": {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "name": "j",
            "uid": "1",
        },
    }
    here = ("-n", api.namespace, "create", "-o", "json", "-f", "-")
    made = await asyncio.to_thread(kubectl, *here, stdin=json.dumps(command))
    assert json.loads(made.out)["metadata"]["annotations"] == {BY: "anything"}


@pytest.mark.parametrize(
    ("default", "phase", "message"),
    [("Approve", "Succeed", "approved by default"), ("Reject", "Failed", "rejected by default")],
)
async def test_an_approval_that_nobody_gives_is_answered_by_its_timeout(
    real: RealCluster, api: Server, served: Served, default: str, phase: str, message: str
) -> None:
    await release(api, timeout="1s", default=default)
    async with volcano(await real.client("volcano")):
        condition = await until(api, phase, "" if phase == "Succeed" else "StepFailed")
    assert condition["message"] == f"{message}, because nobody answered within 1s"
    assert "by" not in condition["approval"]
