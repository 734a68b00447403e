"""A flow by columns, each computed once for all rules. It holds no rule and judges nothing.

A rule looks at a column first, which takes well under a microsecond a step, and walks the steps
only where the column says that something is wrong: so rules stay small and a valid flow is cheap.
Rules of what a flow does not use are not asked at all (`rules`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from jobflow.core.admission.analysis.job_counts import ONE, Planned, planned
from jobflow.core.admission.analysis.known_tasks import KnownTasks
from jobflow.core.admission.analysis.patch_locations import Stranger, strangers
from jobflow.core.admission.analysis.read_expressions import Readings, Written
from jobflow.core.admission.analysis.resolved_specs import (
    Patched,
    ResolvedPatch,
    ResolvedSpec,
    ResolvedStep,
    Resolver,
    changes,
    is_open,
    patches_of,
)
from jobflow.core.admission.analysis.visible_names import NameScope, Place
from jobflow.core.lazy import lazy_property
from jobflow.core.manifests.unknown_fields import NO_MISFITS, Misfits, misfits
from jobflow.core.spec.expressions import list_expressions
from jobflow.core.spec.graph import Graph
from jobflow.core.violations import MAX_FINDINGS

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


class FlowFacts:
    """What the rules look at."""

    def __init__(self, flow: JobFlow, known: Known) -> None:
        self.flow = flow
        self.known = known
        self.flows: list[Step] = flow.spec.flows or []
        self.finally_steps: list[Step] = flow.spec.finally_ or []
        """The steps of `finally`."""
        self.steps: list[Step] = (
            [*self.flows, *self.finally_steps] if self.finally_steps else self.flows
        )
        """All of them; a position is one in this list. The graph holds those of `flows` alone."""
        self.graph = Graph(self.flows)
        self.names: list[str] = self.graph.names + [step.name for step in self.finally_steps]
        """Of all steps, by position."""
        self.dependencies: list[tuple[int, DependsOn]] = [
            (i, step.depends_on) for i, step in enumerate(self.flows) if step.depends_on is not None
        ]
        self.probes: list[tuple[int, Probe]] = [
            (i, depends_on.probe)
            for i, depends_on in self.dependencies
            if depends_on.probe is not None and not depends_on.probe.empty
        ]
        """Those that ask something, by their step."""
        self.steps_with_options: list[tuple[int, Step]] = _steps_with_options(self.steps)
        """Those of which more is said than which template they run and what they wait for. No rule
        of anything else walks the others."""
        self.patches: list[Patched] = list(patches_of(self.steps_with_options, self.path))
        """Those of the steps and of their cases."""
        self.controlled_steps: list[tuple[int, Step]] = _controlled_steps(self.steps_with_options)
        """Those of which more is said than that, what they change and when they run."""
        self.cases: list[tuple[int, int, Case]] = [
            (i, at, case)
            for i, step in self.controlled_steps
            if step.switch
            for at, case in enumerate(step.switch)
        ]
        """Every case of a switch, by its step and its place there."""
        self.steps_with_expressions: list[tuple[int, Step]] = _steps_with_expressions(
            self.steps_with_options
        )
        """Those that may have expressions."""

    @property
    def controlled(self) -> bool:
        """Whether anything steers the flow as a whole or any of its steps."""
        spec = self.flow.spec
        return bool(
            self.controlled_steps
            or self.finally_steps
            or spec.parallelism is not None
            or spec.timeout is not None
            or spec.failure_policy is not None
            or spec.ttl_seconds_after_finished is not None
        )

    def path(self, step: int) -> str:
        """The JSON path of a step: `spec.flows[3]`, `spec.finally[0]`."""
        last = step - len(self.flows)
        return f"spec.flows[{step}]" if last < 0 else f"spec.finally[{last}]"

    @lazy_property
    def requests(self) -> list[Entry[HTTPGetProbe]]:
        """All that is in an httpGetList."""
        return [
            Entry(i, "httpGetList", at, each)
            for i, probe in self.probes
            if probe.http_get_list
            for at, each in enumerate(probe.http_get_list)
        ]

    @lazy_property
    def connections(self) -> list[Entry[TCPSocketProbe]]:
        """All that is in a tcpSocketList."""
        return [
            Entry(i, "tcpSocketList", at, each)
            for i, probe in self.probes
            if probe.tcp_socket_list
            for at, each in enumerate(probe.tcp_socket_list)
        ]

    @lazy_property
    def task_statuses(self) -> list[Entry[TaskStatusProbe]]:
        """All that is in a taskStatusList."""
        return [
            Entry(i, "taskStatusList", at, each)
            for i, probe in self.probes
            if probe.task_status_list
            for at, each in enumerate(probe.task_status_list)
        ]

    @lazy_property
    def entries(self) -> list[AnyEntry]:
        """All three."""
        return [*self.requests, *self.connections, *self.task_statuses]

    @lazy_property
    def tasks(self) -> KnownTasks:
        """The tasks of each step whose templates are known."""
        templates = self.known.templates or {}
        half_known = frozenset(
            i
            for i, step in self.controlled_steps
            if step.switch and not templates.keys() >= set(step.templates)
        )
        return KnownTasks(self.resolved_steps, half_known)

    @lazy_property
    def readings(self) -> Readings:
        """What its expressions say."""
        visible = NameScope(self.flow, self.graph, self.steps, self.tasks.get)
        return Readings(list(self._written()), visible, self.graph)

    def _written(self) -> Iterator[Written]:
        for i, step in self.steps_with_expressions:
            for field, text in list_expressions(step):
                kind = "switch" if field.startswith("switch") else field
                yield Written(Place(i, kind), f"{self.path(i)}.{field}", text)

    @lazy_property
    def flow_name(self) -> str:
        """The flow's name; for one that the API server is to choose, one of its length."""
        metadata = self.flow.metadata
        if metadata.name or not metadata.generate_name:
            return metadata.name
        return metadata.generate_name[:_MAX_GENERATE_NAME] + RANDOM_SUFFIX

    @lazy_property
    def longest_name(self) -> int:
        """Characters of the longest name of a step."""
        return max(map(len, self.names), default=0)

    @lazy_property
    def planned(self) -> list[Planned]:
        """How many vcjobs each step may come to, by position."""
        return planned(self.flow, self.steps)

    @lazy_property
    def repeats_names(self) -> bool:
        """Whether a step may come to more than one vcjob."""
        return bool(self.controlled_steps) and any(each is not ONE for each in self.planned)

    @lazy_property
    def longest_tail(self) -> int:
        """Characters of the longest index and retry that stand behind a step's name."""
        if not self.repeats_names:
            return 0
        return max(len(each.longest) for each in set(self.planned))

    @lazy_property
    def changes(self) -> list[ResolvedPatch]:
        """The patches that say something, in the order of the flow."""
        return list(changes(self.flow, self.patches)) if self.patches else []

    @lazy_property
    def misfits(self) -> list[tuple[ResolvedPatch, Misfits]]:
        """Fields and values of patches that no vcjob has, by patch; about MAX_FINDINGS at most."""
        found: list[tuple[ResolvedPatch, Misfits]] = []
        wrong = unknown = 0
        for change in self.changes:
            of_one = misfits(change.said, change.path, is_open=is_open, unknown_before=unknown)
            if of_one is not NO_MISFITS:
                found.append((change, of_one))
                wrong += len(of_one.violations)
                unknown += len(of_one.doubts)
            if wrong >= MAX_FINDINGS:
                break
        return found

    @lazy_property
    def strangers(self) -> list[tuple[ResolvedSpec, ResolvedPatch, Stranger]]:
        """Tasks and containers of patches that their templates do not have."""
        return [
            (kind, change, stranger)
            for kind in self.resolved_specs
            if kind.changes
            for change, stranger in strangers(kind)
        ]

    @lazy_property
    def templates(self) -> list[str]:
        """Every JobTemplate that a step may run, by name, in the order of the flow."""
        if self.cases:
            return self.flow.templates
        return list(dict.fromkeys([step.template or step.name for step in self.steps]))

    @lazy_property
    def resolved_specs(self) -> list[ResolvedSpec]:
        """What the steps may come to as far as templates are known, each once, in order: where
        nothing is changed, one kind a template."""
        if self.changes:
            return list({id(use.kind): use.kind for use in self.resolved_steps}.values())
        found = map(self._resolved_specs.plain, self.templates) if self.known.templates else ()
        return [kind for kind in found if kind is not None]

    @lazy_property
    def resolved_steps(self) -> list[ResolvedStep]:
        """The same by step, for rules that have found something in `kinds`."""
        return list(self._resolved_specs.uses(self.steps)) if self.known.templates else []

    @lazy_property
    def _resolved_specs(self) -> Resolver:
        return Resolver(self.flow, self.changes, self.known.templates or {})


def _steps_with_options(steps: Sequence[Step]) -> list[tuple[int, Step]]:
    return [
        (i, step)
        for i, step in enumerate(steps)
        if step.patch is not None
        or step.when is not None
        or step.switch is not None
        or step.for_each is not None
        or step.repeat is not None
        or step.retry is not None
        or step.timeout is not None
        or step.daemon
    ]


def _controlled_steps(special: Sequence[tuple[int, Step]]) -> list[tuple[int, Step]]:
    return [
        (i, step)
        for i, step in special
        if step.switch is not None
        or step.for_each is not None
        or step.repeat is not None
        or step.retry is not None
        or step.timeout is not None
        or step.daemon
    ]


def _steps_with_expressions(special: Sequence[tuple[int, Step]]) -> list[tuple[int, Step]]:
    return [
        (i, step)
        for i, step in special
        if step.when is not None or step.switch or step.for_each or step.repeat or step.retry
    ]
