"""A Helm release of the chart on a control plane, installed by Helm itself. For tests/chart."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import helm_python

from jobflow.webhook.certificates.pki import make_pki
from support.cluster.kubelet import Kubelet
from support.cluster.real_cluster import RealCluster
from support.paths import ROOT

CHART = ROOT / "charts" / "jobflow"
NAME = "jobflow"
WAIT_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Release:
    """A Helm release."""

    cluster: RealCluster
    helm: helm_python.Config
    kubelet: Kubelet
    namespace: str
    values: dict[str, Any]

    @property
    def account(self) -> str:
        """The user of the replicas on the API server."""
        return f"system:serviceaccount:{self.namespace}:{NAME}"

    async def install(self) -> dict[str, Any]:
        """`helm install --wait`."""
        return await asyncio.to_thread(
            self.helm.install,
            CHART,
            NAME,
            self.values,
            namespace=self.namespace,
            wait="watcher",
            timeout=WAIT_SECONDS,
        )

    async def upgrade(self, **values: Any) -> dict[str, Any]:
        """`helm upgrade --wait` with these values changed."""
        return await asyncio.to_thread(
            self.helm.upgrade,
            CHART,
            NAME,
            {**self.values, **values},
            namespace=self.namespace,
            wait="watcher",
            timeout=WAIT_SECONDS,
        )

    async def uninstall(self) -> None:
        """`helm uninstall --wait`."""
        await asyncio.to_thread(self.helm.uninstall, NAME, wait="watcher", timeout=WAIT_SECONDS)

    async def remove(self) -> None:
        """Uninstall the release if it exists."""
        await asyncio.to_thread(
            self.helm.uninstall, NAME, wait="watcher", timeout=WAIT_SECONDS, ignore_not_found=True
        )


@asynccontextmanager
async def release(
    cluster: RealCluster, namespace: str, folder: Path, *, files: bool = False
) -> AsyncIterator[Release]:
    """Run a node and a Service for a later release. `files`: the certificate is in an existing
    Secret; otherwise the release generates one."""
    kubelet = Kubelet(cluster.plane, namespace, folder)
    async with kubelet.running(), kubelet.port("webhook") as port:
        values: dict[str, Any] = {
            "shutdownDelay": "1s",
            "webhook": {"url": f"https://127.0.0.1:{port}"},
        }
        if files:
            values["certificates"] = _certificate_values(cluster, namespace)
        with helm_python.Config(
            kubeconfig_path=cluster.plane.kubeconfig("admin"), namespace=namespace
        ) as helm:
            yield Release(cluster, helm, kubelet, namespace, values)


def _certificate_values(cluster: RealCluster, namespace: str) -> dict[str, Any]:
    """A Secret with a serving certificate, and the values that go with it."""
    pki = make_pki(["127.0.0.1"])
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "serving"},
        "type": "kubernetes.io/tls",
        "data": {
            "tls.crt": base64.b64encode(pki.certificate).decode(),
            "tls.key": base64.b64encode(pki.key).decode(),
        },
    }
    path = f"/api/v1/namespaces/{namespace}/secrets"
    cluster.admin.post(path, content=json.dumps(secret)).raise_for_status()
    bundle = pki.ca_certificate.decode()
    return {"mode": "files", "secretName": "serving", "caBundle": bundle}
