"""The values of the chart: each has an effect and is checked, and other names are refused."""

from typing import Any

import helm_python
import pytest
import yaml

from support.cluster.rendered_chart import CA, CHART, VALUES, Rendered

OTHER_VALUES: dict[str, Any] = {
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
    "maxCopyAge": "20s",
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
REQUIRED_VALUES = {
    "certificates.caBundle": VALUES["files"],
    "certificates.certManager": VALUES["cert-manager"],
    "metrics.serviceMonitor": {"metrics": {"serviceMonitor": {"enabled": True}}},
}
"""Values that have an effect only together with others."""


def paths(values: dict[str, Any], path: str = "") -> list[str]:
    """The paths of values.yaml; an empty map is one value."""
    found = []
    for key, value in values.items():
        full = f"{path}{key}"
        found += paths(value, f"{full}.") if isinstance(value, dict) and value else [full]
    return found


def with_value(values: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    head, _, remaining = path.partition(".")
    inner = with_value(values.get(head, {}), remaining, value) if remaining else value
    return {**values, head: inner}


DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text())


@pytest.mark.sampled(8)
@pytest.mark.parametrize("path", paths(DEFAULTS))
def test_every_value_has_an_effect(path: str) -> None:
    needs = next((more for prefix, more in REQUIRED_VALUES.items() if path.startswith(prefix)), {})
    if path == "metrics.serviceMonitor.enabled":
        needs = {}
    before, after = Rendered(needs), Rendered(with_value(needs, path, OTHER_VALUES[path]))
    assert before.objects != after.objects


@pytest.mark.long
def test_the_schema_has_exactly_the_values() -> None:
    assert sorted(OTHER_VALUES) == sorted(paths(DEFAULTS))
    for path in paths(DEFAULTS):
        *above, _ = path.split(".")
        invalid = with_value({}, ".".join([*above, "noSuchValue"]), 1)
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
def test_an_error_names_the_invalid_value(values: dict[str, Any], named: str) -> None:
    with pytest.raises(helm_python.HelmError, match=named):
        Rendered(values)


def test_an_invalid_name_of_a_service_is_refused_before_the_install() -> None:
    with pytest.raises(helm_python.HelmError, match="set fullnameOverride"):
        Rendered(name="1st")
    assert Rendered({"fullnameOverride": "first"}, name="1st").objects
