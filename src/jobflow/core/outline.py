"""A flow by columns, each computed once for all rules. It holds no rule and judges nothing.

A rule looks at a column first, which takes well under a microsecond a step, and walks the steps
only where the column says that something is wrong: so rules stay small and a valid flow is cheap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

from jobflow.api.control import Patch
from jobflow.api.jobflow import (
    DependsOn,
    HTTPGetProbe,
    JobFlow,
    Probe,
    Step,
    TaskStatusProbe,
    TCPSocketProbe,
)
from jobflow.api.jobtemplate import JobTemplate
from jobflow.core.build import patch_of
from jobflow.core.graph import Graph
from jobflow.core.job_view import job_view
from jobflow.core.merge import merge
from jobflow.core.pod_names import PodNames, pod_names

Tasks = Mapping[str, int | None]
"""The tasks of a vcjob spec and how many pods each has; None where that is no number of pods."""

A = TypeVar("A", HTTPGetProbe, TCPSocketProbe, TaskStatusProbe, covariant=True)

RANDOM_SUFFIX = "x" * 5
"""Stands for the characters that an API server appends to `generateName`."""
_MAX_GENERATE_NAME = 58
"""What it keeps of `generateName` (k8s.io/apiserver/pkg/storage/names)."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the cluster beside the object itself."""

    templates: Mapping[str, JobTemplate] | None = None
    """Those of the flow's namespace by name; None: nobody knows them, so nothing is said of
    them and nothing is checked through them."""
    queues: Mapping[str, str] | None = None
    """Queue name -> `status.state` ("Open", …); None: not known."""


class Use(NamedTuple):
    """A step whose template is known."""

    step: int
    """Its position in `spec.flows`."""
    template: JobTemplate
    spec: Mapping[str, Any]
    """The vcjob spec that the step has now: its template's, with the step's patch merged in."""
    pods: PodNames
    patched: bool


class Entry(NamedTuple, Generic[A]):
    """One thing that a step's probe asks of its targets."""

    step: int
    field: str
    """The list it stands in: `httpGetList`."""
    at: int
    asked: A

    @property
    def place(self) -> str:
        """Where in the probe it is: `httpGetList[0]`."""
        return f"{self.field}[{self.at}]"

    @property
    def path(self) -> str:
        """Its JSON path."""
        return f"spec.flows[{self.step}].dependsOn.probe.{self.place}"


AnyEntry = Entry[HTTPGetProbe] | Entry[TCPSocketProbe] | Entry[TaskStatusProbe]


class Outline:
    """What the rules look at."""

    def __init__(self, flow: JobFlow, known: Known) -> None:
        self.flow = flow
        self.known = known
        self.steps: list[Step] = flow.spec.flows or []
        self.graph = Graph(self.steps)
        self.names = self.graph.names
        """Of the steps, by position."""
        self.dependencies: list[tuple[int, DependsOn]] = [
            (i, step.depends_on) for i, step in enumerate(self.steps) if step.depends_on is not None
        ]
        self.patches: list[tuple[int, Patch]] = [
            (i, step.patch) for i, step in enumerate(self.steps) if step.patch is not None
        ]

        self.probes: list[tuple[int, Probe]] = [
            (i, depends_on.probe)
            for i, depends_on in self.dependencies
            if depends_on.probe is not None and not depends_on.probe.empty
        ]
        """Those that ask something, by their step."""

    @cached_property
    def requests(self) -> list[Entry[HTTPGetProbe]]:
        """All that is in an httpGetList."""
        return [
            Entry(i, "httpGetList", at, each)
            for i, probe in self.probes
            if probe.http_get_list
            for at, each in enumerate(probe.http_get_list)
        ]

    @cached_property
    def connections(self) -> list[Entry[TCPSocketProbe]]:
        """All that is in a tcpSocketList."""
        return [
            Entry(i, "tcpSocketList", at, each)
            for i, probe in self.probes
            if probe.tcp_socket_list
            for at, each in enumerate(probe.tcp_socket_list)
        ]

    @cached_property
    def task_statuses(self) -> list[Entry[TaskStatusProbe]]:
        """All that is in a taskStatusList."""
        return [
            Entry(i, "taskStatusList", at, each)
            for i, probe in self.probes
            if probe.task_status_list
            for at, each in enumerate(probe.task_status_list)
        ]

    @cached_property
    def entries(self) -> list[AnyEntry]:
        """All three."""
        return [*self.requests, *self.connections, *self.task_statuses]

    @cached_property
    def tasks(self) -> Mapping[int, Tasks]:
        """The tasks of each step whose template is known; of one template always the same map."""
        plain: dict[int, Tasks] = {}
        found = {}
        for use in self.uses:
            tasks = None if use.patched else plain.get(id(use.spec))
            if tasks is None:
                tasks = _tasks(use.spec)
                if not use.patched:
                    plain[id(use.spec)] = tasks
            found[use.step] = tasks
        return found

    @cached_property
    def flow_name(self) -> str:
        """The flow's name; for one that the API server is to choose, one of its length."""
        metadata = self.flow.metadata
        if metadata.name or not metadata.generate_name:
            return metadata.name
        return metadata.generate_name[:_MAX_GENERATE_NAME] + RANDOM_SUFFIX

    @cached_property
    def uses(self) -> list[Use]:
        """The steps whose templates are known, in order; none where templates are not known."""
        return list(self._uses())

    def _uses(self) -> Iterator[Use]:
        templates = self.known.templates
        if not templates:
            return
        plain: dict[str, PodNames] = {}
        for i, step in enumerate(self.steps):
            name = step.template or step.name
            template = templates.get(name)
            if template is None:
                continue
            patch = None if step.patch is None else patch_of(step)
            if patch:
                spec = merge(template.spec, patch)
                yield Use(i, template, spec, pod_names(spec), True)
                continue
            pods = plain.get(name)
            if pods is None:
                pods = plain[name] = pod_names(template.spec)
            yield Use(i, template, template.spec, pods, False)


def _tasks(spec: Mapping[str, Any]) -> Tasks:
    tasks: dict[str, int | None] = {}
    for task in job_view(spec, "", None).tasks:
        if task.name is not None:
            pods = task.replicas
            tasks.setdefault(task.name, pods if pods is not None and pods >= 0 else None)
    return tasks
