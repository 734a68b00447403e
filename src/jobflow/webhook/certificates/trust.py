"""The caBundles of webhook configurations: the CAs that API servers trust.

CAs stay until no replica can serve a certificate of them (docs/decisions/certificates.md).
"""

from base64 import b64decode, b64encode
from datetime import datetime
from typing import Any

import msgspec
from cryptography import x509

from jobflow.api.meta import ObjectMeta, Struct
from jobflow.webhook.certificates.pki import pem
from jobflow.webhook.certificates.ring import Policy, Ring, is_older_unused


class ClientConfig(Struct, frozen=True, kw_only=True):
    """`webhooks[].clientConfig`."""

    ca_bundle: str = ""
    """PEM in base64."""


class WebhookEntry(Struct, frozen=True, kw_only=True):
    """An entry of `webhooks`."""

    name: str = ""
    client_config: ClientConfig = msgspec.field(default_factory=ClientConfig)


class Configuration(Struct, frozen=True, kw_only=True):
    """`admissionregistration.k8s.io/v1` ValidatingWebhookConfiguration, or the mutating one."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    webhooks: list[WebhookEntry] = []


def trusts(configuration: Configuration, authority: x509.Certificate) -> bool:
    """Return whether every webhook of the configuration trusts this CA."""
    return all(authority in _bundle(webhook) for webhook in configuration.webhooks)


def correction(
    configuration: Configuration, ring: Ring, policy: Policy, *, now: datetime
) -> dict[str, Any] | None:
    """Return a strategic merge patch that corrects the caBundles, or None if they are correct. The
    API server refuses it if the configuration has changed."""
    drop_old = is_older_unused(ring, policy, now=now)
    changed = []
    for webhook in configuration.webhooks:
        had = _bundle(webhook)
        kept = () if drop_old else (each for each in had if each.not_valid_after_utc > now)
        wanted = list(dict.fromkeys([*ring.authorities, *kept]))
        if set(wanted) != set(had):
            bundle = b64encode(b"".join(map(pem, wanted))).decode()
            changed.append({"name": webhook.name, "clientConfig": {"caBundle": bundle}})
    if not changed:
        return None
    version = configuration.metadata.resource_version
    return {"metadata": {"resourceVersion": version}, "webhooks": changed}


def _bundle(webhook: WebhookEntry) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(b64decode(webhook.client_config.ca_bundle))
    except ValueError:
        return []
