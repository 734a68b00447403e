"""The controllers that are compared: how each is started, and how a flow is written for it.

JobFlow's and Volcano's carry out the same JobFlows, with the same definitions. Each runs with its
admission webhook and its Lease.
"""

import itertools
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from bench import samples
from bench.processes import process
from jobflow.api.resources import JOBFLOWS, JOBS, JOBTEMPLATES, VALIDATING_WEBHOOKS, Resource
from jobflow.webhook.certificates.live import write_development_pki
from support.cluster.control_plane import free_port
from support.cluster.real_cluster import RealCluster
from support.cluster.served import READY_WITHIN_SECONDS, Served, registered

ADMISSION = "/jobflows/validate"
CLIENT_LIMITS = ("--kube-api-qps=2000", "--kube-api-burst=4000")
VOLCANO_BINARIES = ("vc-controller-manager", "vc-webhook-manager")


@dataclass(frozen=True, slots=True)
class Webhook:
    """A running webhook that reviews JobFlows at ADMISSION."""

    port: int
    ca: Path
    pid: int


class Controller(ABC):
    """A controller of flows. `proxy`: the URL through which it reaches the API server, "" for none.

    `home` is a folder for its files.
    """

    name: ClassVar[str]
    driver: ClassVar[str] = "jobs"
    """The kind of bench.driver that completes its steps."""
    flows: ClassVar[Resource] = JOBFLOWS
    phase: ClassVar[tuple[str, ...]] = ("status", "state", "phase")
    """Path to the phase of a flow."""
    succeeded: ClassVar[str] = "Succeed"
    ended: ClassVar[frozenset[str]] = frozenset({"Succeed", "Failed"})
    leaves: ClassVar[tuple[Resource, ...]] = (JOBFLOWS, JOBS, JOBTEMPLATES)
    """The objects that its flows leave in a namespace, which is deleted after its turn."""
    webhook: Webhook | None = None
    """Its webhook while it runs, None if it has none."""

    def __init__(self, real: RealCluster, home: Path, proxy: str) -> None:
        self.real = real
        self.home = home
        self.proxy = proxy

    def install(self) -> None:  # noqa: B027
        """Create what it needs in the cluster, once."""

    def fill(self, namespace: str, steps: int) -> None:
        """Create what flows of so many steps need in a new namespace."""
        for number in range(steps):
            body = samples.template_manifest(f"step-{number}")
            self.real.admin.post(JOBTEMPLATES.path(namespace), json=body).raise_for_status()

    def flow(self, targets: list[list[int]], name: str, places: int) -> bytes:
        """Return a flow as a user sends it. `places`: those that its steps share with others."""
        return samples.sent(targets, name, places)

    @abstractmethod
    @contextmanager
    def running(self) -> Iterator[Sequence[int]]:
        """Run it during the body. Yield the ids of its processes."""


class OurController(Controller):
    """`jobflow serve`; `under` is a command that runs it, such as a profiler."""

    name = "jobflow"
    user = "jobflow"
    under: Sequence[str] = ()

    @contextmanager
    def running(self) -> Iterator[Sequence[int]]:
        config = self.real.plane.kubeconfig(self.user, through=self.proxy)
        served = Served(self.real, self.home, kubeconfig=config, under=self.under)
        with served.running(), registered(self.real, served):
            self.webhook = Webhook(served.webhook_port, served.pki.ca_certificate, served.pid)
            yield [served.pid]


class VolcanoController(Controller):
    """Volcano's controller manager with its two controllers of flows, and its webhook."""

    name = "volcano"

    def __init__(self, real: RealCluster, home: Path, proxy: str, assets: Path) -> None:
        super().__init__(real, home, proxy)
        self._assets = assets
        self._turns = itertools.count(1)

    @contextmanager
    def running(self) -> Iterator[Sequence[int]]:
        config = f"--kubeconfig={self.real.plane.kubeconfig('admin', through=self.proxy)}"
        manager = [
            str(self._assets / "vc-controller-manager"),
            config,
            "--controllers=+jobflow-controller,+jobtemplate-controller",
            *CLIENT_LIMITS,
            # A Lease of its own: the last turn's is not released and would be waited for.
            "--leader-elect-resource-namespace=default",
            f"--leader-elect-resource-name=volcano-{next(self._turns)}",
        ]
        with self._webhook(config) as webhook:
            with process(manager, self.home / "vc-controller-manager.log") as child:
                yield [child.pid, webhook]

    @contextmanager
    def _webhook(self, config: str) -> Iterator[int]:
        pki, port = write_development_pki(self.home / "volcano-certs", ["127.0.0.1"]), free_port()
        url = f"https://127.0.0.1:{port}"
        command = [
            str(self._assets / "vc-webhook-manager"),
            config,
            *CLIENT_LIMITS,
            f"--enabled-admission={ADMISSION}",
            f"--webhook-url={url}",
            "--listen-address=127.0.0.1",
            f"--port={port}",
            f"--ca-cert-file={pki.ca_certificate}",
            f"--tls-cert-file={pki.serving.certificate}",
            f"--tls-private-key-file={pki.serving.key}",
        ]
        made = volcano_webhook(f"{url}{ADMISSION}")
        path = VALIDATING_WEBHOOKS.path()
        with ExitStack() as stack:
            self.real.admin.post(path, json=made).raise_for_status()
            stack.callback(self.real.admin.delete, f"{path}/{made['metadata']['name']}")
            child = stack.enter_context(process(command, self.home / "vc-webhook-manager.log"))
            _await_refusal(self.real)
            self.webhook = Webhook(port, pki.ca_certificate, child.pid)
            yield child.pid


def volcano_webhook(url: str) -> dict[str, Any]:
    """Return the configuration to which Volcano's webhook adds its CA when it starts."""
    rule = {
        "apiGroups": [JOBFLOWS.group],
        "apiVersions": [JOBFLOWS.version],
        "resources": [JOBFLOWS.plural],
        "operations": ["CREATE", "UPDATE"],
    }
    webhook = {
        "name": "validatejobflow.volcano.sh",
        "clientConfig": {"url": url},
        "rules": [rule],
        "failurePolicy": "Fail",
        "sideEffects": "NoneOnDryRun",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 10,
    }
    return {
        "apiVersion": VALIDATING_WEBHOOKS.api_version,
        "kind": VALIDATING_WEBHOOKS.kind,
        "metadata": {"name": "volcano-admission-service-jobflows-validate"},
        "webhooks": [webhook],
    }


def _await_refusal(real: RealCluster) -> None:
    """Wait until the webhook refuses a flow with a cycle, which the definition accepts."""
    body = samples.sent([[1], [0]], "refused")
    url, deadline = f"{JOBFLOWS.path('default')}?dryRun=All", time.monotonic()
    deadline += READY_WITHIN_SECONDS
    while "denied the request" not in (answer := real.admin.post(url, content=body)).text:
        assert time.monotonic() < deadline, answer.text
        time.sleep(0.05)


def folder_of(variable: str, binaries: Sequence[str]) -> Path | None:
    """Return the folder that an environment variable names, None if it is not set.

    Raises SystemExit if the folder lacks a binary.
    """
    if not (chosen := os.environ.get(variable)):
        return None
    missing = [name for name in binaries if not (Path(chosen) / name).is_file()]
    if missing:
        raise SystemExit(f"{variable}={chosen} has no {' and no '.join(missing)}")
    return Path(chosen)
