"""The definitions of JobFlow on a real API server: a foreign one, and JobFlow's own again."""

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from jobflow.api.resources import CRDS, JOBFLOWS
from support.cluster.real_cluster import RealCluster, object_schema

JOBFLOW = f"{JOBFLOWS.plural}.{JOBFLOWS.group}"
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


def put_definitions(real: RealCluster, folder: Path) -> None:
    """Replace all definitions by those of a folder, whoever owns their fields."""
    for path in sorted(folder.glob("*.yaml")):
        ours = yaml.safe_load(path.read_text())
        _edit(real, ours["metadata"]["name"], partial(_update, by=ours["spec"]))


def replace_schema(real: RealCluster) -> None:
    """Replace the schema, as `kubectl replace` or another chart would."""
    _edit(real, JOBFLOW, lambda spec: spec["versions"][0]["schema"].update(openAPIV3Schema=FOREIGN))


def edit_schema(real: RealCluster, edit: Callable[[dict[str, Any]], object]) -> None:
    """Change the schema of JobFlow."""
    _edit(real, JOBFLOW, lambda spec: edit(spec["versions"][0]["schema"]["openAPIV3Schema"]))


def _update(spec: dict[str, Any], by: dict[str, Any]) -> None:
    spec.update(by)


def _edit(real: RealCluster, name: str, edit: Callable[[dict[str, Any]], object]) -> None:
    path = CRDS.path("", name)
    definition = real.admin.get(path).raise_for_status().json()
    edit(definition["spec"])
    real.admin.put(path, json=definition).raise_for_status()
