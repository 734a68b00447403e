"""Client certificates of a webhook, over real sockets."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.x509.oid import ExtendedKeyUsageOID

from jobflow.runtime.http_listener import HttpListener
from jobflow.webhook.app import create_app
from jobflow.webhook.certificates.live import Live, Watched, watch_client_ca
from jobflow.webhook.certificates.pki import (
    CertificateError,
    Pair,
    make_authority,
    make_pki,
    make_serving,
    pem,
    pem_key,
)
from support.admission.admissions import FakeCluster, review, stored
from support.sandbox.manifests import jobflow

SERVING, OTHER = make_pki(["127.0.0.1"]), make_pki(["127.0.0.1"])
NOW = datetime.now(UTC)
DAY = timedelta(days=1)
CLIENTS, STRANGERS = (make_authority(now=NOW, lifetime=DAY) for _ in range(2))
GOOD = review("CREATE", stored(jobflow("f", {"a": []})))


def client_of(authority: Pair) -> Pair:
    serving = make_serving(authority, ["apiserver"], now=NOW, lifetime=DAY / 2)
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(serving.certificate.subject)
        .issuer_name(authority.certificate.subject)
        .public_key(serving.key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(serving.certificate.not_valid_before_utc)
        .not_valid_after(serving.certificate.not_valid_after_utc)
        .add_extension(usage, critical=False)
        .sign(authority.key, hashes.SHA256())
    )
    return Pair(certificate, serving.key)


class Webhook:
    def __init__(self, live: Live, folder: Path) -> None:
        self.live = live
        self._folder = folder
        self._listener = HttpListener(
            create_app(FakeCluster()), port=0, flag="", host="127.0.0.1", tls=live.tls
        )

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Webhook]:
        task = asyncio.create_task(self._listener.serve())
        yield self
        self._listener.stop()
        await task

    async def answers(self, presented: Pair | None) -> bool:
        trust = ssl.create_default_context(
            cadata=(SERVING.ca_certificate + OTHER.ca_certificate).decode()
        )
        if presented is not None:
            file = self._folder / "client.pem"
            file.write_bytes(pem(presented.certificate) + pem_key(presented.key))
            trust.load_cert_chain(file)
        url = f"https://127.0.0.1:{self._listener.port}"
        async with httpx.AsyncClient(verify=trust, base_url=url, trust_env=False) as client:
            try:
                answer = await client.post("/jobflows/validate", content=GOOD)
            except (httpx.TransportError, ssl.SSLError):
                return False
        assert answer.json()["response"]["allowed"] is True
        return True


@pytest.fixture
async def webhook(tmp_path: Path) -> AsyncIterator[Webhook]:
    live = Live()
    live.put(SERVING.certificate, SERVING.key, "tls.crt", "tls.key")
    async with Webhook(live, tmp_path).serving() as webhook:
        yield webhook


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "clients.crt"
    path.write_bytes(pem(CLIENTS.certificate))
    return path


async def test_by_default_clients_need_no_certificate(webhook: Webhook) -> None:
    assert await webhook.answers(None)


async def test_clients_need_a_certificate_of_the_ca(webhook: Webhook, file: Path) -> None:
    watch_client_ca(file, webhook.live)
    assert await webhook.answers(client_of(CLIENTS))
    assert not await webhook.answers(None)
    assert not await webhook.answers(client_of(STRANGERS))
    serving = make_serving(CLIENTS, ["apiserver"], now=NOW, lifetime=DAY / 2)
    assert not await webhook.answers(serving), "it is no client's"


async def test_clients_need_a_certificate_after_a_swap(webhook: Webhook, file: Path) -> None:
    watch_client_ca(file, webhook.live)
    webhook.live.put(OTHER.certificate, OTHER.key, "tls.crt", "tls.key")
    assert await webhook.answers(client_of(CLIENTS))
    assert not await webhook.answers(None)


async def test_a_changed_file_is_read_again(webhook: Webhook, file: Path) -> None:
    watched = watch_client_ca(file, webhook.live)
    _change(file, pem(STRANGERS.certificate), watched)
    assert await webhook.answers(client_of(STRANGERS))
    assert not await webhook.answers(client_of(CLIENTS))
    for content in (b"no PEM", b"\xff", b""):
        _change(file, content, watched)
    assert await webhook.answers(client_of(STRANGERS))
    assert webhook.live.refused == 1, "the reason is the same each time"


def _change(file: Path, content: bytes, watched: Watched[bytes]) -> None:
    file.write_bytes(content)
    watched.look()


@pytest.mark.parametrize(
    ("content", "message"),
    [(text, "is not a PEM certificate of a CA$") for text in (b"", b"no PEM", b"\xff", SERVING.key)]
    + [(None, "no such file")],
)
def test_a_file_without_ca_is_refused(content: bytes | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "clients.crt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CertificateError, match=rf"clients\.crt:? {message}"):
        watch_client_ca(path, Live())


async def test_the_ca_can_be_set_before_the_serving_certificate(tmp_path: Path, file: Path) -> None:
    live = Live()
    watch_client_ca(file, live)
    live.put(SERVING.certificate, SERVING.key, "tls.crt", "tls.key")
    async with Webhook(live, tmp_path).serving() as webhook:
        assert await webhook.answers(client_of(CLIENTS))
        assert not await webhook.answers(None)
