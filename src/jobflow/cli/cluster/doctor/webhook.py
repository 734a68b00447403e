"""Checks of JobFlow's webhook: its configuration, and whether the API server reaches it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator

import msgspec

from jobflow.api.resources import JOBFLOWS, MUTATING_WEBHOOKS
from jobflow.cli.cluster.doctor.cluster import (
    Cluster,
    Json,
    NotReadable,
    Result,
    fault,
    name_of,
    not_readable,
    ok,
    warning,
)
from jobflow.cli.cluster.doctor.volcano import COMMAND_WEBHOOKS, OUR_WEBHOOKS
from jobflow.core.text import join_names
from jobflow.kube.client import ApiError

INSTALL = (
    "Install the chart with webhook.enabled, or the configuration alone (docs/operations.md, One "
    "namespace only)."
)
REVIEW_SECONDS = 40.0
"""Time for the dry run: an API server waits for a webhook for at most 30 s."""
_DENIED = "denied the request"
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


async def find_configurations(cluster: Cluster) -> list[Json]:
    """Return the configurations of JobFlow's webhook; a release for one namespace has its own.
    Raises NotReadable."""
    return [each for each in await cluster.webhooks() if _ours(each, OUR_WEBHOOKS)]


async def find_command_configurations(cluster: Cluster) -> list[Json]:
    """Return the configurations that send Commands about flows to JobFlow's webhook. Raises
    NotReadable."""
    found = await cluster.webhooks(MUTATING_WEBHOOKS)
    return [each for each in found if _ours(each, COMMAND_WEBHOOKS)]


def _ours(configuration: Json, names: Collection[str]) -> list[Json]:
    webhooks = configuration.get("webhooks") or ()
    return [each for each in webhooks if each.get("name") in names]


async def check_webhook(cluster: Cluster) -> AsyncIterator[Result]:
    """Check the configuration, and by a dry run that a flow with a fault is refused."""
    refused: NotReadable | None = None
    try:
        found = await find_configurations(cluster)
        commands = await find_command_configurations(cluster)
    except NotReadable as error:
        refused = error
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
    if refused is not None:
        raise refused


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
    step = {"name": "a", "dependsOn": {"targets": ["a"]}}
    flow = {
        "apiVersion": JOBFLOWS.api_version,
        "kind": JOBFLOWS.kind,
        "metadata": {"generateName": "jobflow-doctor-"},
        "spec": {"flows": [step]},
    }
    path, body = JOBFLOWS.path(cluster.namespace), msgspec.json.encode(flow)
    try:
        await cluster.client.request(
            "POST", path, query=[("dryRun", "All")], body=body, timeout=REVIEW_SECONDS
        )
    except ApiError as error:
        return _judge(cluster, error)
    return fault(
        f"The API server accepted a JobFlow that depends on itself in namespace "
        f"{cluster.namespace} (dry run): the webhook does not review it.",
        "Check webhook.namespaceSelector and webhook.exemptUsers and, with failurePolicy Ignore, "
        "that the replicas of JobFlow are ready.",
    )


def _judge(cluster: Cluster, error: ApiError) -> Result:
    """Return what the refusal of the dry run says about the webhook."""
    message = error.message.rstrip(".")
    if _DENIED in message:
        if any(f'"{name}"' in message for name in OUR_WEBHOOKS):
            return ok(f"The webhook reviews JobFlows of namespace {cluster.namespace}.")
        return warning(
            f"Something else refused the JobFlow of a dry run before JobFlow's webhook: {message}.",
            "Choose another namespace by -n.",
        )
    if "webhook" in message and error.code >= 500:
        known = (text for words, text in _REMEDIES if any(word in message for word in words))
        remedy = next(known, _REPLICAS)
        return fault(f"The API server does not reach the webhook: {message}.", remedy)
    if error.namespace_gone:
        missing = f"Namespace {cluster.namespace} does not exist, so no review was tried."
        return warning(missing, "Choose another namespace by -n.")
    refused = not_readable(error, "create", JOBFLOWS, cluster.namespace)
    return warning(str(refused), refused.remedy)
