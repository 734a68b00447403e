"""An admission webhook over TLS whose answers a test writes, and how it is registered."""

import asyncio
import base64
import json
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from jobflow.webhook.certificates.files import write_development_pki
from support.network.local_server import LocalServer

Decide = Callable[[dict[str, Any]], dict[str, Any]]
"""From an AdmissionReview's request to its response, without the uid."""

ALLOWED: dict[str, Any] = {"allowed": True}


class Hook(LocalServer):
    """A webhook. `asked` are the requests of its reviews."""

    def __init__(self, ca: bytes, tls: ssl.SSLContext) -> None:
        super().__init__(self.handle, tls)
        self.asked: list[dict[str, Any]] = []
        self.decide: Decide = lambda request: ALLOWED
        self.status = 200
        self.hold: asyncio.Event | None = None
        """Answers wait for this event."""
        self._ca = ca
        self._news = asyncio.Condition()

    async def heard(self, count: int) -> None:
        """Return once this many reviews have come in."""
        async with asyncio.timeout(10), self._news:
            await self._news.wait_for(lambda: len(self.asked) >= count)

    async def handle(self, request: web.Request) -> web.Response:
        review = await request.json()
        self.asked.append(review["request"])
        async with self._news:
            self._news.notify_all()
        if self.hold is not None:
            await self.hold.wait()
        response = {"uid": review["request"]["uid"], **self.decide(review["request"])}
        answer = {"apiVersion": review["apiVersion"], "kind": "AdmissionReview"}
        return web.Response(
            body=json.dumps(answer | {"response": response}),
            status=self.status,
            content_type="application/json",
        )

    def webhook(self, *resources: str, **more: Any) -> dict[str, Any]:
        """Return a webhook of a configuration, for these resources."""
        rule = {
            "apiGroups": ["*"],
            "apiVersions": ["*"],
            "operations": more.pop("operations", ["*"]),
            "resources": list(resources),
        }
        bundle = base64.b64encode(self._ca).decode()
        return {
            "name": "check.jobflow.test",
            "clientConfig": {"url": f"{self.url}/check", "caBundle": bundle},
            "rules": [rule],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **more,
        }


def configuration(*webhooks: dict[str, Any], mutating: bool = False) -> dict[str, Any]:
    """A webhook configuration."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{'Mutating' if mutating else 'Validating'}WebhookConfiguration",
        "metadata": {"name": "test"},
        "webhooks": list(webhooks),
    }


@asynccontextmanager
async def hook() -> AsyncIterator[Hook]:
    """A webhook that allows everything by default."""
    with tempfile.TemporaryDirectory() as folder:
        pki = write_development_pki(Path(folder), ["127.0.0.1"])
        ca, context = pki.ca_certificate.read_bytes(), pki.serving.context()
    async with Hook(ca, context) as made:
        yield made
