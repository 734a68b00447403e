"""Checks of JobFlow's webhook: its configuration, whether the API server reaches it, and its
certificates."""

from base64 import b64decode
from collections.abc import AsyncIterator, Collection, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature

from jobflow.api.resources import JOBFLOWS, MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS
from jobflow.cli.cluster.doctor import reading
from jobflow.cli.cluster.doctor.reading import Cluster, Json, Result, fault, name_of, ok, warning
from jobflow.cli.cluster.doctor.volcano import COMMAND_WEBHOOKS, OUR_WEBHOOKS
from jobflow.core.text import format_elapsed, join_names
from jobflow.kube.client import ApiError
from jobflow.webhook.certificates.pki import hosts_of

INSTALL = (
    "Install the chart with webhook.enabled, or the configuration alone (docs/operations.md, One "
    "namespace only)."
)
REVIEW_SECONDS = 40.0
"""Time for the dry run: an API server waits for a webhook for at most 30 s."""
_REMEDIES = (
    (
        ("x509", "certificate signed by", "CERTIFICATE_VERIFY_FAILED"),
        "The caBundle does not match the certificate: see docs/operations.md, Certificates.",
    ),
    (
        ("Timeout", "deadline exceeded", "certificate required"),
        "Check networkPolicy.webhookFrom and webhook.clientCA (docs/operations.md).",
    ),
)
"""The remedy, by words of the API server's message."""
_REPLICAS = "Check that the replicas of JobFlow are ready: /readyz of a replica has the reason."


async def find_configurations(cluster: Cluster, *, of_commands: bool = False) -> list[Json]:
    """Return the configurations that send JobFlows, or Commands about them, to JobFlow's webhook.
    Raises NotReadable."""
    found = await cluster.read_all(MUTATING_WEBHOOKS if of_commands else VALIDATING_WEBHOOKS)
    # by the names of webhooks: each release has a configuration, of any name
    names = COMMAND_WEBHOOKS if of_commands else OUR_WEBHOOKS
    return [each for each in found if _ours(each, names)]


def _ours(configuration: Json, names: Collection[str]) -> list[Json]:
    webhooks = configuration.get("webhooks") or ()
    return [each for each in webhooks if each.get("name") in names]


async def check_webhook(cluster: Cluster) -> AsyncIterator[Result]:
    """Check the configuration, and by a dry run that a flow with a fault is refused."""
    unreadable: reading.NotReadable | None = None
    try:
        found = await find_configurations(cluster)
        commands = await find_configurations(cluster, of_commands=True)
    except reading.NotReadable as error:
        unreadable = error  # the dry run needs no right to read the configuration
    else:
        if not found:
            yield fault(
                "No ValidatingWebhookConfiguration sends JobFlows to JobFlow's webhook, so they "
                "are stored unchecked.",
                INSTALL,
            )
            return
        if not commands:
            yield fault(
                "No MutatingWebhookConfiguration sends Commands about flows to JobFlow's webhook, "
                "so everybody who may create Commands can approve steps and steer flows.",
                INSTALL,
            )
        for configuration in (*found, *commands):
            for result in describe_configuration(configuration):
                yield result
    yield await _try_review(cluster)
    if unreadable is not None:
        raise unreadable


def describe_configuration(configuration: Json) -> Iterator[Result]:
    """Yield what is wrong with a configuration, apart from its CAs."""
    name = name_of(configuration)
    of_commands = bool(_ours(configuration, COMMAND_WEBHOOKS))
    names = COMMAND_WEBHOOKS if of_commands else OUR_WEBHOOKS
    missing = sorted(names - {each["name"] for each in _ours(configuration, names)})
    if missing:
        yield fault(
            f"The webhook configuration {name} has no webhook for {join_names(missing)}.", INSTALL
        )
    if any(each.get("failurePolicy") == "Ignore" for each in _ours(configuration, names)):
        what = "Commands about flows are" if of_commands else "JobFlows are stored"
        yield warning(
            f"The failurePolicy of webhook configuration {name} is Ignore: while no replica "
            f"answers, {what} unchecked.",
            "Set webhook.failurePolicy to Fail, unless this is intended.",
        )


async def _try_review(cluster: Cluster) -> Result:
    """Create a flow that depends on itself by a dry run: the webhook refuses it."""
    # its effect is tried, because only the API server can tell whether it reaches the webhook
    step = {"name": "a", "dependsOn": {"targets": ["a"]}}
    flow = {
        **JOBFLOWS.type_meta,
        "metadata": {"generateName": "jobflow-doctor-"},
        "spec": {"flows": [step]},
    }
    path, body = JOBFLOWS.path(cluster.namespace), msgspec.json.encode(flow)
    try:
        await cluster.client.request(
            "POST", path, query=[("dryRun", "All")], body=body, timeout=REVIEW_SECONDS
        )
    except ApiError as refusal:
        error = refusal
    else:
        return fault(
            f"The API server accepted a JobFlow that depends on itself in namespace "
            f"{cluster.namespace} (dry run): the webhook does not review it.",
            "Check webhook.namespaceSelector and webhook.exemptUsers and, with failurePolicy "
            "Ignore, that the replicas of JobFlow are ready.",
        )
    message = error.message.rstrip(".")
    if "denied the request" in message:
        # the message begins with the name of the webhook that denied
        if any(f'"{name}"' in message for name in OUR_WEBHOOKS):
            return ok(f"The webhook reviews JobFlows of namespace {cluster.namespace}.")
        return warning(
            f"Something else refused the JobFlow of a dry run before JobFlow's webhook: {message}.",
            "Choose another namespace by -n.",
        )
    # the API server answers 500 by itself if it cannot call a webhook
    if "webhook" in message and error.code >= 500:
        known = (text for words, text in _REMEDIES if any(word in message for word in words))
        remedy = next(known, _REPLICAS)
        return fault(f"The API server does not reach the webhook: {message}.", remedy)
    if error.namespace_gone:
        missing = f"Namespace {cluster.namespace} does not exist, so no review was tried."
        return warning(missing, "Choose another namespace by -n.")
    refused = reading.not_readable(error, "create", JOBFLOWS, cluster.namespace)
    return warning(str(refused), refused.remedy)


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
    commands = await find_configurations(cluster, of_commands=True)
    for configuration in found:
        alike = [each for each in commands if name_of(each) == name_of(configuration)]
        problems = [
            problem for each in (configuration, *alike) for problem in describe_bundles(each, now)
        ]
        for result in problems or [ok(f"The caBundle of {name_of(configuration)} is valid.")]:
            yield result
        if (service := find_service(configuration)) is None:
            continue
        # the chart names both after the release
        namespace, name = str(service.get("namespace")), f"{name_of(configuration)}{SECRET_SUFFIX}"
        secret = await cluster.read(SECRETS, namespace, name)
        if secret is None:
            missing = f"The Secret {namespace}/{name} does not exist"
            yield warning(
                f"{missing}, so its certificate was not checked.",
                "If certificates.secretName is set, check the certificate in that Secret.",
            )
        else:
            host = f"{service.get('name')}.{namespace}.svc"
            yield describe_serving(configuration, secret, host, now)


def describe_bundles(configuration: Json, now: datetime) -> Iterator[Result]:
    """Yield what is wrong with the CAs of a configuration."""
    for webhook in configuration.get("webhooks") or ():
        client = webhook.get("clientConfig") or {}
        place = f"The caBundle of {name_of(configuration)} for {webhook.get('name')}"
        authorities = _read(client.get("caBundle"))
        if not authorities:
            if client.get("service"):  # a URL may have a certificate that the system trusts
                yield fault(f"{place} is empty, so no API server trusts the webhook.", _RENEW)
            continue
        end = max(each.not_valid_after_utc for each in authorities)  # a rotation leaves old ones
        if end <= now:
            yield fault(f"{place} expired {format_elapsed(end, now)} ago.", _RENEW)
        elif end - now < CA_NEAR_END:
            yield warning(f"{place} expires in {format_elapsed(now, end)}.", _RENEW)


def describe_serving(configuration: Json, secret: Json, host: str, now: datetime) -> Result:
    """Return whether the serving certificate in a Secret is valid, for this host, and signed by a
    CA of every caBundle."""
    place = f"The certificate in Secret {name_of(secret)}"
    chain = _read((secret.get("data") or {}).get("tls.crt"))
    if not chain:
        return fault(f"{place} cannot be read.", _RENEW)
    serving = chain[0]  # intermediates follow it
    end = serving.not_valid_after_utc
    if end <= now:
        return fault(f"{place} expired {format_elapsed(end, now)} ago.", _RENEW)
    if host not in hosts_of(serving):
        return fault(f"{place} is not for {host}, the name that API servers call.", _RENEW)
    # a webhook without a bundle is trusted by the CAs of the system
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


def find_service(configuration: Json) -> Json | None:
    """Return the Service of the webhook; None for one at a URL, as in the sandbox."""
    clients = (each.get("clientConfig") or {} for each in configuration.get("webhooks") or ())
    return next((client["service"] for client in clients if client.get("service")), None)


def _read(encoded: Any) -> list[x509.Certificate]:
    """Return the certificates of a PEM in base64; none if it cannot be read."""
    try:
        return x509.load_pem_x509_certificates(b64decode(encoded or ""))
    except (ValueError, TypeError):
        return []
