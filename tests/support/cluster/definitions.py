"""The definitions of JobFlow on a real API server: a foreign one, and JobFlow's own again."""

import subprocess
import sys
from pathlib import Path

from jobflow.api.resources import CRDS, JOBFLOWS
from support.cluster.real_cluster import RealCluster, object_schema

TEXT = {"type": "string"}
STEP = object_schema(
    name=TEXT, patch=object_schema(jobSpec=object_schema(queue=TEXT | {"default": "default"}))
)
FOREIGN = object_schema(
    spec=object_schema(jobRetainPolicy=TEXT, flows={"type": "array", "items": STEP}),
    status=object_schema(state=object_schema(phase=TEXT)),
)
"""A foreign definition of JobFlow, with fewer fields."""


def apply_definitions(real: RealCluster) -> None:
    command = [str(Path(sys.executable).with_name("jobflow")), "crds", "--apply"]
    kubeconfig = str(real.plane.kubeconfig("admin"))
    subprocess.run([*command, "--kubeconfig", kubeconfig], check=True, stdout=subprocess.DEVNULL)


def replace_schema(real: RealCluster) -> None:
    """Replace the schema, as `kubectl replace` or another chart would."""
    path = CRDS.path("", f"{JOBFLOWS.plural}.{JOBFLOWS.group}")
    definition = real.admin.get(path).raise_for_status().json()
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = FOREIGN
    real.admin.put(path, json=definition).raise_for_status()
