"""Manifests of a flow that tests submit, and the lines that the command prints about them."""

from pathlib import Path
from typing import Any

import yaml

from jobflow.api.resources import JOBFLOWS, JOBTEMPLATES
from support.sandbox.manifests import jobflow, template
from support.sandbox.running_controller import Cluster

STEPS: dict[str, list[str]] = {"a": [], "b": ["a"]}
CREATED = (
    "jobtemplate.flow.volcano.sh/a created\n"
    "jobtemplate.flow.volcano.sh/b created\n"
    "jobflow.flow.volcano.sh/train created\n"
)


def train(**spec: Any) -> list[dict[str, Any]]:
    """Return templates a and b, and the flow train."""
    return [template("a"), template("b"), jobflow("train", STEPS, **spec)]


def write_flow(folder: Path, *objects: dict[str, Any]) -> str:
    path = folder / "flow.yaml"
    path.write_text(yaml.safe_dump_all(objects, sort_keys=False))
    return str(path)


async def stored_names(world: Cluster) -> tuple[list[str], list[str]]:
    """Return the names of the stored templates and flows."""
    templates, flows = await world.raw(JOBTEMPLATES), await world.raw(JOBFLOWS)
    return [each["metadata"]["name"] for each in templates], [
        each["metadata"]["name"] for each in flows
    ]
