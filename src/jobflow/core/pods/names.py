"""What Volcano will name the pods of a vcjob, as far as its spec says. It refuses nothing.

A pod is `<vcjob>-<task>-<n>` (Volcano pkg/controllers/job/helpers, MakePodName).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

_HOSTNAME_PLUGINS = frozenset({"svc", "tensorflow", "pytorch", "mpi", "ray"})
"""Plugins under which each pod gets its own name as its hostname, and the vcjob's as subdomain;
the last four switch svc on (Volcano pkg/webhooks/admission/jobs/mutate)."""


class PodNames(NamedTuple):
    """What follows the vcjob's name in the names of its pods."""

    tasks: tuple[str, ...]
    """The tasks that have pods."""
    longest: str
    """The longest `-<task>-<n>` that has to fit."""
    hostname_plugin: str | None
    """The plugin that makes hostnames of the names, if one does."""


def predict_pod_names(spec: Mapping[str, Any]) -> PodNames:
    """Of a vcjob spec, whatever it holds; what is no task at all is passed over.

    As in Volcano a task without a name gets `default<n>`, and one without replicas has no pods.
    Volcano's admission measures each task's name with the task's own position
    (validateK8sPodNameLength); hostnames have to fit for the last pod too.
    """
    plugins = spec.get("plugins")
    plugin = _hostname_plugin(plugins) if plugins else None
    tasks = spec.get("tasks")
    with_pods: list[str] = []
    longest = ""
    for n, task in enumerate(tasks if isinstance(tasks, list) else ()):
        if not isinstance(task, dict):
            continue
        name = task.get("name")
        if not isinstance(name, str) or not name:
            name = f"default{n}"
        replicas = task.get("replicas")
        if isinstance(replicas, int) and replicas > 0:
            with_pods.append(name)
            suffix = f"-{name}-{n if plugin is None else max(n, _last_hostname(task, replicas))}"
        else:
            suffix = f"-{name}-{n}"
        if len(suffix) > len(longest):
            longest = suffix
    return PodNames(tuple(with_pods), longest, plugin)


def _hostname_plugin(plugins: Any) -> str | None:
    if not isinstance(plugins, dict):
        return None
    return next((name for name in plugins if name in _HOSTNAME_PLUGINS), None)


def _last_hostname(task: dict[str, Any], replicas: int) -> int:
    """The number in the last hostname that is made of a pod's name; 0 where the template has a
    hostname of its own."""
    template = task.get("template")
    pod = template.get("spec") if isinstance(template, dict) else None
    return 0 if isinstance(pod, dict) and pod.get("hostname") else replicas - 1
