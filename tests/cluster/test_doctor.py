"""`jobflow doctor` on a real API server: nothing is wrong, and then one thing is."""

import asyncio
import json
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobflow.api.resources import CRDS, LEASES, SECRETS, VALIDATING_WEBHOOKS
from jobflow.kube.election.candidate import micro_time
from jobflow.webhook.certificates.pki import make_pki
from support.cluster.definitions import apply_definitions, replace_schema
from support.cluster.real_cluster import RealCluster
from support.cluster.served import Served, until
from support.sandbox.flow_commands import run_process

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

LEASE = LEASES.path("default", "jobflow")
CONFIGURATION = VALIDATING_WEBHOOKS.path("", "jobflow")
HOST = "jobflow-webhook.default.svc"


@pytest.fixture(autouse=True)
def only_lease(real: RealCluster) -> None:
    """Delete the Leases that other tests have left: doctor reads those of all namespaces."""
    for lease in real.admin.get(LEASES.path()).raise_for_status().json()["items"]:
        meta = lease["metadata"]
        if meta["name"] == "jobflow":
            real.admin.delete(LEASES.path(meta["namespace"], "jobflow")).raise_for_status()


@pytest.fixture
def namespace(real: RealCluster) -> str:
    """A namespace without templates."""
    return real.new_namespace("doctor")


async def diagnose(
    real: RealCluster, namespace: str, user: str = "admin"
) -> tuple[int, dict[str, list[str]]]:
    """Return the exit code, and `STATUS: MESSAGE` by check."""
    kubeconfig = real.plane.kubeconfig(user)
    result = await run_process(kubeconfig, "doctor", "-n", namespace, "-o", "json")
    assert result.err == ""
    found: dict[str, list[str]] = {}
    for each in json.loads(result.out):
        found.setdefault(each["check"], []).append(f"{each['status']}: {each['message']}")
    return result.code, found


def patch(real: RealCluster, path: str, changes: dict[str, Any]) -> None:
    head = {"Content-Type": "application/merge-patch+json"}
    real.admin.patch(path, content=json.dumps(changes), headers=head).raise_for_status()


def change_webhooks(real: RealCluster, client: dict[str, Any]) -> None:
    """Replace the clientConfig of each webhook."""
    webhooks = real.admin.get(CONFIGURATION).raise_for_status().json()["webhooks"]
    patch(real, CONFIGURATION, {"webhooks": [each | {"clientConfig": client} for each in webhooks]})


async def test_an_administrator_sees_an_installation_without_faults(
    real: RealCluster, served: Served, namespace: str
) -> None:
    await until(lambda: served.metric("leader") == 1)
    code, found = await diagnose(real, namespace)
    assert found.pop("volcano-controllers") == [  # the tests have no Volcano
        f"warning: No Deployment has the label app=volcano-{app}, so Volcano's {part} was not "
        "checked."
        for app, part in (("controller", "controller manager"), ("scheduler", "scheduler"))
    ]
    assert found["leader"][0].endswith(" leads.")
    assert [text for texts in found.values() for text in texts if text[:3] != "ok:"] == []
    assert code == 0


async def test_a_user_of_a_namespace_is_told_which_rights_are_missing(
    real: RealCluster, served: Served, namespace: str
) -> None:
    await until(served.ready)
    code, found = await diagnose(real, namespace, "alice")
    assert code == 0
    assert found["webhook"][0] == f"ok: The webhook reviews JobFlows of namespace {namespace}."
    needs = "warning: This was not checked: it needs the right to "
    assert found["certificate"][0].startswith(f"{needs}list validatingwebhookconfigurations.")
    assert found["definitions"][-1].startswith(f"{needs}get customresourcedefinitions.")
    lacks = [text.removeprefix("warning: You have no right to ") for text in found["rights"]]
    assert [text.partition(",")[0] for text in lacks] == [
        f"get pods/log in namespace {namespace}",
        f"list podgroups.scheduling.volcano.sh in namespace {namespace}",
        "get queues.scheduling.volcano.sh",
    ]


async def test_without_jobflow_the_webhook_and_a_leader_are_missing(
    real: RealCluster, namespace: str
) -> None:
    code, found = await diagnose(real, namespace)
    assert code == 1
    assert found["webhook"][0].startswith("fault: No ValidatingWebhookConfiguration sends JobFlows")
    assert found["leader"] == ["fault: The Lease jobflow does not exist, so no replica runs flows."]


# ------------------------------------------------------------------- definitions


@pytest.fixture
def restore_definitions(real: RealCluster) -> Iterator[None]:
    yield
    apply_definitions(real)


@pytest.mark.usefixtures("restore_definitions")
async def test_a_missing_definition_is_found(real: RealCluster, namespace: str) -> None:
    path = CRDS.path("", "jobtemplates.flow.volcano.sh")
    real.admin.delete(path).raise_for_status()
    await until(lambda: real.admin.get(path).status_code == 404)
    code, found = await diagnose(real, namespace)
    assert (code, found["definitions"]) == (
        1,
        [
            "fault: The cluster does not serve jobtemplates.flow.volcano.sh.",
            "ok: jobflows.flow.volcano.sh fits this version.",
            "ok: cronjobflows.flow.volcano.sh fits this version.",
        ],
    )


@pytest.mark.usefixtures("restore_definitions")
async def test_a_replaced_definition_is_found(real: RealCluster, namespace: str) -> None:
    replace_schema(real)
    code, found = await diagnose(real, namespace)
    replaced, *others = found["definitions"]
    assert replaced.startswith("fault: jobflows.flow.volcano.sh is Volcano's, not JobFlow's: spec.")
    assert (code, others) == (
        1,
        [
            "ok: jobtemplates.flow.volcano.sh fits this version.",
            "ok: cronjobflows.flow.volcano.sh fits this version.",
        ],
    )


# ------------------------------------------------------------------------ leader


async def test_a_released_lease_has_no_leader(
    real: RealCluster, served: Served, namespace: str
) -> None:
    await until(lambda: served.metric("leader") == 1)
    await asyncio.to_thread(served.stop)
    code, found = await diagnose(real, namespace)
    assert (code, found["leader"]) == (
        1,
        ["fault: The Lease jobflow has no holder, so no replica runs flows."],
    )
    assert found["webhook"][0].startswith("fault: The API server does not reach the webhook: ")


async def test_a_lease_of_a_killed_leader_is_not_renewed(
    real: RealCluster, served: Served, namespace: str
) -> None:
    await until(lambda: served.metric("leader") == 1)
    await asyncio.to_thread(served.kill)
    renewed = datetime.now(UTC) - timedelta(minutes=10)
    patch(real, LEASE, {"spec": {"renewTime": micro_time(renewed)}})
    code, found = await diagnose(real, namespace)
    assert code == 1
    assert "has not renewed the Lease jobflow for 10m" in found["leader"][0]


# ------------------------------------------------------------------ certificates


async def test_a_ca_near_its_end_that_signed_nothing_is_found(
    real: RealCluster, served: Served, namespace: str
) -> None:
    stranger = make_pki(["127.0.0.1"], now=datetime.now(UTC) - timedelta(days=3640))
    bundle = b64encode(stranger.ca_certificate).decode()
    webhooks = real.admin.get(CONFIGURATION).raise_for_status().json()["webhooks"]
    for webhook in webhooks:
        webhook["clientConfig"]["caBundle"] = bundle
    patch(real, CONFIGURATION, {"webhooks": webhooks})
    code, found = await diagnose(real, namespace)
    assert code == 1
    assert found["certificate"][0].endswith("expires in 9d23h.")
    assert found["webhook"][0].startswith("fault: The API server does not reach the webhook: ")
    assert "x509: certificate signed by unknown authority" in found["webhook"][0]


@pytest.mark.usefixtures("served")
async def test_a_serving_certificate_near_its_end_is_found(
    real: RealCluster, namespace: str
) -> None:
    pki = make_pki([HOST], now=datetime.now(UTC) - timedelta(days=361))
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "jobflow-webhook-certificate"},
        "data": {"tls.crt": b64encode(pki.certificate).decode()},
    }
    path = SECRETS.path("default")
    real.admin.post(path, json=secret).raise_for_status()
    try:
        service = {"name": "jobflow-webhook", "namespace": "default"}
        bundle = b64encode(pki.ca_certificate).decode()
        change_webhooks(real, {"service": service, "caBundle": bundle})
        _, found = await diagnose(real, namespace)
    finally:
        real.admin.delete(f"{path}/jobflow-webhook-certificate").raise_for_status()
    assert found["certificate"] == [
        "ok: The caBundle of jobflow is valid.",
        "warning: The certificate in Secret jobflow-webhook-certificate expires in 3d23h.",
    ]
