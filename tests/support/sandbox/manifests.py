"""Manifests that several tests apply, as the YAML that a user writes."""

import json
from collections.abc import Mapping
from typing import Any


def template(name: str, *, duration: str = "200ms", **annotations: str) -> dict[str, Any]:
    """Return a JobTemplate with one pod that runs for `duration` in the sandbox."""
    prefix = "sandbox.jobflow.volcano.sh/"
    notes = {"duration": duration} | {k.replace("_", "-"): v for k, v in annotations.items()}
    container = {"name": "main", "image": "busybox:1.36", "command": ["sh", "-c", "true"]}
    task = {
        "name": "main",
        "replicas": 1,
        "template": {"spec": {"containers": [container], "restartPolicy": "Never"}},
    }
    return {
        "apiVersion": "flow.volcano.sh/v1alpha1",
        "kind": "JobTemplate",
        "metadata": {
            "name": name,
            "annotations": {prefix + key: value for key, value in notes.items()},
        },
        "spec": {"minAvailable": 1, "queue": "default", "tasks": [task]},
    }


def jobflow(name: str, steps: Mapping[str, list[str]], **spec: Any) -> dict[str, Any]:
    """Return a JobFlow of these steps, each with its targets."""
    flows = [
        {"name": step} | ({"dependsOn": {"targets": targets}} if targets else {})
        for step, targets in steps.items()
    ]
    return {
        "apiVersion": "flow.volcano.sh/v1alpha1",
        "kind": "JobFlow",
        "metadata": {"name": name},
        "spec": {"flows": flows} | spec,
    }


def step(
    name: str, after: str = "", depends: Mapping[str, Any] | None = None, **fields: Any
) -> dict[str, Any]:
    """Return a step. `after`: the names of its targets; `depends`: more of its dependsOn."""
    depends_on = {"dependsOn": {"targets": after.split(), **(depends or {})}} if after else {}
    return {"name": name, **depends_on, **fields}


def flow(name: str, *steps: Any, **spec: Any) -> dict[str, Any]:
    """Return a JobFlow of these steps."""
    return jobflow(name, {}, flows=list(steps), **spec)


DIAMOND = {"a": [], "b": ["a"], "c": ["b"], "d": ["b"], "e": ["c", "d"]}
"""The flow of JobFlow's own documentation."""


def as_list(*objects: Mapping[str, Any]) -> str:
    """Return several objects as one file for `kubectl apply -f -`."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
