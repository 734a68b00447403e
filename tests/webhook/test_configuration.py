"""The webhook configurations: the requests that an API server sends, and the CA."""

from base64 import b64decode
from urllib.parse import urlsplit

from jobflow.webhook.certificates.pki import make_pki
from jobflow.webhook.configuration import command_configuration, webhook_configuration
from jobflow.webhook.review.review import reviewers
from support.admission.admissions import FakeCluster

CA = make_pki(["127.0.0.1"]).ca_certificate
MANIFEST = webhook_configuration("https://127.0.0.1:8443/", CA)
COMMANDS = command_configuration("https://127.0.0.1:8443/", CA)


def test_every_configured_path_is_served() -> None:
    served = reviewers(FakeCluster())
    configured = {
        urlsplit(webhook["clientConfig"]["url"]).path: webhook["rules"][0]["resources"]
        for webhook in (*MANIFEST["webhooks"], *COMMANDS["webhooks"])
    }
    assert configured == {path: [f"{each.kind.lower()}s"] for path, each in served.items()}


def test_operations_without_subresources_are_reviewed() -> None:
    for webhook in MANIFEST["webhooks"]:
        (rule,) = webhook["rules"]
        assert rule["operations"] == ["CREATE", "UPDATE", "DELETE"]
        assert rule["apiGroups"] == ["flow.volcano.sh"]
        assert not any("/" in resource for resource in rule["resources"])


def test_an_unreachable_webhook_refuses_all_requests() -> None:
    for webhook in (*MANIFEST["webhooks"], *COMMANDS["webhooks"]):
        assert (webhook["failurePolicy"], webhook["sideEffects"]) == ("Fail", "None")
        assert webhook["admissionReviewVersions"] == ["v1"]
        assert 1 <= webhook["timeoutSeconds"] <= 30
        assert b64decode(webhook["clientConfig"]["caBundle"]) == CA
