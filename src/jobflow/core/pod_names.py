"""What Volcano will name the pods of a vcjob, as far as its spec says. It refuses nothing.

A pod is `<vcjob>-<task>-<n>` (Volcano pkg/controllers/job/helpers, MakePodName).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_HOSTNAME_PLUGINS = frozenset({"svc", "tensorflow", "pytorch", "mpi", "ray"})
"""Plugins under which each pod gets its own name as its hostname, and the vcjob's as subdomain;
the last four switch svc on (Volcano pkg/webhooks/admission/jobs/mutate)."""


@dataclass(frozen=True, slots=True)
class PodNames:
    """What follows the vcjob's name in the names of its pods."""

    tasks: tuple[str, ...]
    """The tasks that have pods."""
    longest: str
    """The longest `-<task>-<n>` that has to fit."""
    hostname_plugin: str | None
    """The plugin that makes hostnames of the names, if one does."""


def pod_names(spec: Mapping[str, Any]) -> PodNames:
    """Of a vcjob spec, whatever it holds; what is no task at all is passed over.

    Volcano's admission measures each task's name with the task's own position
    (validateK8sPodNameLength); hostnames have to fit for the last pod too.
    """
    plugin = _hostname_plugin(spec)
    tasks: list[str] = []
    longest = ""
    for n, (name, replicas) in enumerate(_tasks(spec)):
        if replicas > 0:
            tasks.append(name)
        suffix = f"-{name}-{n if plugin is None else max(n, replicas - 1)}"
        if len(suffix) > len(longest):
            longest = suffix
    return PodNames(tuple(tasks), longest, plugin)


def _tasks(spec: Mapping[str, Any]) -> list[tuple[str, int]]:
    """(name, replicas) of each task: as in Volcano, one without a name gets `default<n>`, and one
    without replicas has no pods."""
    tasks = spec.get("tasks")
    if not isinstance(tasks, list):
        return []
    found = []
    for n, task in enumerate(tasks):
        if isinstance(task, dict):
            name, replicas = task.get("name"), task.get("replicas")
            if not isinstance(name, str) or not name:
                name = f"default{n}"
            found.append((name, replicas if isinstance(replicas, int) else 0))
    return found


def _hostname_plugin(spec: Mapping[str, Any]) -> str | None:
    plugins = spec.get("plugins")
    if not isinstance(plugins, dict):
        return None
    return next((name for name in plugins if name in _HOSTNAME_PLUGINS), None)
