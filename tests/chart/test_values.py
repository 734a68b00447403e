"""The values of the chart: each does something, each is checked, and no other name is taken."""

from typing import Any

import helm_python
import pytest
import yaml

from support.cluster.rendered_chart import CA, CHART, VALUES, Rendered

OTHERWISE: dict[str, Any] = {
    "nameOverride": "other",
    "fullnameOverride": "other",
    "image.repository": "other",
    "image.tag": "other",
    "image.digest": f"sha256:{'1' * 64}",
    "image.pullPolicy": "Always",
    "imagePullSecrets": ["other"],
    "replicas": 3,
    "resources.requests.cpu": "1",
    "resources.requests.memory": "1Gi",
    "resources.limits.memory": "2Gi",
    "spread.topologyKeys": ["other"],
    "spread.whenUnsatisfiable": "DoNotSchedule",
    "nodeSelector": {"a": "b"},
    "tolerations": [{"operator": "Exists"}],
    "affinity": {"podAffinity": {}},
    "priorityClassName": "other",
    "runtimeClassName": "other",
    "hostNetwork": True,
    "commonLabels": {"a": "b"},
    "namespace": "other",
    "extraEnv": [{"name": "A", "value": "b"}],
    "logLevel": "debug",
    "lease.duration": "30s",
    "lease.renewDeadline": "12s",
    "lease.retryPeriod": "3s",
    "podAnnotations": {"a": "b"},
    "podLabels": {"a": "b"},
    "shutdownDelay": "1s",
    "terminationGracePeriodSeconds": 60,
    "podDisruptionBudget.enabled": False,
    "podDisruptionBudget.maxUnavailable": 2,
    "serviceAccount.create": False,
    "serviceAccount.name": "other",
    "serviceAccount.annotations": {"a": "b"},
    "rbac.create": False,
    "rbac.aggregate": False,
    "controller.enabled": False,
    "webhook.enabled": False,
    "webhook.port": 9443,
    "webhook.url": "https://other",
    "webhook.timeoutSeconds": 3,
    "webhook.failurePolicy": "Ignore",
    "webhook.namespaceSelector": {"matchLabels": {"a": "b"}},
    "webhook.exemptUsers": ["other"],
    "webhook.clientCA": "other",
    "webhook.subjectAccessReview": True,
    "certificates.mode": "cert-manager",
    "certificates.secretName": "other",
    "certificates.caBundle": CA + CA,
    "certificates.duration": "24h",
    "certificates.caDuration": "87600h",
    "certificates.certManager.issuerRef": {"name": "other"},
    "http.port": 9090,
    "metrics.serviceMonitor.enabled": True,
    "metrics.serviceMonitor.interval": "5s",
    "metrics.serviceMonitor.labels": {"a": "b"},
    "networkPolicy.enabled": False,
    "networkPolicy.webhookFrom": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
    "networkPolicy.metricsFrom": [{"podSelector": {}}],
    "networkPolicy.egress": [{}],
    "crds.apply": False,
}
NEEDS = {
    "certificates.caBundle": VALUES["files"],
    "certificates.certManager": VALUES["cert-manager"],
    "metrics.serviceMonitor": {"metrics": {"serviceMonitor": {"enabled": True}}},
}
"""Values that only matter together with others."""


def leaves(values: dict[str, Any], path: str = "") -> list[str]:
    """The paths of values.yaml: an empty map is a value as a whole."""
    found = []
    for key, value in values.items():
        here = f"{path}{key}"
        found += leaves(value, f"{here}.") if isinstance(value, dict) and value else [here]
    return found


def changed(values: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    head, _, rest = path.partition(".")
    inner = changed(values.get(head, {}), rest, value) if rest else value
    return {**values, head: inner}


DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text())


@pytest.mark.parametrize("path", leaves(DEFAULTS))
def test_every_value_changes_something(path: str) -> None:
    needs = next((given for prefix, given in NEEDS.items() if path.startswith(prefix)), {})
    if path == "metrics.serviceMonitor.enabled":
        needs = {}
    before, after = Rendered(needs), Rendered(changed(needs, path, OTHERWISE[path]))
    assert before.objects != after.objects


def test_every_value_is_in_the_schema_and_no_other_name() -> None:
    assert sorted(OTHERWISE) == sorted(leaves(DEFAULTS))
    for path in leaves(DEFAULTS):
        *above, _ = path.split(".")
        invalid = changed({}, ".".join([*above, "noSuchValue"]), 1)
        if above != ["resources", "requests"] and above != ["resources", "limits"]:
            with pytest.raises(helm_python.HelmError, match="noSuchValue"):
                Rendered(invalid)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"replicas": -1}, "replicas"),
        ({"replicas": "two"}, "replicas"),
        ({"certificates": {"mode": "none"}}, "mode"),
        ({"certificates": {"caBundle": "LS0t"}}, "caBundle"),
        ({"certificates": {"duration": "90 days"}}, "duration"),
        ({"webhook": {"url": "http://insecure"}}, "url"),
        ({"webhook": {"timeoutSeconds": 31}}, "timeoutSeconds"),
        ({"webhook": {"failurePolicy": "Retry"}}, "failurePolicy"),
        ({"webhook": {"exemptUsers": ["it's"]}}, "exemptUsers"),
        ({"webhook": {"port": 0}}, "port"),
        ({"image": {"digest": "latest"}}, "digest"),
        ({"terminationGracePeriodSeconds": 1}, "terminationGracePeriodSeconds"),
        ({"webhook": {"enabled": False}, "controller": {"enabled": False}}, "enabled"),
        ({"webhook": {"port": 9000}, "http": {"port": 9000}}, "http.port"),
        ({"certificates": {"duration": "0h"}}, "duration"),
        ({"certificates": {"duration": "9s"}}, "certificates.duration"),
        ({"certificates": {"duration": "40000h"}}, "caDuration"),
        ({"lease": {"duration": "0s"}}, "duration"),
        ({"lease": {"duration": "10s"}}, "lease.duration"),
        ({"lease": {"retryPeriod": "0h1m0s"}}, "retryPeriod"),
        ({"shutdownDelay": "40s"}, "terminationGracePeriodSeconds"),
        ({"fullnameOverride": "1st"}, "fullnameOverride"),
        ({"fullnameOverride": "a.b"}, "fullnameOverride"),
        ({"logLevel": "loud"}, "logLevel"),
        ({"commonLabels": {"app.kubernetes.io/name": "other"}}, "app.kubernetes.io/name"),
        ({"extraEnv": [{"value": "no name"}]}, "extraEnv"),
    ],
    ids=str,
)
def test_values_that_make_no_sense_are_refused_by_name(values: dict[str, Any], named: str) -> None:
    with pytest.raises(helm_python.HelmError, match=named):
        Rendered(values)


def test_a_release_whose_service_the_api_server_refuses_is_refused_first() -> None:
    with pytest.raises(helm_python.HelmError, match="set fullnameOverride"):
        Rendered(name="1st")
    assert Rendered({"fullnameOverride": "first"}, name="1st").objects
