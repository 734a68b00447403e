"""The certificate in use: swaps under load, refusals, and files."""

import asyncio
import ssl
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from jobflow.runtime.http_listener import HttpListener
from jobflow.webhook.app import create_app
from jobflow.webhook.certificates.live import CertificateFiles, Live, watch_certificate
from jobflow.webhook.certificates.pki import (
    CertificateError,
    Pki,
    make_authority,
    make_pki,
    make_serving,
    pem,
    pem_key,
)
from support.admission.admissions import FakeCluster, review
from support.sandbox.manifests import jobflow
from support.time.alongside import until
from support.time.certificate_rings import BEGIN, Clock, handshake

HOSTS = ["localhost", "127.0.0.1"]
ONE, OTHER = make_pki(HOSTS), make_pki(HOSTS)


def put(live: Live, pki: Pki) -> None:
    live.put(pki.certificate, pki.key, "tls.crt", "tls.key")


def der(pki: Pki) -> bytes:
    return x509.load_pem_x509_certificate(pki.certificate).public_bytes(Encoding.DER)


def ca(pki: Pki) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pki.ca_certificate)


def presents(live: Live, pki: Pki, host: str = "localhost") -> bool:
    return handshake(live, ca(pki), host) == der(pki)


@pytest.fixture
def live() -> Live:
    certificate = Live()
    put(certificate, ONE)
    return certificate


class TestPresentedCertificates:
    @pytest.mark.parametrize("host", HOSTS)
    def test_the_pair_is_presented_for_names_and_addresses(self, live: Live, host: str) -> None:
        assert presents(live, ONE, host)

    def test_the_last_pair_is_presented(self, live: Live) -> None:
        put(live, OTHER)
        assert presents(live, OTHER)
        assert live.swaps == 1

    def test_a_handshake_without_a_certificate_fails(self) -> None:
        live = Live()
        with pytest.raises(ssl.SSLError, match="callback failed"):
            handshake(live, ca(ONE))
        assert live.waiting_for() == ["a certificate: none exists yet"]

    def test_a_pair_that_does_not_match_is_not_presented(self, live: Live) -> None:
        for _ in range(2):
            with pytest.raises(CertificateError, match=r"^tls\.key is not the key of tls\.crt$"):
                live.put(OTHER.certificate, ONE.key, "tls.crt", "tls.key")
        assert presents(live, ONE)
        assert (live.swaps, live.refused) == (0, 1)
        assert live.waiting_for() == []

    @pytest.mark.parametrize("chain", [b"", b"hello", ONE.key], ids=["empty", "text", "a key"])
    def test_a_malformed_certificate_is_refused(self, chain: bytes) -> None:
        with pytest.raises(CertificateError, match=r"^tls\.crt is not a PEM certificate$"):
            Live().put(chain, ONE.key, "tls.crt", "tls.key")

    def test_a_certificate_outside_its_validity_is_refused(self) -> None:
        clock = Clock()
        authority = make_authority(now=BEGIN, lifetime=timedelta(days=9))
        pair = make_serving(authority, HOSTS, now=BEGIN, lifetime=timedelta(days=3))
        chain, key = pem(pair.certificate), pem_key(pair.key)
        live = Live(now=clock)
        clock.advance(-timedelta(hours=2))
        with pytest.raises(CertificateError, match="is not valid before 2026-08-01 11:00"):
            live.put(chain, key, "tls.crt", "tls.key")
        clock.advance(timedelta(hours=2))
        live.put(chain, key, "tls.crt", "tls.key")
        clock.advance(timedelta(days=3))
        (reason,) = live.waiting_for()
        assert reason.startswith(
            "a certificate that is valid: the one in use expired at 2026-08-04"
        )
        with pytest.raises(CertificateError, match="expired at 2026-08-04"):
            live.put(chain, key, "tls.crt", "tls.key")


class TestFiles:
    @pytest.fixture
    def files(self, tmp_path: Path) -> CertificateFiles:
        files = CertificateFiles(tmp_path / "tls.crt", tmp_path / "tls.key")
        write(files, ONE)
        return files

    def test_changed_files_are_read(self, files: CertificateFiles) -> None:
        live = Live()
        watched = watch_certificate(files, live)
        watched.look()
        assert live.swaps == 0
        write(files, OTHER)
        watched.look()
        assert presents(live, OTHER)
        assert (live.swaps, watched.waiting_for()) == (1, [])

    async def test_files_are_polled(
        self, files: CertificateFiles, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("jobflow.webhook.certificates.live.LOOK_SECONDS", 0.01)
        live = Live()
        task = asyncio.create_task(watch_certificate(files, live).run())
        write(files, OTHER)
        async with asyncio.timeout(10):
            while not live.swaps:  # noqa: ASYNC110 - no event reports a swap
                await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])
        assert presents(live, OTHER)

    @pytest.mark.parametrize("key", [ONE.key, None], ids=["other key", "no key"])
    def test_a_pair_is_refused_until_it_matches(self, files: CertificateFiles, key: Any) -> None:
        live = Live()
        watched = watch_certificate(files, live)
        files.certificate.write_bytes(OTHER.certificate)
        files.key.unlink() if key is None else files.key.write_bytes(key)
        watched.look()
        watched.look()
        assert presents(live, ONE)
        assert (live.swaps, live.refused) == (0, 1)
        files.key.write_bytes(OTHER.key)
        watched.look()
        assert presents(live, OTHER)

    def test_files_that_keep_changing_are_used_as_last_read(
        self, files: CertificateFiles, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        read = 0

        def read_changed(path: Path) -> bytes:
            nonlocal read
            read += 1
            return f"{path.name} {read}".encode()

        monkeypatch.setattr(Path, "read_bytes", read_changed)
        assert files.read() == (b"tls.crt 9", b"tls.key 10")

    def test_an_unreadable_file_is_an_error(
        self, files: CertificateFiles, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(path: Path) -> bytes:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(Path, "read_bytes", fail)
        with pytest.raises(CertificateError) as raised:
            files.read()
        assert str(raised.value) == f"{files.certificate}: Input/output error"


def write(files: CertificateFiles, pki: Pki) -> None:
    files.certificate.write_bytes(pki.certificate)
    files.key.write_bytes(pki.key)


ROTATIONS, CLIENTS = 20, 8


async def test_no_review_fails_during_rotations(live: Live) -> None:
    """Half of the clients keep their connection. The others open a connection for each review."""
    listener = HttpListener(
        create_app(FakeCluster()), port=0, flag="--webhook-port", host="127.0.0.1", tls=live.tls
    )
    trust = ssl.create_default_context(cadata=(ONE.ca_certificate + OTHER.ca_certificate).decode())
    serving = asyncio.create_task(listener.serve())
    stop, answered = asyncio.Event(), set[int]()
    async with asyncio.TaskGroup() as clients:
        for number in range(CLIENTS):
            clients.create_task(send_reviews(number, listener.port, trust, stop, answered))
        for rotation in range(ROTATIONS):
            before = live.swaps
            put(live, OTHER if rotation % 2 == 0 else ONE)
            assert live.swaps == before + 1
            answered.clear()
            await until(lambda: len(answered) == CLIENTS)
        stop.set()
    listener.stop()
    await serving


async def send_reviews(
    number: int, port: int, trust: ssl.SSLContext, stop: asyncio.Event, answered: set[int]
) -> None:
    """Send reviews until `stop` is set, and note each answer. All must succeed."""
    body = review("CREATE", jobflow("f", {"a": []}))
    head = f"POST /jobflows/validate HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n"
    connection = None
    while not stop.is_set():
        if connection is None:
            connection = await asyncio.open_connection("127.0.0.1", port, ssl=trust)
        reader, writer = connection
        writer.write(head.encode() + b"\r\n" + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200"), answer
        length = int(answer.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        await reader.readexactly(length)
        answered.add(number)
        if number % 2:
            writer.close()
            await writer.wait_closed()
            connection = None
    if connection is not None:
        connection[1].close()
        await connection[1].wait_closed()
