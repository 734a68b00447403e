"""Typed view of a vcjob spec that may be any JSON.

A value of the wrong type reads as None, like a missing one; `manifests.crd_schema` reports it.
Defaults are those of Volcano's mutating webhook (pkg/webhooks/admission/jobs/mutate).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Map = Mapping[str, Any]
_NOTHING: Map = {}


@dataclass(slots=True)
class TaskView:
    index: int
    path: str
    raw: Map
    name: str | None
    """The name, or Volcano's default; None if it is no text."""
    replicas: int | None
    """0 if not set, as in Volcano."""
    min_available: int | None

    @property
    def pod_spec(self) -> Map:
        """`template.spec`."""
        return mapping(mapping(self.raw, "template"), "spec")


@dataclass(slots=True)
class JobView:
    """A whole spec; `path` is its JSON path."""

    path: str
    raw: Map
    tasks: list[TaskView]
    plugins: Map


def job_view(spec: Any, path: str) -> JobView:
    raw = spec if isinstance(spec, dict) else _NOTHING
    tasks = []
    for i, task in elements(raw, "tasks"):
        written = task.get("name") or f"default{i}"
        name = written if isinstance(written, str) else None
        replicas = integer(task, "replicas") if task.get("replicas") is not None else 0
        at, least = f"{path}.tasks[{i}]", integer(task, "minAvailable")
        tasks.append(TaskView(i, at, task, name, replicas, least))
    return JobView(path, raw, tasks, mapping(raw, "plugins"))


def integer(raw: Map, key: str) -> int | None:
    """Return an integer of a map (`3.0` is one in JSON), or None."""
    value = raw.get(key)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def text(raw: Map, key: str) -> str | None:
    value = raw.get(key)
    return value if isinstance(value, str) else None


def mapping(raw: Map, key: str) -> Map:
    """Return a map in a map, or an empty one."""
    value = raw.get(key)
    return value if isinstance(value, dict) else _NOTHING


def elements(raw: Map, key: str) -> Iterator[tuple[int, Map]]:
    """Yield the maps of a list in a map, each with its index."""
    value = raw.get(key)
    if isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, dict):
                yield index, item
