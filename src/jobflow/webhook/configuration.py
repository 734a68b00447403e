"""The configurations that send reviews to the webhook: one that validates JobFlow's own kinds, and
one that writes on Commands who sends them."""

from base64 import b64encode
from typing import Any

from jobflow.api.kinds import KINDS
from jobflow.api.resources import (
    COMMANDS,
    JOBFLOWS,
    MUTATING_WEBHOOKS,
    VALIDATING_WEBHOOKS,
    Resource,
)
from jobflow.api.volcano.command import Action
from jobflow.webhook.review.commands import PATH

NAME = "jobflow"
TIMEOUT_SECONDS = 10
COMMANDS_WEBHOOK = "commands.flow.volcano.sh"
APPROVALS_WEBHOOK = "approvals.flow.volcano.sh"
OF_A_FLOW = (
    f"has(object.target) && object.target.kind == '{JOBFLOWS.kind}' && "
    f"object.target.apiVersion == '{JOBFLOWS.api_version}'"
)
"""Condition of Commands about flows; Volcano's own, about jobs and queues, are not reviewed."""
IS_AN_ANSWER = f"object.action in ['{Action.APPROVE_STEP}', '{Action.REJECT_STEP}']"


def webhook_configuration(url: str, ca_bundle: bytes, *, name: str = NAME) -> dict[str, Any]:
    """Return the manifest for a webhook at `url` (`https://host:port`, no path) under a PEM CA. Its
    rules name no subresource, so writes of a status are not reviewed."""
    webhooks = [
        _webhook(each.resource.qualified, each.resource, url, each.review_path, ca_bundle, "DELETE")
        for each in KINDS.values()
    ]
    return {**VALIDATING_WEBHOOKS.type_meta, "metadata": {"name": name}, "webhooks": webhooks}


def command_configuration(url: str, ca_bundle: bytes) -> dict[str, Any]:
    """Return the manifest for the review of Commands about flows. Answers to approvals are a
    webhook of their own, which may fail closed while another one fails open."""
    webhooks = []
    for name, condition in (
        (APPROVALS_WEBHOOK, IS_AN_ANSWER),
        (COMMANDS_WEBHOOK, f"!({IS_AN_ANSWER})"),
    ):
        webhook = _webhook(name, COMMANDS, url, PATH, ca_bundle)
        # another webhook may change who the Command says that it is from
        webhook["reinvocationPolicy"] = "IfNeeded"
        webhook["matchConditions"] = [
            {"name": "of-a-flow", "expression": OF_A_FLOW},
            {"name": "by-action", "expression": condition},
        ]
        webhooks.append(webhook)
    return {**MUTATING_WEBHOOKS.type_meta, "metadata": {"name": NAME}, "webhooks": webhooks}


def _webhook(
    name: str, resource: Resource, url: str, path: str, ca_bundle: bytes, *more_operations: str
) -> dict[str, Any]:
    rule = {
        "apiGroups": [resource.group],
        "apiVersions": [resource.version],
        "resources": [resource.plural],
        "operations": ["CREATE", "UPDATE", *more_operations],
        "scope": "Namespaced",
    }
    return {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        # an object that nobody has checked must not be stored
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "timeoutSeconds": TIMEOUT_SECONDS,
        "clientConfig": {"url": url.rstrip("/") + path, "caBundle": b64encode(ca_bundle).decode()},
        "rules": [rule],
    }
