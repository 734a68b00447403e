"""`jobflow serve` from its start to its end, against the sandbox's API server."""

import asyncio
import gc
import json
import os
import signal
import socket
import ssl
import sys
from base64 import b64decode
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from jobflow.api.resources import CRDS, JOBFLOWS, LEASES, SECRETS
from jobflow.app.serve import serve
from jobflow.app.settings import Settings
from jobflow.controller.controller import Controller
from jobflow.kube.client import ApiError, Client
from jobflow.kube.credentials import ConfigError
from jobflow.runtime.event_loop import PartDied
from jobflow.runtime.http_listener import PortInUse
from jobflow.webhook.certificates.live import PkiFiles, write_development_pki
from jobflow.webhook.certificates.pki import CertificateError
from support.admission.admissions import review
from support.network.anonymous import anonymous
from support.sandbox.api_server import ApiServer
from support.sandbox.manifests import jobflow


@pytest.fixture(autouse=True)
def restore_garbage_collector() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


@pytest.fixture
def pki(tmp_path: Path) -> PkiFiles:
    return write_development_pki(tmp_path / "certs", ["127.0.0.1"])


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port: int = sock.getsockname()[1]
    return port


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    """An API server, whose kubeconfig is in the test's folder."""
    async with ApiServer() as server:
        server.write_kubeconfig(tmp_path / "kubeconfig")
        yield server


@pytest.fixture
async def client(server: ApiServer) -> AsyncIterator[Client]:
    async with Client(anonymous(server.url)) as client:
        yield client


Make = Callable[..., Settings]


@pytest.fixture
def settings(tmp_path: Path, pki: PkiFiles, server: ApiServer) -> Make:
    """Make settings for the server, with free ports and the certificate of `pki`."""
    return lambda **others: Settings(
        **{
            "kubeconfig": str(tmp_path / "kubeconfig"),
            "http_port": free_port(),
            "webhook_port": free_port(),
            "tls_cert": pki.serving.certificate,
            "tls_key": pki.serving.key,
            **others,
        }
    )


@asynccontextmanager
async def serving(options: Settings) -> AsyncIterator[asyncio.Event]:
    """Run `serve` in this process, send SIGTERM to it at the end, and expect a clean exit."""
    ready = asyncio.Event()
    task = asyncio.create_task(serve(options, on_ready=ready.set))
    try:
        yield ready
    finally:
        if not task.done():
            os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(10):
            await task


async def get(options: Settings, path: str) -> httpx.Response:
    """Return an answer of the HTTP port as soon as it is open."""
    async with httpx.AsyncClient(trust_env=False) as client:
        while True:
            try:
                return await client.get(f"http://127.0.0.1:{options.http_port}{path}")
            except httpx.ConnectError:
                await asyncio.sleep(0.02)


async def until(
    options: Settings, path: str, holds: Callable[[httpx.Response], bool]
) -> httpx.Response:
    async with asyncio.timeout(10):
        while True:
            if holds(answer := await get(options, path)):
                return answer
            await asyncio.sleep(0.02)


async def review_flow(options: Settings, pki: PkiFiles, flow: dict[str, Any]) -> httpx.Response:
    trust = ssl.create_default_context(cafile=pki.ca_certificate)
    async with httpx.AsyncClient(verify=trust, trust_env=False) as client:
        url = f"https://127.0.0.1:{options.webhook_port}/jobflows/validate"
        return await client.post(url, content=review("CREATE", flow))


@pytest.mark.long
async def test_a_replica_serves_until_sigterm(pki: PkiFiles, settings: Make) -> None:
    options = settings()
    async with serving(options) as ready:
        async with asyncio.timeout(10):
            await ready.wait()
        assert (await get(options, "/readyz")).json()["ready"] is True
        alive = await get(options, "/healthz")
        assert (alive.status_code, alive.json()["status"]) == (200, "ok")
        answer = (await review_flow(options, pki, jobflow("f", {"a": ["a"]}))).json()
        assert answer["response"]["allowed"] is False
        metrics = await get(options, "/metrics")
        assert metrics.headers["content-type"].startswith("text/plain; version=")
        assert 'outcome="refused"' in metrics.text
        assert gc.get_freeze_count() > 0


@pytest.mark.long
async def test_readiness_requires_an_api_server(tmp_path: Path, settings: Make) -> None:
    port = free_port()
    ApiServer(port=port).write_kubeconfig(tmp_path / "kubeconfig")
    options = settings()
    async with serving(options) as ready:
        answer = await get(options, "/readyz")
        assert (answer.status_code, answer.json()["ready"]) == (503, False)
        assert (await get(options, "/healthz")).status_code == 200
        waiting = answer.json()["waiting_for"]
        assert waiting[0].startswith("the API server to list jobflows")
        assert not ready.is_set()
        async with ApiServer(port=port), asyncio.timeout(30):
            await ready.wait()
            assert (await get(options, "/readyz")).status_code == 200


async def test_a_replica_can_stop_before_its_first_list(tmp_path: Path, settings: Make) -> None:
    ApiServer(port=free_port()).write_kubeconfig(tmp_path / "kubeconfig")
    options = settings()
    async with serving(options) as ready:
        await get(options, "/healthz")
    assert not ready.is_set()


@pytest.mark.long
async def test_readiness_ends_first(monkeypatch: pytest.MonkeyPatch, settings: Make) -> None:
    answers: list[httpx.Response] = []
    stopped = Controller.stop

    def stop(self: Controller) -> None:
        asking = asyncio.create_task(get(options, "/readyz"))
        asking.add_done_callback(lambda task: (answers.append(task.result()), stopped(self)))

    monkeypatch.setattr(Controller, "stop", stop)
    options = settings()
    async with serving(options) as ready:
        await ready.wait()
    (answer,) = answers
    assert (answer.status_code, answer.json()["ready"]) == (503, False)
    assert answer.json()["waiting_for"] == ["its end: it is being stopped"]


@pytest.mark.long
async def test_a_replica_answers_and_leads_during_the_shutdown_delay(
    pki: PkiFiles, client: Client, settings: Make
) -> None:
    """Readiness ends first. The webhook answers until all clients know that, and ends their
    connections with an answer. The lease is released last."""
    options = settings(shutdown_delay="700ms")
    async with serving(options) as ready:
        await ready.wait()
        await until_leads(client)
        os.kill(os.getpid(), signal.SIGTERM)
        await until(options, "/readyz", lambda answer: answer.status_code == 503)
        answer = await review_flow(options, pki, jobflow("f", {"a": []}))
        assert (answer.status_code, answer.headers["connection"]) == (200, "close")
        assert await holder(client) != ""
    assert await holder(client) == ""


async def holder(client: Client) -> str:
    lease = json.loads(await client.request("GET", LEASES.path("default", "jobflow")))
    return lease["spec"].get("holderIdentity") or ""


async def until_leads(client: Client) -> None:
    while True:
        try:
            if await holder(client):
                return
        except ApiError as error:
            assert error.not_found
        await asyncio.sleep(0.01)


@pytest.mark.long
async def test_no_lease_exists_without_leader_election(server: ApiServer, settings: Make) -> None:
    options = settings(no_leader_election=True)
    async with serving(options) as ready:
        await ready.wait()
        await until(options, "/metrics", lambda answer: "jobflow_leader 1.0" in answer.text)
    assert not [seen for seen in server.requests if "/leases" in seen.path]


async def test_readiness_names_the_missing_kind(client: Client, settings: Make) -> None:
    await client.delete(CRDS, "", "jobs.batch.volcano.sh")
    options = settings()
    async with serving(options) as ready:
        clause = (
            "the API server to list jobs: batch.volcano.sh/v1alpha1 Job is not served; "
            "Volcano installs it"
        )
        await until(options, "/readyz", lambda answer: answer.json()["waiting_for"] == [clause])
    assert not ready.is_set()


@pytest.mark.long
async def test_a_certificate_is_generated_without_files(client: Client, settings: Make) -> None:
    options = settings(tls_cert=None, tls_key=None, webhook_host="127.0.0.1")
    async with serving(options) as ready:
        await ready.wait()
        path = SECRETS.path("default", options.certificate_secret)
        secret = json.loads(await client.request("GET", path))["data"]
        trust = ssl.create_default_context(cadata=b64decode(secret["ca.crt"]).decode())
        async with httpx.AsyncClient(verify=trust, trust_env=False) as asking:
            url = f"https://127.0.0.1:{options.webhook_port}/"
            assert (await asking.get(url)).status_code == 200
        expiry = "jobflow_certificate_expiry_timestamp_seconds"
        assert expiry in (await get(options, "/metrics")).text


@pytest.mark.long
async def test_a_replica_can_be_limited_to_one_namespace_without_a_controller(
    server: ApiServer, client: Client, settings: Make
) -> None:
    options = settings(namespace="team", no_controller=True)
    async with serving(options) as ready:
        await ready.wait()
        await client.create(JOBFLOWS, "default", json.dumps(jobflow("f", {"a": []})).encode())
        assert "jobflow_flows{" not in (await get(options, "/metrics")).text
    watched = {seen.path for seen in server.requests if seen.query.get("watch")}
    assert JOBFLOWS.path("team") in watched
    assert all("/namespaces/team/" in path for path in watched)
    assert not [seen for seen in server.requests if seen.path.endswith("/status")]


@pytest.mark.long
async def test_a_replica_without_a_webhook_needs_no_certificate(settings: Make) -> None:
    options = settings(no_webhook=True, tls_cert=None, tls_key=None)
    async with serving(options) as ready:
        await ready.wait()
        assert (await get(options, "/readyz")).status_code == 200


@pytest.mark.long
async def test_a_dead_part_ends_serve(monkeypatch: pytest.MonkeyPatch, settings: Make) -> None:
    async def die(self: Controller) -> None:
        raise RuntimeError("out of steam")

    monkeypatch.setattr(Controller, "run", die)
    with pytest.raises(PartDied, match="^the controller died: out of steam$"):
        await serve(settings())


@pytest.mark.long
async def test_the_process_logs_json_and_obeys_sigterm(settings: Make) -> None:
    options = settings()
    variables = {
        f"JOBFLOW_{k.upper()}": str(v) for k, v in options.model_dump(exclude_unset=True).items()
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", "from jobflow.cli.main import main; main()", "serve"),
        env=os.environ | variables,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    async with asyncio.timeout(30):
        events = []
        while "ready" not in events:
            events.append(json.loads(await process.stderr.readline())["event"])
        process.terminate()
        remaining = (await process.stderr.read()).splitlines()
        assert await process.wait() == 0
    assert "started" in events
    assert "stopping" in [json.loads(line)["event"] for line in remaining]


async def test_a_missing_kubeconfig_is_named(tmp_path: Path, settings: Make) -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        await serve(settings(kubeconfig=str(tmp_path / "nowhere")))


async def test_an_unusable_certificate_is_explained(pki: PkiFiles, settings: Make) -> None:
    with pytest.raises(CertificateError, match="is not the key of"):
        await serve(settings(tls_key=pki.ca_key))
    with pytest.raises(CertificateError, match="'hôte' is neither a host name nor"):
        await serve(settings(tls_cert=None, tls_key=None, webhook_host="hôte"))


@pytest.mark.parametrize("port", ["http_port", "webhook_port"])
async def test_a_port_in_use_is_named_with_its_flag(port: str, settings: Make) -> None:
    with socket.create_server(("", 0)) as used:
        number = used.getsockname()[1]
        options = settings(**{port: number})
        flag = f"--{port.replace('_', '-')}"
        with pytest.raises(PortInUse, match=rf"port {number}: .* choose another port by {flag}$"):
            await serve(options)
