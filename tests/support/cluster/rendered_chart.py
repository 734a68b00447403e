"""The chart as rendered by Helm, for tests."""

from collections.abc import Iterator
from typing import Any

import helm_python
import yaml

from support.paths import ROOT

CHART = ROOT / "charts" / "jobflow"
NAMESPACE = "some-namespace"
CA = "-----BEGIN CERTIFICATE-----\nof nobody\n-----END CERTIFICATE-----\n"

VALUES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "files": {"certificates": {"mode": "files", "caBundle": CA, "secretName": "mine"}},
    "cert-manager": {"certificates": {"mode": "cert-manager"}},
    "issuer": {
        "certificates": {
            "mode": "cert-manager",
            "certManager": {"issuerRef": {"name": "corporate", "kind": "ClusterIssuer"}},
        }
    },
    "outside": {"webhook": {"url": "https://webhook.example.com:9443/"}},
    "webhook only": {"controller": {"enabled": False}},
    "controller only": {"webhook": {"enabled": False}},
    "lenient": {
        "webhook": {
            "failurePolicy": "Ignore",
            "timeoutSeconds": 5,
            "exemptUsers": ["system:serviceaccount:velero:velero"],
            "namespaceSelector": {"matchLabels": {"batch": "yes"}},
        }
    },
    "one namespace": {"namespace": "batch"},
    "one namespace, files": {
        "namespace": "batch",
        "certificates": {"mode": "files", "caBundle": CA},
    },
    "names": {"fullnameOverride": "flows", "serviceAccount": {"name": "runner"}},
    "bare": {
        "serviceAccount": {"create": False, "name": "given"},
        "rbac": {"create": False, "aggregate": False},
        "podDisruptionBudget": {"enabled": False},
        "networkPolicy": {"enabled": False},
        "crds": {"apply": False},
        "spread": {"topologyKeys": []},
    },
    "placed": {
        "image": {"repository": "registry.example.com/jobflow", "digest": f"sha256:{'0' * 64}"},
        "imagePullSecrets": ["pull"],
        "nodeSelector": {"pool": "system"},
        "tolerations": [{"key": "system", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "system-cluster-critical",
        "runtimeClassName": "gvisor",
        "commonLabels": {"owner": "platform"},
        "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy.example.com"}],
        "podAnnotations": {"note": "1"},
        "podLabels": {"team": "batch"},
        "spread": {"whenUnsatisfiable": "DoNotSchedule"},
        "podDisruptionBudget": {"maxUnavailable": "50%"},
    },
    "watched": {
        "metrics": {"serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}}},
        "networkPolicy": {
            "metricsFrom": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
            "egress": [{"ports": [{"port": 443}, {"port": 53, "protocol": "UDP"}]}],
        },
    },
}
"""Sets of values; together they cover all branches of the templates."""


class Rendered:
    """The objects of a release."""

    def __init__(self, values: dict[str, Any] | None = None, *, name: str = "jobflow") -> None:
        with helm_python.Chart.load(CHART) as chart:
            chart.validate_schema(values or {})
            self.files = chart.render(values or {}, name=name, namespace=NAMESPACE)
        self.objects = list(self._objects())

    def _objects(self) -> Iterator[dict[str, Any]]:
        for path, text in sorted(self.files.items()):
            if path.endswith(".yaml"):
                yield from (manifest for manifest in yaml.safe_load_all(text) if manifest)

    @property
    def notes(self) -> str:
        """Return the notes that Helm prints at the end."""
        return next(text for path, text in self.files.items() if path.endswith("NOTES.txt"))

    def all(self, kind: str) -> dict[str, dict[str, Any]]:
        """The objects of a kind by name."""
        return {o["metadata"]["name"]: o for o in self.objects if o["kind"] == kind}

    def one(self, kind: str) -> dict[str, Any]:
        """The only object of a kind."""
        (found,) = self.all(kind).values()
        return found

    @property
    def pod(self) -> dict[str, Any]:
        """The pod template of the Deployment."""
        found: dict[str, Any] = self.one("Deployment")["spec"]["template"]
        return found

    @property
    def container(self) -> dict[str, Any]:
        (found,) = self.pod["spec"]["containers"]
        return dict(found)


def flags_of(arguments: list[str]) -> dict[str, str]:
    """The values of a command line's flags by name, such as `http-port`; "" without a value."""
    flags = [argument.removeprefix("--") for argument in arguments if argument.startswith("--")]
    return dict(flag.partition("=")[::2] for flag in flags)
