"""Certificates of replicas on a sandbox's API server, with a clock that the test moves."""

import json
import ssl
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509

from jobflow.api.resources import SECRETS, VALIDATING_WEBHOOKS
from jobflow.kube.client import ApiError, Client
from jobflow.webhook.certificates.live import Live
from jobflow.webhook.certificates.pki import Policy, Ring, pem, read_ring
from jobflow.webhook.certificates.shared import SharedCertificate
from jobflow.webhook.configuration import webhook_configuration
from support.network.anonymous import anonymous
from support.sandbox.api_server import ApiServer
from support.time.alongside import alongside, until

BEGIN = datetime(2026, 8, 1, 12, tzinfo=UTC)
POLICY = Policy(("localhost", "127.0.0.1"))
SECRET = "certificate"
CONFIGURATION = "jobflow"


@dataclass
class Clock:
    """A clock that stops until a test moves it."""

    at: datetime = BEGIN

    def __call__(self) -> datetime:
        return self.at

    def advance(self, by: timedelta) -> None:
        self.at += by


@dataclass
class Replica:
    """The certificate of one process."""

    live: Live
    source: SharedCertificate

    @property
    def serves(self) -> x509.Certificate | None:
        return self.live.certificate


@dataclass
class Shared:
    """A server, and the replicas on it."""

    server: ApiServer
    client: Client
    clock: Clock = field(default_factory=Clock)
    replicas: list[Replica] = field(default_factory=list)
    until = staticmethod(until)

    @asynccontextmanager
    async def replica(self, policy: Policy = POLICY) -> AsyncIterator[Replica]:
        """Run one more replica while the body runs."""
        async with Client(anonymous(self.server.url)) as client:
            live = Live(now=self.clock)
            source = SharedCertificate(
                client,
                live,
                policy,
                namespace="default",
                secret=SECRET,
                configurations=[CONFIGURATION],
                now=self.clock,
            )
            replica = Replica(live, source)
            self.replicas.append(replica)
            async with alongside(source.run()):
                yield replica
            self.replicas.remove(replica)

    async def later(self, by: timedelta) -> None:
        """Let time pass."""
        self.clock.advance(by)
        for replica in self.replicas:
            replica.source.look()

    async def configure(self, bundle: bytes = b"") -> None:
        """Create the configuration as Helm applies it."""
        manifest = webhook_configuration("https://127.0.0.1:1", bundle, name=CONFIGURATION)
        with suppress(ApiError):
            await self.client.delete(VALIDATING_WEBHOOKS, "", CONFIGURATION)
        await self.client.create(VALIDATING_WEBHOOKS, "", json.dumps(manifest).encode())

    async def data(self) -> dict[str, str]:
        """Return the data of the Secret."""
        body = await self.client.request("GET", SECRETS.path("default", SECRET))
        found: dict[str, str] = json.loads(body)["data"]
        return found

    async def ring(self) -> Ring:
        return read_ring(await self.data())

    async def trusted(self) -> list[set[x509.Certificate]]:
        """Return the CAs that the API server trusts for each webhook."""
        body = await self.client.request("GET", VALIDATING_WEBHOOKS.path("", CONFIGURATION))
        return [
            set(_certificates(webhook["clientConfig"].get("caBundle", "")))
            for webhook in json.loads(body)["webhooks"]
        ]


def _certificates(bundle: str) -> list[x509.Certificate]:
    pem = b64decode(bundle)
    return x509.load_pem_x509_certificates(pem) if pem else []


@asynccontextmanager
async def shared() -> AsyncIterator[Shared]:
    async with ApiServer() as server, Client(anonymous(server.url)) as client:
        yield Shared(server, client)


def handshake(live: Live, authority: x509.Certificate, host: str | None = "localhost") -> bytes:
    """Return the certificate that a strict client receives, in memory."""
    trust = ssl.create_default_context(cadata=pem(authority).decode())
    trust.verify_flags |= ssl.VERIFY_X509_STRICT
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trust.wrap_bio(to_client, to_server, server_hostname=host)
    server = live.tls.wrap_bio(to_server, to_client, server_side=True)
    finished: set[Any] = set()
    for _ in range(10):
        for side in (client, server):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
                finished.add(side)
    assert len(finished) == 2, "no handshake"
    presented = client.getpeercert(binary_form=True)
    assert presented
    return presented
