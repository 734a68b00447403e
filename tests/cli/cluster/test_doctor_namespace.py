"""`jobflow doctor` on a sandbox: rights, queues, templates, and what may not be read."""

import json

import pytest

from jobflow.api.resources import JOBFLOWS, JOBTEMPLATES, QUEUES
from jobflow.app.sandbox_world import SandboxWorld
from jobflow.client.errors import CommandError
from jobflow.sandbox.apiserver.requests.failures import failure
from support.sandbox.api_server import InjectedFault
from support.sandbox.doctor_world import REVIEWS, Doctor, create, forbid
from support.sandbox.flow_commands import run_process
from support.sandbox.manifests import jobflow, template
from support.sandbox.recorded_world import server_of
from support.sandbox.running_controller import merge


@pytest.mark.long
async def test_rights_that_commands_need_are_named(world: SandboxWorld, doctor: Doctor) -> None:
    REVIEWS.denied = {"create commands", "get queues"}
    [commands, queues] = (await doctor())["rights"]
    assert commands.startswith(
        "warning: You have no right to create commands.bus.volcano.sh in namespace default, for "
        "suspend, resume, cancel and retry."
    )
    assert queues.startswith("warning: You have no right to get queues.scheduling.volcano.sh, for")
    REVIEWS.denied = {"get jobflows"}
    [flows] = (await doctor())["rights"]
    assert flows.startswith("fault: You have no right to get jobflows.flow.volcano.sh in")


@pytest.mark.long
async def test_queues_that_start_no_jobs_are_found(world: SandboxWorld, doctor: Doctor) -> None:
    for name, spec in (("a", {}), ("b", {"queue": "research"}), ("c", {"queue": "nowhere"})):
        obj = template(name)
        obj["spec"] |= spec
        obj["metadata"]["namespace"] = "default"
        await create(world, JOBTEMPLATES, obj)
    flow = jobflow("f", {"a": [], "b": []})
    flow["metadata"]["namespace"] = "default"
    flow["spec"]["suspend"] = True  # it has not ended when the doctor looks
    flow["spec"]["flows"][0]["jobSpec"] = {**template("f")["spec"], "queue": "nowhere"}
    await create(world, JOBFLOWS, flow)
    for name in ("research", "idle"):
        queue = {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": name}}
        await create(world, QUEUES, {**queue, "spec": {"weight": 1}})
        state = {"status": {"state": "Closed"}}
        await merge(world.client, QUEUES, name, state, namespace="", subresource="status")
    [idle, research, nowhere] = (await doctor())["queues"]
    assert idle.startswith("warning: Queue idle is Closed, so its jobs do not start. | Open it")
    assert research.startswith(
        "fault: Queue research is Closed, so its jobs do not start; it is used by JobTemplate b. |"
    )
    assert nowhere.startswith(
        "fault: Queue nowhere does not exist; it is used by JobTemplate c and JobFlow f. |"
    )


@pytest.mark.long
async def test_templates_with_added_defaults_are_found(world: SandboxWorld, doctor: Doctor) -> None:
    obj = template("a")
    applied = json.dumps({"spec": obj["spec"]})
    key = "kubectl.kubernetes.io/last-applied-configuration"
    obj["metadata"] |= {"namespace": "default", "annotations": {key: applied}}
    obj["spec"]["maxRetry"] = 3
    await create(world, JOBTEMPLATES, obj)
    [found] = (await doctor())["templates"]
    assert found.startswith(
        "warning: JobTemplate a holds maxRetry: 3, which its manifest does not set: "
    )


async def test_what_may_not_be_read_is_a_warning(world: SandboxWorld, doctor: Doctor) -> None:
    forbid(world, "/validatingwebhookconfigurations")
    forbid(world, "/jobflows.flow.volcano.sh")
    forbid(world, "/queues")
    forbid(world, "/deployments")
    found = await doctor()
    assert found["webhook"] == [
        "ok: The webhook reviews JobFlows of namespace default. | ",
        "warning: This was not checked: it needs the right to list "
        "validatingwebhookconfigurations.admissionregistration.k8s.io. | Ask an administrator of "
        "the cluster for this right, or to run `jobflow doctor`.",
    ]
    for name, right in (
        ("certificate", "list validatingwebhookconfigurations.admissionregistration.k8s.io"),
        ("definitions", "get customresourcedefinitions.apiextensions.k8s.io"),
        ("queues", "list queues.scheduling.volcano.sh"),
        ("volcano-controllers", "list deployments.apps in all namespaces"),
    ):
        [warned] = found[name]
        assert warned.startswith(f"warning: This was not checked: it needs the right to {right}.")


@pytest.mark.long
async def test_checks_that_need_the_same_right_are_in_one_line(world: SandboxWorld) -> None:
    forbid(world, "/validatingwebhookconfigurations")
    result = await run_process(world.kubeconfig, "doctor")
    right = "list validatingwebhookconfigurations.admissionregistration.k8s.io"
    lines = [line for line in result.out.splitlines() if right in line]
    assert lines == [
        "warning volcano-admission, webhook, certificate, leader, clocks: This was not checked: it "
        f"needs the right to {right}. Ask an administrator of the cluster for this right, or to "
        "run `jobflow doctor`."
    ]
    warnings = [line for line in result.out.splitlines() if line.startswith("warning")]
    assert result.out.splitlines()[-1] == f"No faults, {len(warnings)} warnings."


async def test_an_expired_login_ends_the_command(world: SandboxWorld, doctor: Doctor) -> None:
    expired = failure(401, "Unauthorized", "Unauthorized")
    server_of(world).faults.append(
        InjectedFault(lambda request: request.path.endswith("/v1alpha1"), expired, times=None)
    )
    with pytest.raises(CommandError, match="does not accept your login"):
        await doctor()


@pytest.mark.long
async def test_no_cluster_is_exit_code_2(world: SandboxWorld) -> None:
    lost = world.kubeconfig.with_name("lost")
    lost.write_text(world.kubeconfig.read_text().replace(world.url, "https://127.0.0.1:1"))
    result = await run_process(lost, "doctor")
    assert result.code == 2
    assert result.err.startswith("jobflow: error: the API server does not answer: ")
