"""Access to the sandbox: other users, web pages and a second sandbox are refused."""

import os
import ssl
import stat
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from jobflow.app.sandbox_world import SandboxOptions, sandbox_world
from jobflow.kube.credentials import ConfigError
from jobflow.sandbox.apiserver.requests.access import Access, kubeconfig, kubeconfig_file
from jobflow.sandbox.nodes.logs import new_folder
from jobflow.webhook.certificates.live import write_development_pki
from support.sandbox.api_server import ApiServer
from support.sandbox.command_line import jobflow

NAMESPACES = "/api/v1/namespaces"


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    pki = write_development_pki(tmp_path, ["127.0.0.1"])
    access = Access(tls=pki.serving.context(), ca=pki.ca_certificate.read_bytes())
    async with ApiServer(access=access) as running:
        yield running


@pytest_asyncio.fixture
async def client(server: ApiServer) -> AsyncIterator[httpx.AsyncClient]:
    """An HTTP client that sends the sandbox's token."""
    assert server.access is not None
    async with httpx.AsyncClient(
        base_url=server.url,
        headers={"Authorization": f"Bearer {server.access.token}"},
        verify=ssl.create_default_context(cadata=server.access.ca.decode()),
        trust_env=False,
    ) as client:
        yield client


async def test_a_request_with_the_token_is_answered(client: httpx.AsyncClient) -> None:
    assert (await client.get(NAMESPACES)).status_code == 200


@pytest.mark.parametrize("authorization", ["", "Bearer", "Bearer guessed", "Basic Zm9v"])
@pytest.mark.parametrize("path", [NAMESPACES, "/version", "/openapi/v3", "/nowhere"])
async def test_a_request_without_the_token_is_unauthorized(
    client: httpx.AsyncClient, authorization: str, path: str
) -> None:
    answer = await client.get(path, headers={"Authorization": authorization})
    assert (answer.status_code, answer.json()["message"]) == (401, "Unauthorized")


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example.com"},
        {"Host": "127.0.0.1.evil.example.com"},
        {"Host": "[::2]:80"},
        {"Host": ""},
        {"Origin": "https://evil.example.com"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1"},
    ],
    ids=str,
)
async def test_a_web_page_is_refused_even_with_the_token(
    client: httpx.AsyncClient, headers: dict[str, str]
) -> None:
    answer = await client.get(NAMESPACES, headers=headers)
    assert answer.status_code == 403
    assert "use the kubeconfig that the sandbox wrote" in answer.json()["message"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:6443", "LOCALHOST", "[::1]:6443"])
async def test_every_local_host_name_is_accepted(client: httpx.AsyncClient, host: str) -> None:
    assert (await client.get(NAMESPACES, headers={"Host": host})).status_code == 200


async def test_a_body_needs_a_content_type(client: httpx.AsyncClient) -> None:
    body = b'{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "made"}}'
    answer = await client.post(NAMESPACES, content=body)
    assert (answer.status_code, answer.json()["reason"]) == (415, "UnsupportedMediaType")
    headers = {"Content-Type": "application/json"}
    assert (await client.post(NAMESPACES, content=body, headers=headers)).status_code == 201


async def test_web_pages_are_refused_by_a_server_without_a_token() -> None:
    async with ApiServer() as server, httpx.AsyncClient(trust_env=False) as client:
        answer = await client.get(server.url, headers={"Origin": "https://evil.example.com"})
    assert answer.status_code == 403


@pytest.mark.long
async def test_each_sandbox_writes_its_own_token_to_a_private_file(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    tokens = []
    for _ in range(2):
        async with sandbox_world(SandboxOptions(kubeconfig=path)) as world:
            assert world.server.access is not None
            token = world.server.access.token
            assert f"token: {token}" in path.read_text()
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            tokens.append(token)
        assert not path.exists()
    assert len(set(tokens)) == 2


def test_an_existing_kubeconfig_becomes_private(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(kubeconfig("https://127.0.0.1:1", None))
    path.chmod(0o644)
    with kubeconfig_file(path, "new"):
        assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", 0o600)


def test_a_second_sandbox_does_not_overwrite_the_kubeconfig_of_the_first(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    text = kubeconfig("https://127.0.0.1:1", None)
    with kubeconfig_file(path, text):
        with pytest.raises(ConfigError, match="is in use by another sandbox"):
            with kubeconfig_file(path, "other"):
                pass
        assert path.read_text() == text
    with kubeconfig_file(path, "other"):
        assert path.read_text() == "other"


def test_the_command_exits_if_the_kubeconfig_is_in_use(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    with kubeconfig_file(path, kubeconfig("https://127.0.0.1:1", None)):
        result = jobflow("sandbox", "--kubeconfig", path)
    assert result.code == 2
    assert result.err.startswith(f"jobflow: error: {path} is in use by another sandbox")


def test_log_folders_are_private(tmp_path: Path) -> None:
    folder, lock = new_folder(tmp_path / "logs", datetime.now(UTC))
    os.close(lock)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700


def test_a_kubeconfig_of_another_cluster_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("current-context: production\n")
    with pytest.raises(ConfigError, match="is not overwritten; choose another file"):
        with kubeconfig_file(path, "new"):
            pass
    assert path.read_text() == "current-context: production\n"
