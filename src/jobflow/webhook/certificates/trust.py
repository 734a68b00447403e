"""The caBundles of a ValidatingWebhookConfiguration: whom the API server trusts, whom it should.

Pure: it reckons, `shared` writes. Adding a CA breaks nobody, so CAs that are there already stay
until nobody can be serving under them (docs/decisions/certificates.md).
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec
from cryptography import x509

from jobflow.api.meta import ObjectMeta, Struct
from jobflow.webhook.certificates.pki import pem
from jobflow.webhook.certificates.ring import Policy, Ring, outlived


class ClientConfig(Struct, frozen=True, kw_only=True):
    """`webhooks[].clientConfig`, as far as trust goes."""

    ca_bundle: str = ""
    """PEM in base 64."""


class WebhookEntry(Struct, frozen=True, kw_only=True):
    """One of `webhooks`."""

    name: str = ""
    client_config: ClientConfig = msgspec.field(default_factory=ClientConfig)


class Configuration(Struct, frozen=True, kw_only=True):
    """`admissionregistration.k8s.io/v1` ValidatingWebhookConfiguration."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    webhooks: list[WebhookEntry] = []


def trusts(configuration: Configuration, authority: x509.Certificate) -> bool:
    """Whether the API server trusts this CA for every webhook of the configuration."""
    return all(authority in _bundle(webhook) for webhook in configuration.webhooks)


def correction(
    configuration: Configuration, ring: Ring, policy: Policy, *, now: datetime
) -> dict[str, Any] | None:
    """A strategic merge patch that puts the caBundles right, refused where the configuration has
    been changed since; None where they are."""
    forget = outlived(ring, policy, now=now)
    wrong = []
    for webhook in configuration.webhooks:
        had = _bundle(webhook)
        kept = () if forget else (each for each in had if each.not_valid_after_utc > now)
        wanted = list(dict.fromkeys([*ring.authorities, *kept]))
        if set(wanted) != set(had):
            bundle = {"caBundle": _encoded(wanted)}
            wrong.append({"name": webhook.name, "clientConfig": bundle})
    if not wrong:
        return None
    version = configuration.metadata.resource_version
    return {"metadata": {"resourceVersion": version}, "webhooks": wrong}


def _bundle(webhook: WebhookEntry) -> list[x509.Certificate]:
    """The CAs in a caBundle; what is no certificate is nobody to trust."""
    try:
        return x509.load_pem_x509_certificates(b64decode(webhook.client_config.ca_bundle))
    except ValueError:
        return []


def _encoded(authorities: Iterable[x509.Certificate]) -> str:
    return b64encode(b"".join(map(pem, authorities))).decode()
