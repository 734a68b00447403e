"""The names that Volcano gives the pods of a vcjob: `<vcjob>-<task>-<n>`.

Source: Volcano pkg/controllers/job/helpers, MakePodName.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

_HOSTNAME_PLUGINS = frozenset({"svc", "tensorflow", "pytorch", "mpi", "ray"})
"""Plugins that make each pod's name its hostname, and the vcjob's name its subdomain. All but svc
enable svc too (Volcano pkg/webhooks/admission/jobs/mutate)."""


class PodNames(NamedTuple):
    """The parts after the vcjob's name in the names of its pods."""

    tasks: tuple[str, ...]
    """Tasks with pods."""
    longest: str
    """The longest `-<task>-<n>`."""
    hostname_plugin: str | None
    """The plugin that makes the names hostnames, if the job has one."""


def predict_pod_names(spec: Mapping[str, Any]) -> PodNames:
    """Return the names for a vcjob spec, which may be any JSON.

    A task without a name is `default<n>`, and one without replicas has no pods. Volcano's admission
    measures a task's name with the position of the task (validateK8sPodNameLength); a hostname must
    fit for the last pod too.
    """
    plugins = spec.get("plugins")
    named = plugins if isinstance(plugins, dict) else ()
    plugin = next((name for name in named if name in _HOSTNAME_PLUGINS), None)
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
            template = task.get("template")
            pod = template.get("spec") if isinstance(template, dict) else None
            own_hostname = isinstance(pod, dict) and pod.get("hostname")
            last = 0 if plugin is None or own_hostname else replicas - 1
            suffix = f"-{name}-{max(n, last)}"
        else:
            suffix = f"-{name}-{n}"
        if len(suffix) > len(longest):
            longest = suffix
    return PodNames(tuple(with_pods), longest, plugin)
