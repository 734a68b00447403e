"""The ValidatingWebhookConfiguration that sends reviews to the webhook."""

from base64 import b64encode
from typing import Any

from jobflow.api.kinds import KINDS, FlowKind
from jobflow.api.resources import VALIDATING_WEBHOOKS

NAME = "jobflow"
TIMEOUT_SECONDS = 10
OPERATIONS = ["CREATE", "UPDATE", "DELETE"]


def webhook_configuration(url: str, ca_bundle: bytes, *, name: str = NAME) -> dict[str, Any]:
    """Return the manifest for a webhook at `url` (`https://host:port`, no path) under a PEM CA. Its
    rules name no subresource, so writes of a status are not reviewed."""
    return {
        "apiVersion": VALIDATING_WEBHOOKS.api_version,
        "kind": VALIDATING_WEBHOOKS.kind,
        "metadata": {"name": name},
        "webhooks": [_webhook(kind, url, ca_bundle) for kind in KINDS.values()],
    }


def _webhook(kind: FlowKind, url: str, ca_bundle: bytes) -> dict[str, Any]:
    resource = kind.resource
    return {
        "name": kind.crd_name,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "timeoutSeconds": TIMEOUT_SECONDS,
        "clientConfig": {
            "url": url.rstrip("/") + kind.review_path,
            "caBundle": b64encode(ca_bundle).decode(),
        },
        "rules": [
            {
                "apiGroups": [resource.group],
                "apiVersions": [resource.version],
                "resources": [resource.plural],
                "operations": OPERATIONS,
                "scope": "Namespaced",
            }
        ],
    }
