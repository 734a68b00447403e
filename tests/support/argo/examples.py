"""Argo's examples: where they are, and which files belong together.

They are never copied into this project. The folder is that of `ARGO_EXAMPLES`; without it, the
examples of a fixed version are downloaded as a Go module, if there is a `go`.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path

from jobflow.client.manifests.objects import Manifest, load

MODULE = "github.com/argoproj/argo-workflows/v3"
VERSION = "v3.7.3"
_KINDS = ("Workflow", "WorkflowTemplate", "ClusterWorkflowTemplate", "CronWorkflow")
_LIBRARY = (*_KINDS[1:3], "ConfigMap")


@dataclass(frozen=True)
class Example:
    """A file, and the files that have the templates and ConfigMaps that it names."""

    name: str
    path: Path
    others: tuple[Path, ...] = ()


@cache
def find_folder() -> Path | None:
    """Return the folder with the examples, or None if they cannot be had."""
    if given := os.environ.get("ARGO_EXAMPLES"):
        return Path(given)
    if shutil.which("go") is None:
        return None
    command = ["go", "mod", "download", "-json", f"{MODULE}@{VERSION}"]
    try:
        answer = subprocess.run(command, capture_output=True, timeout=300, check=True, cwd="/")
    except (subprocess.SubprocessError, OSError):
        return None
    folder = Path(json.loads(answer.stdout)["Dir"]) / "examples"
    return folder if folder.is_dir() else None


@cache
def examples() -> tuple[Example, ...]:
    """Return the files that have an object that `jobflow migrate` converts, in order."""
    folder = find_folder()
    if folder is None:
        return ()
    read = {path: _objects(path) for path in sorted(folder.rglob("*.yaml"))}
    owners: dict[tuple[str, str], Path] = {}
    for path, objects in read.items():
        for each in objects:
            if each.kind in _LIBRARY:
                owners.setdefault((str(each.kind), each.name), path)
    found = []
    for path, objects in read.items():
        if not any(each.kind in _KINDS for each in objects):
            continue
        own = {(str(each.kind), each.name) for each in objects}
        needed = _needed({*_references(objects)} - own, owners, read)
        name = str(path.relative_to(folder))
        found.append(Example(name, path, tuple(sorted(needed - {path}))))
    return tuple(found)


def _objects(path: Path) -> list[Manifest]:
    return load([str(path)], BytesIO()).objects


def _needed(
    references: set[tuple[str, str]],
    owners: dict[tuple[str, str], Path],
    read: dict[Path, list[Manifest]],
) -> set[Path]:
    """Return the files that have the objects, and those that these name."""
    found: set[Path] = set()
    pending = [*references]
    while pending:
        path = owners.get(pending.pop())
        if path is not None and path not in found:
            found.add(path)
            pending += _references(read[path])
    return found


def _references(objects: list[Manifest]) -> Iterator[tuple[str, str]]:
    for each in objects:
        yield from _in(each.data)


def _in(value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, each in value.items():
            if key in ("templateRef", "workflowTemplateRef") and isinstance(each, dict):
                kind = _LIBRARY[1 if each.get("clusterScope") else 0]
                yield kind, str(each.get("name"))
            elif key == "configMapKeyRef" and isinstance(each, dict):
                yield "ConfigMap", str(each.get("name"))
            yield from _in(each)
    elif isinstance(value, list):
        for each in value:
            yield from _in(each)
