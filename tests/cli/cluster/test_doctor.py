"""`jobflow doctor` on a sandbox: nothing is wrong, and then one object is changed."""

import json
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobflow.api.resources import (
    CRDS,
    DEPLOYMENTS,
    LEASES,
    MUTATING_WEBHOOKS,
    SECRETS,
    VALIDATING_WEBHOOKS,
)
from jobflow.app.sandbox_world import SandboxWorld
from jobflow.cli.cluster.doctor.command import CHECKS
from jobflow.kube.election.candidate import micro_time
from jobflow.webhook.certificates.pki import make_pki
from support.sandbox.command_line import Result
from support.sandbox.doctor_world import (
    CONFIGURATION,
    Doctor,
    change_webhooks,
    create,
    deployment,
)
from support.sandbox.flow_commands import run_process
from support.sandbox.running_controller import merge


async def test_a_sandbox_has_no_faults(doctor: Doctor) -> None:
    found = await doctor()
    first = {name: texts[0].partition(":")[0] for name, texts in found.items()}
    assert first == dict.fromkeys(CHECKS, "ok") | {"leader": "warning"}
    assert found["leader"][0].endswith("in a sandbox and with --no-leader-election.")


@pytest.mark.long
async def test_text_has_a_line_for_each_finding(world: SandboxWorld) -> None:
    result: Result = await run_process(world.kubeconfig, "doctor")
    *lines, end = result.out.splitlines()
    assert (result.code, result.err, end) == (0, "", "No faults, 2 warnings.")
    assert lines[0] == "ok      definitions: jobflows.flow.volcano.sh fits this version."
    assert [line.split()[1].rstrip(":") for line in lines if line.startswith("warning")] == [
        "volcano",  # the sandbox has no PodGroups
        "leader",
    ]


async def test_missing_definitions_are_found(world: SandboxWorld, doctor: Doctor) -> None:
    await world.client.delete(CRDS, "", "jobtemplates.flow.volcano.sh")
    [missing, *others] = (await doctor())["definitions"]
    assert missing == (
        "fault: The cluster does not serve jobtemplates.flow.volcano.sh. | Run `jobflow crds "
        "--apply`."
    )
    assert [other.split(".")[0] for other in others] == ["ok: jobflows", "ok: cronjobflows"]


@pytest.mark.parametrize(
    ("queue", "message"),
    [
        ({"type": "string", "default": "default"}, "is Volcano's, not JobFlow's: spec.queue has"),
        ({"type": "integer"}, "is older than this version: spec.queue is of type integer"),
    ],
)
async def test_other_definitions_are_found(
    world: SandboxWorld, doctor: Doctor, queue: dict[str, Any], message: str
) -> None:
    name = "jobtemplates.flow.volcano.sh"
    definition = json.loads(await world.client.request("GET", CRDS.path("", name)))
    [version] = definition["spec"]["versions"]
    version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["queue"] = queue
    spec = {"spec": {"versions": [version]}}
    await merge(world.client, CRDS, name, spec, namespace="")
    [_, found, _] = (await doctor())["definitions"]
    assert found.startswith(f"fault: {name} {message}")


async def test_a_cluster_without_volcano_is_found(world: SandboxWorld, doctor: Doctor) -> None:
    await world.client.delete(CRDS, "", "commands.bus.volcano.sh")
    assert (await doctor())["volcano"] == [
        "fault: The cluster does not serve commands.bus.volcano.sh. | Install Volcano, or its "
        "definitions (docs/operations.md, Requirements)."
    ]


async def test_volcanos_own_controllers_and_webhook_are_found(
    world: SandboxWorld, doctor: Doctor
) -> None:
    changes = {"spec": deployment("controller")["spec"]}
    await merge(world.client, DEPLOYMENTS, "volcano-controller", changes, namespace="kube-system")
    service = {"name": "volcano-admission-service", "namespace": "volcano-system"}
    rule = {"apiGroups": ["flow.volcano.sh"], "apiVersions": ["v1alpha1"]}
    webhook = {
        "name": "validatejob.volcano.sh",
        "clientConfig": {"service": service},
        "rules": [{**rule, "operations": ["DELETE"], "resources": ["jobflows"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    name = "volcano-admission-service-jobflows-validate"
    obj = {
        "apiVersion": VALIDATING_WEBHOOKS.api_version,
        "kind": VALIDATING_WEBHOOKS.kind,
        "metadata": {"name": name},
        "webhooks": [webhook],
    }
    await create(world, VALIDATING_WEBHOOKS, obj)
    found = await doctor()
    assert found["volcano-controllers"][0].startswith(
        "fault: Volcano's own jobflow-controller and jobtemplate-controller of "
        "kube-system/volcano-controller also start jobs of flows. | In Volcano's chart, set "
    )
    [other] = found["volcano-admission"]
    assert other.startswith(f"fault: Volcano's webhook configuration {name} also reviews JobFlows")


async def test_a_volcano_without_its_chart_is_a_warning_for_each_part(
    world: SandboxWorld, doctor: Doctor
) -> None:
    for part in ("controller", "scheduler"):
        await world.client.delete(DEPLOYMENTS, "kube-system", f"volcano-{part}")
    assert (await doctor())["volcano-controllers"] == [
        "warning: No Deployment has the label app=volcano-controller, so Volcano's controller "
        "manager was not checked. | If Volcano was not installed by its chart, check that it runs, "
        "and that its --controllers include -jobflow-controller and -jobtemplate-controller.",
        "warning: No Deployment has the label app=volcano-scheduler, so Volcano's scheduler was "
        "not checked. | If Volcano was not installed by its chart, check that it runs, because "
        "without it no pod of a job starts.",
    ]


async def test_a_missing_webhook_configuration_is_found(
    world: SandboxWorld, doctor: Doctor
) -> None:
    await world.client.delete(VALIDATING_WEBHOOKS, "", CONFIGURATION)
    found = await doctor()
    [missing] = found["webhook"]
    assert missing.startswith("fault: No ValidatingWebhookConfiguration sends JobFlows to")
    assert found["certificate"][0].startswith("warning: There is no webhook configuration")
    assert found["leader"] == [
        "fault: The Lease jobflow does not exist, so no replica runs flows. | Check that the "
        "replicas of JobFlow run, and that controller.enabled is true."
    ]


@pytest.mark.long
async def test_commands_that_are_not_reviewed_are_found(
    world: SandboxWorld, doctor: Doctor
) -> None:
    await world.client.delete(MUTATING_WEBHOOKS, "", CONFIGURATION)
    missing, reviewed = (await doctor())["webhook"]
    assert missing.startswith("fault: No MutatingWebhookConfiguration sends Commands about flows")
    assert reviewed.startswith("ok: The webhook reviews JobFlows")


async def test_a_ca_that_did_not_sign_the_certificate_is_found(
    world: SandboxWorld, doctor: Doctor
) -> None:
    stranger = make_pki(["localhost"]).ca_certificate
    await change_webhooks(world, caBundle=b64encode(stranger).decode())
    [found] = (await doctor())["webhook"]
    assert found.startswith("fault: The API server does not reach the webhook: ")
    assert found.endswith(
        "| The caBundle does not match the certificate: see docs/operations.md, Certificates."
    )


async def test_a_webhook_that_does_not_answer_is_found(world: SandboxWorld, doctor: Doctor) -> None:
    await change_webhooks(world, url="https://127.0.0.1:1/jobflows/validate")
    [found] = (await doctor())["webhook"]
    assert found.startswith("fault: The API server does not reach the webhook: ")
    assert "/readyz of a replica has the reason." in found


async def test_a_namespace_without_reviews_is_found(world: SandboxWorld, doctor: Doctor) -> None:
    raw = await world.client.request("GET", VALIDATING_WEBHOOKS.path("", CONFIGURATION))
    webhooks = json.loads(raw)["webhooks"]
    for webhook in webhooks:
        webhook["namespaceSelector"] = {"matchLabels": {"reviewed": "yes"}}
        webhook["failurePolicy"] = "Ignore"
    changes = {"webhooks": webhooks}
    await merge(world.client, VALIDATING_WEBHOOKS, CONFIGURATION, changes, namespace="")
    [ignores, accepted] = (await doctor())["webhook"]
    assert ignores.startswith("warning: The failurePolicy of webhook configuration jobflow is")
    assert accepted.startswith("fault: The API server accepted a JobFlow that depends on itself")


@pytest.mark.long
async def test_a_namespace_that_does_not_exist_is_a_warning(doctor: Doctor) -> None:
    assert (await doctor("nowhere"))["webhook"] == [
        "warning: Namespace nowhere does not exist, so no review was tried. | Choose another "
        "namespace by -n."
    ]


@pytest.mark.parametrize(
    ("bundle", "text"),
    [
        (
            b64encode(
                make_pki(["a"], now=datetime.now(UTC) - timedelta(days=3640)).ca_certificate
            ).decode(),
            "warning: The caBundle of jobflow for jobflows.flow.volcano.sh expires in 9d",
        ),
        (
            b64encode(
                make_pki(["a"], now=datetime.now(UTC) - timedelta(days=3655)).ca_certificate
            ).decode(),
            "fault: The caBundle of jobflow for jobflows.flow.volcano.sh expired 5d",
        ),
    ],
)
async def test_cas_that_api_servers_do_not_trust_are_found(
    world: SandboxWorld, doctor: Doctor, bundle: str, text: str
) -> None:
    await change_webhooks(world, caBundle=bundle)
    assert (await doctor())["certificate"][0].startswith(text)


@pytest.mark.long
async def test_a_release_in_the_cluster_has_a_secret_and_a_lease(
    world: SandboxWorld, doctor: Doctor
) -> None:
    host = "jobflow-webhook.kube-system.svc"
    pki, other = make_pki([host]), make_pki([host])
    service = {"name": "jobflow-webhook", "namespace": "kube-system"}
    bundle = b64encode(pki.ca_certificate).decode()
    await change_webhooks(world, url=None, service=service, caBundle=bundle)
    missing = (await doctor())["certificate"][1]
    assert missing.startswith("warning: The Secret kube-system/jobflow-webhook-certificate does")
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "jobflow-webhook-certificate", "namespace": "kube-system"},
        "data": {"tls.crt": b64encode(pki.certificate).decode()},
    }
    await create(world, SECRETS, secret)
    found = await doctor()
    assert [text[:2] for text in found["certificate"]] == ["ok", "ok"]
    assert found["leader"][0].startswith("fault: The Lease jobflow does not exist, so no replica")
    changes = {"data": {"tls.crt": b64encode(other.certificate).decode()}}
    name = secret["metadata"]["name"]  # type: ignore[index]
    await merge(world.client, SECRETS, name, changes, namespace="kube-system")
    assert (await doctor())["certificate"][1].startswith("fault: No CA in the caBundle of jobflow")
    await change_webhooks(world, caBundle=None)
    assert (await doctor())["certificate"][0].startswith(
        "fault: The caBundle of jobflow for jobflows.flow.volcano.sh is empty, so no API server"
    )


@pytest.mark.long
async def test_a_lease_that_is_not_renewed_is_found(world: SandboxWorld, doctor: Doctor) -> None:
    now = datetime.now(UTC)
    spec = {
        "holderIdentity": "jobflow-0",
        "leaseDurationSeconds": 15,
        "renewTime": micro_time(now),
    }
    lease = {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": {"name": "jobflow", "namespace": "kube-system"},
        "spec": spec,
    }
    await create(world, LEASES, lease)
    assert (await doctor())["leader"] == ["ok: jobflow-0 leads. | "]
    late = {"spec": {"renewTime": micro_time(now - timedelta(minutes=10))}}
    await merge(world.client, LEASES, "jobflow", late, namespace="kube-system")
    [stale] = (await doctor())["leader"]
    assert stale.startswith("fault: jobflow-0 has not renewed the Lease jobflow for 10m")
    released = {"spec": {"holderIdentity": ""}}
    await merge(world.client, LEASES, "jobflow", released, namespace="kube-system")
    [free] = (await doctor())["leader"]
    assert free.startswith("fault: The Lease jobflow has no holder, so no replica runs flows.")
