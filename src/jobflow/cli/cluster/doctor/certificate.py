"""Checks of the webhook's certificates: the CAs that API servers trust, and the serving one."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from jobflow.api.resources import SECRETS
from jobflow.cli.cluster.doctor.cluster import Cluster, Json, Result, fault, name_of, ok, warning
from jobflow.cli.cluster.doctor.webhook import (
    INSTALL,
    find_command_configurations,
    find_configurations,
)
from jobflow.core.text import format_elapsed
from jobflow.webhook.certificates.pki import hosts_of

CA_NEAR_END = timedelta(days=30)
NEAR_END = timedelta(days=7)
"""Rest of the lifetime from which on a renewal is overdue: JobFlow and cert-manager renew after two
thirds of it."""
SECRET_SUFFIX = "-webhook-certificate"
_RENEW = (
    "In mode files, set certificates.caBundle and renew the Secret; in other modes, the logs of "
    "the replicas or of cert-manager have the reason."
)


async def check_certificates(cluster: Cluster) -> AsyncIterator[Result]:
    """Check the caBundles, and the certificate in the Secret if it may be read."""
    now = datetime.now(UTC)
    found = await find_configurations(cluster)
    if not found:
        yield warning("There is no webhook configuration, so no caBundle was checked.", INSTALL)
    commands = await find_command_configurations(cluster)
    for configuration in found:
        alike = [each for each in commands if name_of(each) == name_of(configuration)]
        problems = [
            problem for each in (configuration, *alike) for problem in describe_bundles(each, now)
        ]
        for result in problems or [ok(f"The caBundle of {name_of(configuration)} is valid.")]:
            yield result
        if (service := _service(configuration)) is not None:
            yield await _check_secret(cluster, configuration, service, now)


def describe_bundles(configuration: Json, now: datetime) -> Iterator[Result]:
    """Yield what is wrong with the CAs of a configuration."""
    for webhook in configuration.get("webhooks") or ():
        client = webhook.get("clientConfig") or {}
        place = f"The caBundle of {name_of(configuration)} for {webhook.get('name')}"
        authorities = _read(client.get("caBundle"))
        if not authorities:
            if client.get("service"):  # else the system's CAs may have signed it
                yield fault(f"{place} is empty, so no API server trusts the webhook.", _RENEW)
            continue
        end = max(each.not_valid_after_utc for each in authorities)
        if end <= now:
            yield fault(f"{place} expired {format_elapsed(end, now)} ago.", _RENEW)
        elif end - now < CA_NEAR_END:
            yield warning(f"{place} expires in {format_elapsed(now, end)}.", _RENEW)


async def _check_secret(
    cluster: Cluster, configuration: Json, service: Json, now: datetime
) -> Result:
    namespace, name = str(service.get("namespace")), f"{name_of(configuration)}{SECRET_SUFFIX}"
    secret = await cluster.read(SECRETS, namespace, name)
    if secret is None:
        return warning(
            f"The Secret {namespace}/{name} does not exist, so its certificate was not checked.",
            "If certificates.secretName is set, check the certificate in that Secret.",
        )
    host = f"{service.get('name')}.{namespace}.svc"
    return describe_serving(configuration, secret, host, now)


def describe_serving(configuration: Json, secret: Json, host: str, now: datetime) -> Result:
    """Return whether the serving certificate in a Secret is valid, for this host, and signed by a
    CA of every caBundle."""
    place = f"The certificate in Secret {name_of(secret)}"
    chain = _read((secret.get("data") or {}).get("tls.crt"))
    if not chain:
        return fault(f"{place} cannot be read.", _RENEW)
    serving = chain[0]
    end = serving.not_valid_after_utc
    if end <= now:
        return fault(f"{place} expired {format_elapsed(end, now)} ago.", _RENEW)
    if host not in hosts_of(serving):
        return fault(f"{place} is not for {host}, the name that API servers call.", _RENEW)
    for webhook in configuration.get("webhooks") or ():
        bundle = _read((webhook.get("clientConfig") or {}).get("caBundle"))
        if bundle and not any(_signed(each, bundle) for each in chain):
            bundles = f"the caBundle of {name_of(configuration)}"
            return fault(f"No CA in {bundles} signed the{place[3:]}.", _RENEW)
    if end - now < NEAR_END:
        return warning(f"{place} expires in {format_elapsed(now, end)}.", _RENEW)
    return ok(f"{place} is valid for {format_elapsed(now, end)}.")


def _signed(certificate: x509.Certificate, authorities: list[x509.Certificate]) -> bool:
    for authority in authorities:
        try:
            certificate.verify_directly_issued_by(authority)
        except (ValueError, TypeError, InvalidSignature):
            continue
        return True
    return False


def _service(configuration: Json) -> Json | None:
    """Return the Service of the webhook; None if it is at a URL."""
    clients = (each.get("clientConfig") or {} for each in configuration.get("webhooks") or ())
    return next((client["service"] for client in clients if client.get("service")), None)


def _read(encoded: Any) -> list[x509.Certificate]:
    """Return the certificates of a PEM in base64; none if it cannot be read."""
    try:
        return x509.load_pem_x509_certificates(b64decode(encoded or ""))
    except (ValueError, TypeError):
        return []
