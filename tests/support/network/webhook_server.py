"""An admission webhook over TLS with answers from the test, and its webhook configuration."""

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

from jobflow.webhook.certificates.live import write_development_pki
from support.network.local_server import LocalServer

Decide = Callable[[dict[str, Any]], dict[str, Any]]
"""Maps an AdmissionReview's request to its response, without the uid."""

ALLOWED: dict[str, Any] = {"allowed": True}


class Hook(LocalServer):
    """A webhook. `requests` has the request of each review that it received."""

    def __init__(self, ca: bytes, tls: ssl.SSLContext) -> None:
        super().__init__(self.handle, tls)
        self.requests: list[dict[str, Any]] = []
        self.decide: Decide = lambda request: ALLOWED
        self.status = 200
        self.hold: asyncio.Event | None = None
        """Event to wait for before each answer."""
        self._ca = ca
        self._changed = asyncio.Condition()

    async def wait_for_requests(self, count: int) -> None:
        """Wait until the webhook has received this many reviews."""
        async with asyncio.timeout(10), self._changed:
            await self._changed.wait_for(lambda: len(self.requests) >= count)

    async def handle(self, request: web.Request) -> web.Response:
        review = await request.json()
        self.requests.append(review["request"])
        async with self._changed:
            self._changed.notify_all()
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
        """Return an entry for `configuration`: this webhook with these resources."""
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
    """Return a webhook configuration."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{'Mutating' if mutating else 'Validating'}WebhookConfiguration",
        "metadata": {"name": "test"},
        "webhooks": list(webhooks),
    }


@asynccontextmanager
async def running_hook() -> AsyncIterator[Hook]:
    """A webhook that allows everything by default."""
    with tempfile.TemporaryDirectory() as folder:
        pki = write_development_pki(Path(folder), ["127.0.0.1"])
        ca, context = pki.ca_certificate.read_bytes(), pki.serving.context()
    async with Hook(ca, context) as server:
        yield server
