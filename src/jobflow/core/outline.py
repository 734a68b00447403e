"""A flow by columns, each computed once for all rules. It holds no rule and judges nothing.

A rule looks at a column first, which takes well under a microsecond a step, and walks the steps
only where the column says that something is wrong: so rules stay small and a valid flow is cheap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, NamedTuple, TypeVar

from jobflow.api.control import Case
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
from jobflow.core.graph import Graph
from jobflow.core.known_tasks import KnownTasks
from jobflow.core.mentions import expressions_of
from jobflow.core.planned import ONE, Planned, planned
from jobflow.core.readings import Readings, Written
from jobflow.core.uses import Change, Patched, Use, changes, patches_of, uses
from jobflow.core.visible import Place, Visible

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
        self.flows: list[Step] = flow.spec.flows or []
        self.last: list[Step] = flow.spec.finally_ or []
        """The steps of `finally`."""
        self.steps: list[Step] = [*self.flows, *self.last] if self.last else self.flows
        """All of them; a position is one in this list. The graph holds those of `flows` alone."""
        self.graph = Graph(self.flows)
        self.names: list[str] = [*self.graph.names, *(step.name for step in self.last)]
        """Of all steps, by position."""
        self.dependencies: list[tuple[int, DependsOn]] = [
            (i, step.depends_on) for i, step in enumerate(self.flows) if step.depends_on is not None
        ]
        self.patches: list[Patched] = list(patches_of(self.steps, self.path))
        """Those of the steps and of their cases."""

        self.probes: list[tuple[int, Probe]] = [
            (i, depends_on.probe)
            for i, depends_on in self.dependencies
            if depends_on.probe is not None and not depends_on.probe.empty
        ]
        """Those that ask something, by their step."""
        self.steered: list[tuple[int, Step]] = [
            (i, step)
            for i, step in enumerate(self.steps)
            if step.switch is not None
            or step.for_each is not None
            or step.repeat is not None
            or step.retry is not None
            or step.timeout is not None
            or step.daemon
        ]
        """Those of which more is said than what they wait for and what they change."""
        self.steered_at = frozenset(i for i, _ in self.steered)
        self.cases: list[tuple[int, int, Case]] = [
            (i, at, case)
            for i, step in self.steered
            if step.switch
            for at, case in enumerate(step.switch)
        ]
        """Every case of a switch, by its step and its place there."""

    def path(self, step: int) -> str:
        """The JSON path of a step: `spec.flows[3]`, `spec.finally[0]`."""
        last = step - len(self.flows)
        return f"spec.flows[{step}]" if last < 0 else f"spec.finally[{last}]"

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
    def tasks(self) -> KnownTasks:
        """The tasks of each step whose templates are known."""
        templates = self.known.templates or {}
        half_known = frozenset(
            i
            for i, step in self.steered
            if step.switch and not templates.keys() >= set(step.templates)
        )
        return KnownTasks(self.uses, half_known)

    @cached_property
    def readings(self) -> Readings:
        """What its expressions say."""
        visible = Visible(self.flow, self.graph, self.steps, self.tasks.get)
        return Readings(list(self._written()), visible, self.graph)

    def _written(self) -> Iterator[Written]:
        for i, step in enumerate(self.steps):
            if step.when is None and not (
                step.switch or step.for_each or step.repeat or step.retry
            ):
                continue
            for field, text in expressions_of(step):
                kind = "switch" if field.startswith("switch") else field
                yield Written(Place(i, kind), f"{self.path(i)}.{field}", text)

    @cached_property
    def flow_name(self) -> str:
        """The flow's name; for one that the API server is to choose, one of its length."""
        metadata = self.flow.metadata
        if metadata.name or not metadata.generate_name:
            return metadata.name
        return metadata.generate_name[:_MAX_GENERATE_NAME] + RANDOM_SUFFIX

    @cached_property
    def planned(self) -> list[Planned]:
        """How many vcjobs each step may come to, by position."""
        return planned(self.flow, self.steps)

    @cached_property
    def repeats_names(self) -> bool:
        """Whether a step may come to more than one vcjob."""
        return any(each is not ONE for each in self.planned)

    @cached_property
    def longest_tail(self) -> int:
        """Characters of the longest index and retry that stand behind a step's name."""
        if not self.repeats_names:
            return 0
        return max(len(each.longest) for each in set(self.planned))

    @cached_property
    def changes(self) -> list[Change]:
        """The patches that say something, in the order of the flow."""
        return list(changes(self.flow, self.patches)) if self.patches else []

    @cached_property
    def uses(self) -> list[Use]:
        """What the steps may run, in order, as far as templates are known."""
        templates = self.known.templates
        return list(uses(self.flow, self.steps, self.changes, templates)) if templates else []
