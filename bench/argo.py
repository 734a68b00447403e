"""Argo Workflows as a peer: the same graphs as DAG templates, a pod for each step.

It runs with its Lease. It has no admission webhook.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from bench import samples
from bench.controllers import Controller
from bench.driver import TASK_RESULTS
from bench.processes import process
from jobflow.api.resources import PODS, Resource
from support.cluster.control_plane import free_port
from support.cluster.real_cluster import RealCluster, object_schema

ARGO_BINARIES = ("workflow-controller",)
WORKFLOWS = Resource("argoproj.io", "v1alpha1", "workflows", "Workflow")
TASK_SETS = Resource("argoproj.io", "v1alpha1", "workflowtasksets", "WorkflowTaskSet")
NAMESPACED = {
    "cronworkflows": "CronWorkflow",
    "workflowartifactgctasks": "WorkflowArtifactGCTask",
    "workfloweventbindings": "WorkflowEventBinding",
    "workflowtaskresults": "WorkflowTaskResult",
    "workflowtasksets": "WorkflowTaskSet",
    "workflowtemplates": "WorkflowTemplate",
    "workflows": "Workflow",
}
WITH_STATUS = frozenset({"workflowartifactgctasks", "workflowtasksets"})
CONFIG_MAP = "workflow-controller-configmap"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/workflow-controller"
TUNED = ("--qps=2000", "--burst=4000")


class ArgoController(Controller):
    """Argo's workflow controller with raised client limits and a requeue time of 50 ms."""

    name = "argo"
    driver = "pods"
    flows = WORKFLOWS
    phase = ("status", "phase")
    succeeded = "Succeeded"
    ended = frozenset({"Succeeded", "Failed", "Error"})
    leaves = (WORKFLOWS, PODS, TASK_RESULTS, TASK_SETS)
    flags: Sequence[str] = TUNED
    environment = {"DEFAULT_REQUEUE_TIME": "50ms"}

    def __init__(self, real: RealCluster, home: Path, proxy: str, assets: Path) -> None:
        super().__init__(real, home, proxy)
        self._assets = assets

    def install(self) -> None:
        """Create the definitions and the configuration, unless they exist."""
        if self.real.admin.get(WORKFLOWS.path()).is_success:
            return
        for plural, kind in NAMESPACED.items():
            self.real.install(definition(plural, kind))
        self.real.install(definition("clusterworkflowtemplates", "ClusterWorkflowTemplate"))
        body = {
            "metadata": {"name": CONFIG_MAP},
            "data": {"metricsConfig": f"port: {free_port()}\n"},
        }
        path = "/api/v1/namespaces/default/configmaps"
        self.real.admin.post(path, json=body).raise_for_status()

    def fill(self, namespace: str, steps: int) -> None:
        """A Workflow has its template in itself."""

    def flow(self, targets: list[list[int]], name: str, places: int) -> bytes:
        return msgspec.json.encode(workflow(targets, name))

    @contextmanager
    def running(self) -> Iterator[Sequence[int]]:
        command = [
            str(self._assets / "workflow-controller"),
            f"--kubeconfig={self.real.plane.kubeconfig('admin', through=self.proxy)}",
            "--namespace=default",
            "--executor-image=argoexec",
            *self.flags,
        ]
        # The last turn's Lease is not released and would be waited for.
        self.real.admin.delete(LEASE)
        environment = {"LEADER_ELECTION_IDENTITY": self.name, **self.environment}
        with process(command, self.home / f"{self.name}.log", environment) as child:
            yield [child.pid]


class ArgoByDefault(ArgoController):
    """Argo's controller with its default limits and requeue time."""

    name = "argo-defaults"
    flags = ()
    environment = {}


def workflow(targets: list[list[int]], name: str) -> dict[str, Any]:
    """Return a Workflow of steps that all run the same template; `targets` by index."""
    tasks = [
        {"name": f"step-{i}", "template": samples.TEMPLATE}
        | ({"dependencies": [f"step-{j}" for j in js]} if js else {})
        for i, js in enumerate(targets)
    ]
    [container, *_] = samples.template_manifest()["spec"]["tasks"][0]["template"]["spec"][
        "containers"
    ]
    templates = [
        {"name": "flow", "dag": {"tasks": tasks}},
        {"name": samples.TEMPLATE, "container": container},
    ]
    return {
        "apiVersion": WORKFLOWS.api_version,
        "kind": WORKFLOWS.kind,
        "metadata": {"name": name},
        "spec": {"entrypoint": "flow", "templates": templates},
    }


def definition(plural: str, kind: str) -> dict[str, Any]:
    """Return a CRD of Argo that accepts every object, as Argo's minimal ones do."""
    keeps = {"x-kubernetes-preserve-unknown-fields": True}
    anything = {"type": "object", **keeps}
    version = {
        "name": WORKFLOWS.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": object_schema(spec=anything, status=anything) | keeps},
        "subresources": {"status": {}} if plural in WITH_STATUS else {},
    }
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{WORKFLOWS.group}"},
        "spec": {
            "group": WORKFLOWS.group,
            "scope": "Namespaced" if plural in NAMESPACED else "Cluster",
            "names": names,
            "versions": [version],
        },
    }
