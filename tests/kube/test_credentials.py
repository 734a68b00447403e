"""Address and credentials of the API server from kubeconfigs, plugins and pods."""

import base64
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from jobflow.api.resources import JOBS
from jobflow.kube import credentials
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client
from jobflow.kube.credentials import ConfigError, Credentials, Login, is_loopback
from jobflow.webhook.certificates.live import PkiFiles, write_development_pki
from support.network.scripted_server import Answer, ScriptedServer, failure


async def error_of(client: Client) -> ApiError:
    with pytest.raises(ApiError) as info:
        await client.create(JOBS, "ns", b"{}")
    return info.value


def kubeconfig(path: Path, server: str, authority: Path | None = None, **user: Any) -> str:
    cluster = {"server": server}
    if authority is not None:
        cluster["certificate-authority-data"] = base64.b64encode(authority.read_bytes()).decode()
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "team"}}],
        "clusters": [{"name": "k", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(json.dumps(config))
    return str(path)


async def test_a_kubeconfig_gives_server_and_token(server: ScriptedServer, tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", server.url, token="t1")
    server.others.append(Answer(body={}))
    async with await Client.from_kubeconfig(path) as client:
        await client.request("GET", "/version")
        assert client.namespace == "team"
    assert server.requests[0].headers["Authorization"] == "Bearer t1"


async def test_a_refused_token_is_read_again(server: ScriptedServer, tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", server.url, token="t1")
    server.others += [Answer(401, failure(401, "Unauthorized")), Answer(body={})]
    async with await Client.from_kubeconfig(path) as client:
        kubeconfig(tmp_path / "config", server.url, token="t2")
        await client.create(JOBS, "ns", b'{"a":1}')
    assert [sent.headers["Authorization"] for sent in server.requests] == ["Bearer t1", "Bearer t2"]
    assert [sent.body for sent in server.requests] == [b'{"a":1}', b'{"a":1}']


async def test_an_unchanged_token_is_not_retried(server: ScriptedServer, tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", server.url, token="t1")
    server.others.append(Answer(401, failure(401, "Unauthorized")))
    async with await Client.from_kubeconfig(path) as client:
        assert (await error_of(client)).code == 401
    assert len(server.requests) == 1


async def test_an_old_token_is_read_again() -> None:
    clock = [0.0]
    tokens = iter(["t2", "t3"])

    async def reread() -> Login:
        return Login("http://x", next(tokens))

    credentials = Credentials(Login("http://x", "t1"), reread=reread, clock=lambda: clock[0])
    clock[0] = 59
    assert (await credentials.login()).authorization == "t1"
    clock[0] = 60
    assert (await credentials.login()).authorization == "t2"
    clock[0] = 119
    assert (await credentials.login()).authorization == "t2"


async def test_credentials_stay_unchanged_if_they_cannot_be_read() -> None:
    async def broken() -> Login:
        raise ConfigError("token file is empty")

    clock = [0.0]
    login = Login("http://x", "t1")
    credentials = Credentials(login, reread=broken, renew=broken, clock=lambda: clock[0])
    clock[0] = 100
    assert await credentials.login() == login
    assert await credentials.renewed(login) is None


async def test_a_refusal_runs_the_plugin_again(server: ScriptedServer, tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    counter = tmp_path / "count"
    plugin.write_text(
        f"#!/bin/sh\necho x >> {counter}\nn=$(wc -l < {counter})\necho "
        '"{\\"apiVersion\\": \\"client.authentication.k8s.io/v1\\", \\"kind\\": '
        '\\"ExecCredential\\", \\"status\\": {\\"token\\": \\"t$((n))\\"}}"\n'
    )
    plugin.chmod(0o755)
    run = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)}
    path = kubeconfig(tmp_path / "config", server.url, exec=run)
    server.others += [Answer(401, failure(401)), Answer(body={}), Answer(body={})]
    async with await Client.from_kubeconfig(path) as client:
        await client.create(JOBS, "ns", b"{}")
        await client.create(JOBS, "ns", b"{}")
    tokens = [sent.headers["Authorization"] for sent in server.requests]
    assert tokens == ["Bearer t1", "Bearer t2", "Bearer t2"]


@pytest.mark.parametrize("text", ["", "[]", "a: [", "clusters: 1", "{}", "\x00"])
async def test_an_unusable_kubeconfig_is_reported(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(ConfigError, match=str(path)):
        await Client.from_kubeconfig(str(path))


async def test_a_missing_kubeconfig_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        await Client.from_kubeconfig(str(tmp_path / "none"))


async def test_without_a_kubeconfig_that_of_a_sandbox_in_this_folder_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    missing = f"no kubeconfig at {tmp_path}/.kube/config and not inside a pod: "
    advice = "pass --kubeconfig or set KUBECONFIG"
    with pytest.raises(ConfigError, match=f"^{missing}{advice}$"):
        await Client.from_kubeconfig(None)
    (tmp_path / ".jobflow").mkdir()
    (tmp_path / ".jobflow" / "kubeconfig").touch()
    sandbox = "`export KUBECONFIG=.jobflow/kubeconfig` uses the sandbox"
    with pytest.raises(ConfigError, match=f"^{missing}{advice}; {sandbox}"):
        await Client.from_kubeconfig(None)


@pytest.fixture
def pki(tmp_path: Path) -> PkiFiles:
    return write_development_pki(tmp_path / "pki", ["127.0.0.1"])


@pytest.fixture
async def secure(pki: PkiFiles) -> AsyncIterator[ScriptedServer]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki.serving.certificate, pki.serving.key)
    async with ScriptedServer(context) as server:
        yield server


async def test_https_trusts_the_kubeconfig(
    secure: ScriptedServer, pki: PkiFiles, tmp_path: Path
) -> None:
    secure.others.append(Answer(body={}))
    path = kubeconfig(tmp_path / "config", secure.url, pki.ca_certificate, token="t1")
    async with await Client.from_kubeconfig(path) as client:
        await client.create(JOBS, "ns", b"{}")
    assert secure.requests[0].headers["Authorization"] == "Bearer t1"


async def test_an_untrusted_server_is_refused(secure: ScriptedServer, tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", secure.url, token="t1")
    async with await Client.from_kubeconfig(path) as client:
        with pytest.raises(NETWORK_ERRORS):
            await client.create(JOBS, "ns", b"{}")
    assert secure.requests == []


async def test_a_pod_uses_its_service_account_and_its_new_tokens(
    secure: ScriptedServer, pki: PkiFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = tmp_path / "account"
    account.mkdir()
    (account / "ca.crt").write_bytes(pki.ca_certificate.read_bytes())
    (account / "token").write_text("t1\n")
    (account / "namespace").write_text("jobflow-system\n")
    monkeypatch.setattr(credentials, "SERVICE_ACCOUNT", account)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    host, port = secure.url.removeprefix("https://").split(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    secure.others += [Answer(body={}), Answer(401, failure(401)), Answer(body={})]
    async with await Client.from_kubeconfig(None) as client:
        assert client.namespace == "jobflow-system"
        await client.create(JOBS, "ns", b"{}")
        (account / "token").write_text("t2\n")
        await client.create(JOBS, "ns", b"{}")
    tokens = [sent.headers["Authorization"] for sent in secure.requests]
    assert tokens == ["Bearer t1", "Bearer t1", "Bearer t2"]


async def test_no_configuration_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ConfigError, match="pass --kubeconfig or set KUBECONFIG"):
        await Client.from_kubeconfig(None)


async def test_a_token_file_is_read_again(
    server: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "REREAD_SECONDS", 0.0)
    token = tmp_path / "token"
    token.write_text("t1")
    path = kubeconfig(tmp_path / "config", server.url, tokenFile=str(token))
    server.others += [Answer(body={}), Answer(body={})]
    async with await Client.from_kubeconfig(path) as client:
        await client.create(JOBS, "ns", b"{}")
        token.write_text("t2")
        await client.create(JOBS, "ns", b"{}")
    tokens = [sent.headers["Authorization"] for sent in server.requests]
    assert tokens == ["Bearer t1", "Bearer t2"]


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("http://127.0.0.1:80", True),
        ("http://localhost:80", True),
        ("https://[::1]:6443", True),
        ("https://10.0.0.1", False),
        ("https://localhost.example", False),
    ],
)
def test_loopback_addresses_need_no_proxy(server: str, expected: bool) -> None:
    assert is_loopback(server) is expected
