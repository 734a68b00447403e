"""Certificates on a real API server: shared, rotated under load, damaged; and an expired token."""

import asyncio
import json
import ssl
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from jobflow.api.kinds import KINDS
from jobflow.api.resources import JOBFLOWS, SECRETS, VALIDATING_WEBHOOKS
from jobflow.webhook.certificates.pki import make_pki
from support.cluster.control_plane import token
from support.cluster.real_cluster import RealCluster
from support.cluster.served import Served, registered, until
from support.sandbox.rest_client import flow

pytestmark = pytest.mark.cluster

SECRET = SECRETS.path("default", "jobflow-webhook-certificate")
CONFIGURATION = VALIDATING_WEBHOOKS.path("", "jobflow")
SHORT = ("--certificate-lifetime=12s", "--ca-lifetime=24s")


@pytest.fixture(autouse=True)
def delete_secret(real: RealCluster) -> Iterator[None]:
    yield
    real.admin.delete(SECRET)


def presented(served: Served) -> str:
    return ssl.get_server_certificate(("127.0.0.1", served.webhook_port))


def data(real: RealCluster) -> dict[str, bytes]:
    answer = real.admin.get(SECRET).raise_for_status()
    return {name: b64decode(value) for name, value in answer.json()["data"].items()}


def edit(real: RealCluster, **changed: bytes) -> None:
    """Change the Secret as a user could: `tls_crt` is tls.crt."""
    content = {k.replace("_", "."): b64encode(v).decode() for k, v in changed.items()}
    head = {"Content-Type": "application/merge-patch+json"}
    body = json.dumps({"data": content})
    real.admin.patch(SECRET, content=body, headers=head).raise_for_status()


def bundles(real: RealCluster) -> list[bytes]:
    webhooks = real.admin.get(CONFIGURATION).raise_for_status().json()["webhooks"]
    return [b64decode(webhook["clientConfig"].get("caBundle", "")) for webhook in webhooks]


class Load:
    """Creates that the API server has reviewed, one after another, and their answers."""

    def __init__(self) -> None:
        self.refused = 0
        self.others: list[str] = []

    async def run(self, real: RealCluster, stop: asyncio.Event) -> None:
        own_target = {"name": "a", "dependsOn": {"targets": ["a"]}}
        body = flow("refused") | {"spec": {"flows": [own_target]}}
        async with await real.client() as client:
            while not stop.is_set():
                try:
                    await client.create(
                        JOBFLOWS, "default", json.dumps(body).encode(), query=[("dryRun", "All")]
                    )
                    self.others.append("admitted")
                except Exception as error:
                    if "no step can depend on itself" in str(error) or "422" in str(error)[:3]:
                        self.refused += 1
                    else:
                        self.others.append(str(error))


@asynccontextmanager
async def load(real: RealCluster) -> AsyncIterator[Load]:
    loads, stop = Load(), asyncio.Event()
    tasks = [asyncio.create_task(loads.run(real, stop)) for _ in range(4)]
    try:
        yield loads
    finally:
        stop.set()
        await asyncio.gather(*tasks)
    assert loads.others == []
    assert loads.refused > 0


async def test_replicas_that_start_at_the_same_time_share_a_certificate(
    real: RealCluster, tmp_path: Path
) -> None:
    one = Served(real, tmp_path, files=False)
    other = Served(real, tmp_path, files=False, user="jobflow-2")
    with one.running(ready=False), other.running():
        await until(one.ready)
        assert presented(one) == presented(other) == data(real)["tls.crt"].decode()
        for replica in (one, other):
            with registered(real, replica):
                assert bundles(real) == [data(real)["ca.crt"]] * len(KINDS)
        creates = [
            asked
            for asked in real.audit.asked("default")
            if (asked.verb, asked.resource, asked.code) == ("create", "secrets", 201)
        ]
        assert len(creates) == 1


async def test_certificates_and_cas_rotate_under_load(real: RealCluster, tmp_path: Path) -> None:
    one = Served(real, tmp_path, *SHORT, files=False)
    other = Served(real, tmp_path, *SHORT, files=False, user="jobflow-2")
    with one.running(), other.running(), registered(real, one):
        first = data(real)["ca.crt"]
        async with load(real) as loads:
            await until(lambda: first not in data(real)["ca.crt"])
            await until(lambda: set(bundles(real)) == {data(real)["ca.crt"]})
        assert (one.metric("certificate_swaps_total") or 0) >= 2
        assert one.metric("certificate_refusals_total") == 0
        assert presented(one) == presented(other)
        print("reviews answered while two certificates and a CA were replaced:", loads.refused)


async def test_a_deleted_secret_is_created_again_and_no_review_fails(
    real: RealCluster, tmp_path: Path
) -> None:
    one = Served(real, tmp_path, *SHORT, files=False)
    with one.running(), registered(real, one):
        first = data(real)["ca.crt"]
        async with load(real):
            real.admin.delete(SECRET).raise_for_status()
            await until(lambda: real.admin.get(SECRET).status_code == 200)
            await until(lambda: first not in data(real)["ca.crt"])
            await until(lambda: presented(one) == data(real)["tls.crt"].decode())


async def test_a_secret_edited_by_hand_is_corrected_and_no_review_fails(
    real: RealCluster, tmp_path: Path
) -> None:
    one = Served(real, tmp_path, files=False)
    foreign = make_pki(["127.0.0.1"])
    with one.running(), registered(real, one):
        before = data(real)
        async with load(real):
            for changed in (
                {"tls_key": foreign.key},
                {"tls_crt": foreign.certificate, "tls_key": foreign.key},
                {"ca_crt": b"nonsense"},
            ):
                edit(real, **changed)
                await until(lambda: data(real) == before)
        assert presented(one) == before["tls.crt"].decode()
        assert one.metric("certificate_refusals_total") == 3
        assert "tls.key is not the key of the first certificate in tls.crt" in one.log()


async def test_a_removed_bundle_is_restored(real: RealCluster, tmp_path: Path) -> None:
    one = Served(real, tmp_path, files=False)
    with one.running(), registered(real, one):
        head = {"Content-Type": "application/json-patch+json"}
        paths = [f"/webhooks/{i}/clientConfig/caBundle" for i in range(len(KINDS))]
        drop = [{"op": "remove", "path": path} for path in paths]
        real.admin.patch(CONFIGURATION, content=json.dumps(drop), headers=head).raise_for_status()
        await until(lambda: bundles(real) == [data(real)["ca.crt"]] * len(KINDS))
        await until(one.ready)


async def test_files_that_do_not_match_are_refused_and_reviews_continue(
    real: RealCluster, tmp_path: Path
) -> None:
    one = Served(real, tmp_path)
    with one.running(), registered(real, one):
        before = presented(one)
        key = one.pki.serving.key
        original = key.read_bytes()
        async with load(real):
            key.write_bytes(one.pki.ca_key.read_bytes())
            await until(lambda: one.metric("certificate_refusals_total") == 1)
        assert presented(one) == before
        assert one.ready()
        assert f"{key} is not the key of {one.pki.serving.certificate}" in one.log()
        key.write_bytes(original)


def test_files_that_do_not_match_prevent_a_start(real: RealCluster, tmp_path: Path) -> None:
    one = Served(real, tmp_path)
    one.pki.serving.key.write_bytes(one.pki.ca_key.read_bytes())
    one.launch()
    assert one.exit_code() == 2
    message = f"{one.pki.serving.key} is not the key of {one.pki.serving.certificate}"
    assert one.log().splitlines()[-1] == f"jobflow: error: {message}"


async def test_missing_rights_to_the_secret_are_reported(real: RealCluster, tmp_path: Path) -> None:
    one = Served(real, tmp_path, "--no-controller", files=False, user="alice")
    with one.running(ready=False):
        await until(
            lambda: any(
                clause.startswith("a certificate: Secret default/jobflow-webhook-certificate")
                and 'User "alice" cannot list resource "secrets"' in clause
                for clause in one.waiting_for() or ()
            )
        )


async def test_an_expired_token_is_reported_and_a_new_one_is_used(
    real: RealCluster, tmp_path: Path
) -> None:
    config = json.loads(real.plane.kubeconfig("jobflow").read_text())
    file = tmp_path / "token"
    file.write_text("ended")
    config["users"][0]["user"] = {"tokenFile": str(file)}
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(config))
    one = Served(real, tmp_path, kubeconfig=kubeconfig)
    with one.running(ready=False):
        await until(lambda: any("401 Unauthorized" in clause for clause in one.waiting_for() or ()))
        file.write_text(token("jobflow"))
        await until(one.ready)
