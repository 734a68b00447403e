"""The whole sandbox over real HTTP and TLS."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import (
    JOBFLOWS,
    JOBS,
    JOBTEMPLATES,
    NAMESPACES,
    PODS,
    VALIDATING_WEBHOOKS,
)
from jobflow.app.sandbox_world import SandboxOptions, SandboxWorld, sandbox_world
from jobflow.kube.client import ApiError, Client
from jobflow.runtime.event_loop import PartDied
from jobflow.runtime.http_listener import PortInUse
from jobflow.sandbox.nodes.simulate import SimulateRunner
from jobflow.sandbox.volcano.controller import JobController
from support.sandbox.command_line import jobflow as command_line
from support.sandbox.manifests import DIAMOND, jobflow, template
from support.sandbox.running_controller import merge

FAST = SandboxOptions(runner=SimulateRunner(20.0))


async def apply(client: Client, *objects: dict[str, Any], namespace: str = "default") -> None:
    for obj in objects:
        resource = JOBFLOWS if obj["kind"] == "JobFlow" else JOBTEMPLATES
        await client.create(resource, namespace, json.dumps(obj).encode())


async def ended(world: SandboxWorld, name: str, phase: str) -> JobFlow:
    return await waiting(world, name, lambda flow: flow.status.state.phase == phase)


async def waiting(world: SandboxWorld, name: str, reached: Callable[[JobFlow], bool]) -> JobFlow:
    async with asyncio.timeout(30):
        while True:
            flow = await world.client.get(JOBFLOWS, "default", name, JobFlow)
            if reached(flow):
                return flow
            await asyncio.sleep(0.02)


@pytest.fixture
async def world() -> AsyncIterator[SandboxWorld]:
    async with sandbox_world(FAST) as world:
        yield world


async def test_the_diamond_is_admitted_and_succeeds(world: SandboxWorld) -> None:
    await apply(world.client, *(template(name) for name in DIAMOND), jobflow("diamond", DIAMOND))
    flow = await ended(world, "diamond", "Succeed")
    assert flow.status.progress == "5/5"
    metrics = world.replica.metrics.text().decode()
    labels = 'kind="JobFlow",operation="CREATE",outcome="allowed"'
    assert f"jobflow_admission_seconds_count{{{labels}}} 1.0" in metrics
    assert 'jobflow_flows{phase="Succeed"} 1.0' in metrics
    assert 'jobflow_jobs{phase="Completed"} 5.0' in metrics
    created = 'code="201",resource="jobs",verb="POST"'
    assert f"jobflow_api_request_seconds_count{{{created}}} 5.0" in metrics
    assert 'jobflow_watch_age_seconds{resource="jobflows"}' in metrics
    assert "jobflow_reconcile_seconds_count" in metrics


async def test_pods_are_found_by_the_labels_of_flow_step_and_index(world: SandboxWorld) -> None:
    flow = jobflow("f", {"a": [], "b": []})
    flow["spec"]["flows"][0]["forEach"] = {"items": ["x", "y"]}
    await apply(world.client, template("a"), template("b"), flow)
    await ended(world, "f", "Succeed")

    async def found(selector: str) -> list[str]:
        query = [("labelSelector", selector)]
        listed = await world.client.request("GET", PODS.path("default"), query=query)
        return sorted(pod["metadata"]["name"] for pod in json.loads(listed)["items"])

    of_flow = "volcano.sh/createdByJobFlow=default.f"
    of_item = "flow.volcano.sh/step=a,flow.volcano.sh/index=1,flow.volcano.sh/attempt=1"
    assert len(await found(of_flow)) == 3
    (pod,) = await found(f"{of_flow},{of_item}")
    assert pod.startswith("f-a-1-")


async def test_the_api_server_returns_every_fault(world: SandboxWorld) -> None:
    bad = jobflow("bad", {"a": ["b"], "b": ["a"], "c": ["nowhere"]})
    with pytest.raises(ApiError) as raised:
        await apply(world.client, bad)
    status = raised.value.status
    assert (status.code, status.reason) == (422, "Invalid")
    assert status.message.startswith(
        'admission webhook "jobflows.flow.volcano.sh" denied the request: '
        'JobFlow.flow.volcano.sh "bad" is invalid:'
    )
    assert status.details and status.details.causes and len(status.details.causes) >= 2


async def test_only_the_metadata_of_a_running_flow_can_change(world: SandboxWorld) -> None:
    await apply(world.client, jobflow("waits", {"a": []}))

    async def patch(body: dict[str, Any]) -> None:
        await merge(world.client, JOBFLOWS, "waits", body)

    with pytest.raises(ApiError) as changed:
        await patch({"spec": {"jobRetainPolicy": "delete"}})
    assert changed.value.code == 422
    with pytest.raises(ApiError) as deleted:
        await world.client.delete(JOBFLOWS, "default", "waits")
    assert (deleted.value.code, deleted.value.reason) == (403, "Forbidden")
    await patch({"metadata": {"annotations": {"flow.volcano.sh/force-delete": "true"}}})
    await world.client.delete(JOBFLOWS, "default", "waits")


async def test_flows_are_deleted_with_their_namespace(world: SandboxWorld) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    await world.client.create(NAMESPACES, "", json.dumps(namespace).encode())
    await apply(world.client, jobflow("waits", {"a": []}), namespace="team")
    await world.client.delete(NAMESPACES, "", "team")
    async with asyncio.timeout(30):
        while True:
            try:
                await world.client.get(JOBFLOWS, "team", "waits", JobFlow)
            except ApiError as error:
                assert error.not_found
                break
            await asyncio.sleep(0.02)


async def test_the_kubeconfig_is_written_to_the_given_path(tmp_path: Path) -> None:
    options = SandboxOptions(kubeconfig=tmp_path / "here" / "kubeconfig")
    async with sandbox_world(options) as world:
        assert world.kubeconfig == options.kubeconfig
        async with await Client.from_kubeconfig(str(world.kubeconfig)) as client:
            assert await client.request("GET", VALIDATING_WEBHOOKS.path("", "jobflow"))


@pytest.mark.parametrize("flag", ["--port", "--webhook-port"])
async def test_a_port_in_use_is_reported_with_its_flag(flag: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as used:
        port = used.getsockname()[1]
        options = (
            SandboxOptions(port=port) if flag == "--port" else SandboxOptions(webhook_port=port)
        )
        with pytest.raises(PortInUse, match=rf"127\.0\.0\.1:{port}: .* another port by {flag}$"):
            async with sandbox_world(options):
                pytest.fail("the world came up")


@pytest.mark.long
async def test_the_death_of_a_part_ends_the_body(monkeypatch: pytest.MonkeyPatch) -> None:
    async def die(self: JobController) -> None:
        raise RuntimeError("out of steam")

    monkeypatch.setattr(JobController, "run", die)
    with pytest.raises(PartDied, match="^the stand-in for Volcano died: out of steam$"):
        async with sandbox_world(FAST):
            await asyncio.Event().wait()


async def test_two_sandboxes_are_independent() -> None:
    async with sandbox_world(FAST) as one, sandbox_world(FAST) as other:
        await apply(one.client, template("a"))
        with pytest.raises(ApiError):
            await other.client.request("GET", JOBTEMPLATES.path("default", "a"))
        assert json.loads(await other.client.request("GET", JOBS.path("default")))["items"] == []


async def test_an_approval_names_the_user_who_gave_it(world: SandboxWorld) -> None:
    release = jobflow("release", {"ok": [], "deploy": ["ok"]})
    release["spec"]["flows"][0] = {"name": "ok", "approval": {"message": "Deploy?"}}
    await apply(world.client, template("deploy"), release)
    await waiting(world, "release", lambda flow: flow.status.state.reason == "WaitingForApproval")
    by = ["--as", "ann", "--kubeconfig", str(world.kubeconfig)]
    answer = await asyncio.to_thread(command_line, "approve", "release", "ok", *by)
    assert (answer.code, answer.err) == (0, "")
    flow = await ended(world, "release", "Succeed")
    condition = (flow.status.conditions or {})["release-ok"]
    assert condition.message == "approved by ann"
    assert condition.approval is not None and condition.approval.by == "ann"


async def test_only_the_controller_of_a_sandbox_makes_child_flows(world: SandboxWorld) -> None:
    gate = {"flows": [{"name": "ask", "approval": {}}]}
    parent = jobflow("p", {"build": []})
    parent["spec"]["flows"].append({"name": "gate", "flow": gate})
    await apply(world.client, template("build", duration="1h"), parent)
    await waiting(world, "p", lambda flow: "p-gate" in _children(flow))
    child = await world.client.get(JOBFLOWS, "default", "p-gate", JobFlow)
    forged = jobflow("forged", {"build": []})
    (owner,) = msgspec.to_builtins(child.metadata.owner_references)
    forged["metadata"]["ownerReferences"] = [owner]
    with pytest.raises(ApiError, match="only JobFlow's controller makes child flows"):
        await apply(world.client, forged)


def _children(flow: JobFlow) -> list[str]:
    conditions = flow.status.conditions or {}
    return [each.flow for each in conditions.values() if each.phase != "Waiting"]
