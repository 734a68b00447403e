"""Calls to admission webhooks: HTTPS with the configured CA, a deadline, a checked answer."""

import base64
import binascii
import ssl
from collections.abc import Mapping
from typing import Any

import httpx
import msgspec

from jobflow.sandbox.apiserver.requests.http import JSON, encode


class CallFailed(Exception):
    """The call gave no usable answer. The message is kube-apiserver's."""


class WebhookCaller:
    """HTTP clients for webhooks, one for each CA bundle."""

    def __init__(self) -> None:
        self._clients: dict[str, httpx.AsyncClient] = {}

    async def close(self) -> None:
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.aclose()

    async def ask(self, webhook: Mapping[str, Any], review: dict[str, Any]) -> dict[str, Any]:
        """Return the `response` of the webhook's AdmissionReview. Raises CallFailed."""
        config, seconds = webhook["clientConfig"], webhook["timeoutSeconds"]
        uid = review["request"]["uid"]
        url, service = config.get("url"), config.get("service") or {}
        if not url:  # the address of a service in a cluster; none is served here
            host = f"{service['name']}.{service['namespace']}.svc:{service.get('port', 443)}"
            url = f"https://{host}{service.get('path', '')}"
        url = f"{url}?timeout={seconds}s"
        prefix = f'failed to call webhook: Post "{url}"'
        if service:
            raise CallFailed(f'{prefix}: service "{service["name"]}" not found')
        try:
            client = self._client(config.get("caBundle") or "")
            answer = await client.post(
                url, content=encode(review), headers={"content-type": JSON}, timeout=seconds
            )
        except httpx.TimeoutException as error:
            raise CallFailed(f"{prefix}: context deadline exceeded") from error
        except (httpx.HTTPError, ssl.SSLError, OSError, binascii.Error) as error:
            raise CallFailed(f"{prefix}: {str(error) or type(error).__name__}") from error
        if answer.status_code >= 400:
            code = f"the server responded with the status code {answer.status_code}"
            raise CallFailed(f"failed to call webhook: {code}: {answer.text[:200]}")
        try:
            answered = msgspec.json.decode(answer.content)
        except msgspec.DecodeError as error:
            raise CallFailed(f"the answer is not JSON: {error}") from error
        answered = answered if isinstance(answered, dict) else {}
        found = f"{answered.get('apiVersion')}, Kind={answered.get('kind')}"
        expected = "admission.k8s.io/v1, Kind=AdmissionReview"
        if found != expected:
            raise CallFailed(f"expected webhook response of {expected}, got {found}")
        response = answered.get("response")
        if not isinstance(response, dict):
            raise CallFailed("webhook response was absent")
        if response.get("uid") != uid:
            raise CallFailed(f'expected response.uid="{uid}", got "{response.get("uid", "")}"')
        return response

    def _client(self, ca_bundle: str) -> httpx.AsyncClient:
        if ca_bundle not in self._clients:
            pem = base64.b64decode(ca_bundle).decode("ascii") if ca_bundle else None
            context = ssl.create_default_context(cadata=pem)
            # A proxy of the environment must not see reviews.
            self._clients[ca_bundle] = httpx.AsyncClient(verify=context, trust_env=False)
        return self._clients[ca_bundle]
