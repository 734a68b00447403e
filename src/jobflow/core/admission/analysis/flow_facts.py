"""Facts of a flow that rules share, such as all names or all probes, each computed at most once.

A rule first checks a fact of the whole flow, in far less than a microsecond a step, and walks the
steps only if that shows a fault. No fact may refer to the FlowFacts that hold it: an object without
reference cycles is freed at once (docs/performance.md).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from jobflow.api.control import Case
from jobflow.api.jobflow import (
    DependsOn,
    HTTPGetProbe,
    JobFlow,
    JobFlowSpec,
    Probe,
    Step,
    TaskStatusProbe,
    TCPSocketProbe,
)
from jobflow.api.jobtemplate import JobTemplate
from jobflow.core.admission.analysis.flow_expressions import FlowExpressions, WrittenExpression
from jobflow.core.admission.analysis.job_counts import ONE_JOB, JobCount, job_counts
from jobflow.core.admission.analysis.patch_locations import UnknownElement, unknown_elements
from jobflow.core.admission.analysis.resolved_specs import (
    KnownTasks,
    ResolvedPatch,
    ResolvedSpec,
    ResolvedStep,
    Resolver,
    StepPatch,
    is_open,
    resolved_patches,
    step_patches,
)
from jobflow.core.admission.analysis.visible_names import ExpressionPlace, NameScope
from jobflow.core.lazy import lazy_property
from jobflow.core.manifests.unknown_fields import misfits
from jobflow.core.spec.expressions import list_expressions
from jobflow.core.spec.graph import Graph
from jobflow.core.violations import MAX_FINDINGS, Verdict

A = TypeVar("A", HTTPGetProbe, TCPSocketProbe, TaskStatusProbe, covariant=True)

PLAIN_FIELDS = frozenset({"name", "template", "depends_on", "continue_on_failure"})
"""Fields of a step that are no options. Every other field is one, a new field too."""
PLAIN_SPEC_FIELDS = frozenset({"flows", "job_retain_policy", "params", "job_defaults", "suspend"})
"""Fields of a flow's spec that are no options: rules of their own look at them."""


Select = Callable[[Iterable[Any]], list[tuple[int, Any]]]


def _with_options(struct: type[msgspec.Struct], plain: frozenset[str]) -> Select:
    """Return a function that selects the values in which a field that is not plain is set, with
    their positions. It is compiled, because it looks at every step and a call for each of them
    takes three times as long."""
    options = [field.name for field in msgspec.structs.fields(struct) if field.name not in plain]
    tests = " or ".join(f"value.{name} is not None" for name in options)
    select: Select = eval(
        f"lambda values: [(i, value) for i, value in enumerate(values) if {tests}]"
    )
    return select


_select_steps = _with_options(Step, PLAIN_FIELDS)
_select_specs = _with_options(JobFlowSpec, PLAIN_SPEC_FIELDS)

RANDOM_SUFFIX = "x" * 5
"""Placeholder for the characters that an API server appends to `generateName`."""
_MAX_GENERATE_NAME = 58
"""Characters of `generateName` that an API server keeps (k8s.io/apiserver/pkg/storage/names)."""


@dataclass(frozen=True, slots=True)
class Known:
    """The cluster's objects that admission of a flow or template depends on."""

    templates: Mapping[str, JobTemplate] | None = None
    """JobTemplates of the flow's namespace by name. None: unknown, so nothing is checked against
    them."""
    queues: Mapping[str, str] | None = None
    """Queue name -> `status.state` ("Open", …). None: unknown."""


class ProbeEntry(NamedTuple, Generic[A]):
    """An entry in one of the lists of a step's probe."""

    step: int
    field: str
    """The list: `httpGetList`."""
    at: int
    asked: A

    @property
    def place(self) -> str:
        """Path below the probe: `httpGetList[0]`."""
        return f"{self.field}[{self.at}]"

    @property
    def path(self) -> str:
        """JSON path in the flow."""
        return f"spec.flows[{self.step}].dependsOn.probe.{self.place}"


AnyProbeEntry = ProbeEntry[HTTPGetProbe] | ProbeEntry[TCPSocketProbe] | ProbeEntry[TaskStatusProbe]


class FlowFacts:
    """Facts of one flow. A step's position is its index in `steps`."""

    def __init__(self, flow: JobFlow, known: Known) -> None:
        self.flow = flow
        self.known = known
        self.flows: list[Step] = flow.spec.flows or []
        self.finally_steps: list[Step] = flow.spec.finally_ or []
        self.steps: list[Step] = (
            [*self.flows, *self.finally_steps] if self.finally_steps else self.flows
        )
        """All steps, those of `finally` last."""
        self.graph = Graph(self.flows)
        """Dependencies of `flows`; steps of `finally` are not in it."""
        self.names: list[str] = self.graph.names + [step.name for step in self.finally_steps]
        self.dependencies: list[tuple[int, DependsOn]] = [
            (i, step.depends_on) for i, step in enumerate(self.flows) if step.depends_on is not None
        ]
        self.probes: list[tuple[int, Probe]] = [
            (i, depends_on.probe)
            for i, depends_on in self.dependencies
            if depends_on.probe is not None and not depends_on.probe.empty
        ]
        self.steps_with_options: list[tuple[int, Step]] = _select_steps(self.steps)
        """Steps with a field set beyond PLAIN_FIELDS. Rules of options walk only these."""
        self.has_options: bool = bool(self.steps_with_options) or bool(_select_specs([flow.spec]))
        self.patches: list[StepPatch] = step_patches(self.steps_with_options, self.path)
        """Patches of steps and of their cases."""
        self.cases: list[tuple[int, int, Case]] = [
            (i, at, case)
            for i, step in self.steps_with_options
            if step.switch
            for at, case in enumerate(step.switch)
        ]
        """Every case of a switch, with its step and its index."""

    def path(self, step: int) -> str:
        """Return the JSON path of a step: `spec.flows[3]`, `spec.finally[0]`."""
        in_finally = step - len(self.flows)
        return f"spec.flows[{step}]" if in_finally < 0 else f"spec.finally[{in_finally}]"

    # ------------------------------------------------------------------------ probes

    @lazy_property
    def requests(self) -> list[ProbeEntry[HTTPGetProbe]]:
        """Entries of every httpGetList."""
        return list(self._probe_entries("httpGetList", "http_get_list"))

    @lazy_property
    def connections(self) -> list[ProbeEntry[TCPSocketProbe]]:
        """Entries of every tcpSocketList."""
        return list(self._probe_entries("tcpSocketList", "tcp_socket_list"))

    @lazy_property
    def task_statuses(self) -> list[ProbeEntry[TaskStatusProbe]]:
        """Entries of every taskStatusList."""
        return list(self._probe_entries("taskStatusList", "task_status_list"))

    @lazy_property
    def entries(self) -> list[AnyProbeEntry]:
        """Entries of all lists."""
        return [*self.requests, *self.connections, *self.task_statuses]

    def _probe_entries(self, field: str, attribute: str) -> Iterator[ProbeEntry[Any]]:
        for i, probe in self.probes:
            for at, asked in enumerate(getattr(probe, attribute) or ()):
                yield ProbeEntry(i, field, at, asked)

    # ------------------------------------------------------------------- expressions

    @lazy_property
    def written_expressions(self) -> list[WrittenExpression]:
        """Every expression, in the order of the flow."""
        return [
            WrittenExpression(
                ExpressionPlace(i, "switch" if field.startswith("switch") else field),
                f"{self.path(i)}.{field}",
                text,
            )
            for i, step in self.steps_with_options
            for field, text in list_expressions(step)
        ]

    @lazy_property
    def expressions(self) -> FlowExpressions:
        """The expressions, parsed, and the names that each may use."""
        scope = NameScope(self.flow, self.graph, self.steps, self.tasks)
        return FlowExpressions(self.written_expressions, scope)

    # ------------------------------------------------------------------ names of jobs

    @lazy_property
    def flow_name(self) -> str:
        """The flow's name; a placeholder of the same length if the API server generates it."""
        metadata = self.flow.metadata
        if metadata.name or not metadata.generate_name:
            return metadata.name
        return metadata.generate_name[:_MAX_GENERATE_NAME] + RANDOM_SUFFIX

    @lazy_property
    def longest_name(self) -> int:
        """Characters of the longest step name."""
        return max(map(len, self.names), default=0)

    @lazy_property
    def job_counts(self) -> list[JobCount]:
        """The number of jobs that each step may create."""
        return job_counts(self.flow, self.steps)

    @lazy_property
    def has_numbered_jobs(self) -> bool:
        """Whether a step may create more than one job, so that names get an index or a retry."""
        return bool(self.steps_with_options) and any(
            count is not ONE_JOB for count in self.job_counts
        )

    @lazy_property
    def longest_suffix(self) -> int:
        """Characters of the longest index and retry that follow a step's name."""
        if not self.has_numbered_jobs:
            return 0
        return max(len(count.longest_suffix) for count in set(self.job_counts))

    # ------------------------------------------------------------ patches and templates

    @lazy_property
    def resolved_patches(self) -> list[ResolvedPatch]:
        """The patches that are not empty, in the order of the flow."""
        return list(resolved_patches(self.flow, self.patches)) if self.patches else []

    @lazy_property
    def misfits(self) -> list[tuple[ResolvedPatch, Verdict]]:
        """Fields and values of patches that no vcjob has; about MAX_FINDINGS at most."""
        found: list[tuple[ResolvedPatch, Verdict]] = []
        wrong = unknown = 0
        for patch in self.resolved_patches:
            of_patch = misfits(patch.content, patch.path, is_open=is_open, unknown_before=unknown)
            found.append((patch, of_patch))
            wrong += len(of_patch.violations)
            unknown += len(of_patch.field_warnings)
            if wrong >= MAX_FINDINGS:
                break
        return found

    @lazy_property
    def unknown_elements(self) -> list[tuple[ResolvedSpec, ResolvedPatch, UnknownElement]]:
        """Tasks and containers of patches that their templates do not have."""
        return [
            (resolved, patch, element)
            for resolved in self.resolved_specs
            if resolved.changes
            for patch, element in unknown_elements(resolved)
        ]

    @lazy_property
    def templates(self) -> list[str]:
        """Names of the JobTemplates that steps may run, in the order of the flow."""
        if self.cases:
            return self.flow.templates
        return list(dict.fromkeys([step.template or step.name for step in self.steps]))

    @lazy_property
    def resolved_specs(self) -> list[ResolvedSpec]:
        """The distinct specs of steps whose templates are known. Unchanged templates are shared."""
        if self.resolved_patches:
            return list({id(use.resolved): use.resolved for use in self.resolved_steps}.values())
        found = map(self._resolver.plain, self.templates) if self.known.templates else ()
        return [resolved for resolved in found if resolved is not None]

    @lazy_property
    def resolved_steps(self) -> list[ResolvedStep]:
        """The resolved spec of each step and case, for rules that found a fault in a spec."""
        return list(self._resolver.resolve(self.steps)) if self.known.templates else []

    @lazy_property
    def tasks(self) -> KnownTasks:
        """Tasks of each step all of whose templates are known."""
        templates = self.known.templates or {}
        partly_known = frozenset(
            i for i, _, case in self.cases if self.steps[i].template_for(case) not in templates
        )
        return KnownTasks(self.resolved_steps, partly_known)

    @lazy_property
    def _resolver(self) -> Resolver:
        return Resolver(self.flow, self.resolved_patches, self.known.templates or {})
