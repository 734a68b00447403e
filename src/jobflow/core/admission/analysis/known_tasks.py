"""The tasks of the jobs that steps come to, as far as templates are known. It judges nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jobflow.core.admission.analysis.resolved_specs import ResolvedStep
from jobflow.core.admission.volcano.job_view import job_view

Tasks = Mapping[str, int | None]
"""The tasks of a vcjob spec and how many pods each has; None where that is no number of pods."""


class KnownTasks:
    """Those of one flow, each looked at when it is asked for; of one spec always the same map."""

    def __init__(self, uses: Iterable[ResolvedStep], half_known: frozenset[int]) -> None:
        """`half_known`: steps some of whose templates are not known, which may have any tasks."""
        self._uses: dict[int, list[ResolvedStep]] = {}
        for use in uses:
            if use.step not in half_known:
                self._uses.setdefault(use.step, []).append(use)
        self._of_steps: dict[int, Tasks] = {}
        self._of_specs: dict[int, Tasks] = {}

    def __bool__(self) -> bool:
        """Whether those of any step are known."""
        return bool(self._uses)

    def get(self, step: int) -> Tasks | None:
        """Those of a step; with `switch`, what any of its cases has. None where they are not
        known."""
        if (found := self._of_steps.get(step)) is None and step in self._uses:
            for use in self._uses[step]:
                tasks = self._of(use.spec)
                found = tasks if found is None else _either(found, tasks)
            assert found is not None
            self._of_steps[step] = found
        return found

    def _of(self, spec: Mapping[str, Any]) -> Tasks:
        if (tasks := self._of_specs.get(id(spec))) is None:
            tasks = self._of_specs[id(spec)] = _tasks(spec)
        return tasks


def _either(one: Tasks, other: Tasks) -> Tasks:
    """The tasks of two specs, with the more pods where both have one."""
    tasks = dict(one)
    for name, pods in other.items():
        before = tasks.get(name, 0)
        tasks[name] = None if pods is None or before is None else max(before, pods)
    return tasks


def _tasks(spec: Mapping[str, Any]) -> Tasks:
    tasks: dict[str, int | None] = {}
    for task in job_view(spec, "", None).tasks:
        if task.name is not None:
            pods = task.replicas
            tasks.setdefault(task.name, pods if pods is not None and pods >= 0 else None)
    return tasks
