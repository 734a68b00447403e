"""Facts of a flow that rules share, such as all names or all probes, each computed at most once.

A rule first checks a fact of the whole flow, in far less than a microsecond a step, and walks the
steps only if that shows a fault. No fact may refer to the FlowFacts that hold it: an object without
reference cycles is freed at once (docs/performance.md)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from jobflow.api.flow.control import Approval, Case, Concurrency, StepConcurrency
from jobflow.api.flow.jobflow import JobFlow, JobFlowSpec, JobTemplate
from jobflow.api.flow.step import DependsOn, Probe, Step
from jobflow.api.flow.traits import Found, Relation, find_set
from jobflow.core.admission.analysis.child_flows import Child, child_flows
from jobflow.core.admission.analysis.flow_expressions import (
    FlowExpressions,
    ReferenceTrial,
    WrittenExpression,
    written_in,
)
from jobflow.core.admission.analysis.jobs import resolved_specs as specs
from jobflow.core.admission.analysis.jobs.job_counts import ONE_JOB, JobCount, job_counts
from jobflow.core.admission.analysis.jobs.layer_locations import (
    UnknownElement,
    misfits_of_layers,
    unknown_elements,
)
from jobflow.core.admission.analysis.places import ProbeEntry, UpstreamSteps
from jobflow.core.admission.analysis.tree_budget import TreeBudget
from jobflow.core.admission.analysis.visible_names import NameScope
from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.lazy import lazy_property
from jobflow.core.manifests.job_fields import claim_type, misfits
from jobflow.core.manifests.volume_claims import claim_spec
from jobflow.core.names import predict_generated_name
from jobflow.core.spec import graph
from jobflow.core.spec.concurrency import GroupName
from jobflow.core.spec.items import takes_items
from jobflow.core.spec.param_values import with_param_values
from jobflow.core.violations import Verdict, join_path
from jobflow.core.work import Work, ends_in_status, work_of


@dataclass(frozen=True, slots=True)
class Known:
    """The cluster's objects that admission of a flow or template depends on."""

    templates: Mapping[str, JobTemplate] | None = None
    """By name, those of the flow's namespace. None: unknown, so nothing is checked against them."""
    queues: Mapping[str, str] | None = None
    """Queue name -> `status.state` ("Open", …). None: unknown."""
    limits: Callable[[GroupName], Collection[int]] = lambda group: ()
    """Returns the limits that flows of the flow's namespace have for a concurrency group."""


class VolumeClaim(NamedTuple):
    name: str
    path: str
    written: Any
    spec: Any
    """The spec with the values of its references, or an EvaluationFailure if one has no value."""
    misfits: Verdict
    """Fields and values that no claim has; empty if a reference has no value."""


class FlowFacts:
    """Facts of one flow. A step's position is its index in `steps`."""

    def __init__(
        self,
        flow: JobFlow,
        known: Known,
        level: int = 1,
        outline: graph.Outline | None = None,
        budget: TreeBudget | None = None,
    ) -> None:
        """`outline`: that of `spec.flows`, if it is known; `budget`: that of the outermost flow."""
        self.written_flow = flow
        """The flow as the user wrote it, with references in numbers and timeouts."""
        # rules of a number see the value of its param
        self.flow = flow = with_param_values(flow)
        self.known = known
        self.level = level
        """1 for an outermost flow, 2 for its child flows, and so on."""
        self.budget = TreeBudget() if budget is None else budget
        first = graph.Outline(flow.spec.flows or ()) if outline is None else outline
        last = graph.Outline(flow.spec.finally_) if flow.spec.finally_ else graph.NO_STEPS
        self.flows: Sequence[Step] = first.steps
        self.finally_steps: Sequence[Step] = last.steps
        self.steps: Sequence[Step] = first.steps
        """All steps, those of `finally` last. With the items of targets, `forEach` is empty."""
        self.graph = first.graph
        """Dependencies of `flows`; steps of `finally` are not in it."""
        self.finally_graph = last.graph
        """Dependencies of `finally`, by position in it."""
        self.graphs = [(0, first.graph), (len(first.steps), last.graph)]
        """Both graphs, each with the position of its first step."""
        self.names: list[str] = first.graph.names + last.graph.names
        self.dependencies_with_options = first.dependencies_with_options
        """Dependencies with a field set beyond targets."""
        self.steps_with_options = first.with_options
        """Steps with an option set (`core/spec/graph.py`). Rules of options walk only these."""
        # the outline of a plan knows the steps of flows only
        if last.steps:
            self.steps = [*first.steps, *last.steps]
            self.dependencies_with_options = graph.select_dependencies(self.steps)
            self.steps_with_options = graph.select_steps(self.steps)
        self.is_plain = not (
            self.steps_with_options
            or self.dependencies_with_options
            or graph.select_specs((flow.spec,))
        )
        """Whether no field is set but those of plain steps, plain dependencies and plain flows."""

    def path(self, step: int) -> str:
        """Return the JSON path of a step: `spec.flows[3]`, `spec.finally[0]`."""
        in_finally = step - len(self.flows)
        return f"spec.flows[{step}]" if in_finally < 0 else f"spec.finally[{in_finally}]"

    @lazy_property
    def with_options(self) -> list[tuple[str, Step | JobFlowSpec]]:
        """The spec, and the steps with options of their own or of their dependencies, each with its
        JSON path and a dot."""
        steps = {i for i, _ in (*self.steps_with_options, *self.dependencies_with_options)}
        of_steps = ((f"{self.path(i)}.", self.steps[i]) for i in sorted(steps))
        return [("spec.", self.flow.spec), *of_steps]

    @lazy_property
    def relations(self) -> list[Found[Relation]]:
        """Fields that are set and exclude others, or need them."""
        return [
            each for path, owner in self.with_options for each in find_set(owner, Relation, path)
        ]

    @lazy_property
    def probes(self) -> list[tuple[int, Probe]]:
        """Probes that are not empty, by step."""
        return [
            (i, depends_on.probe)
            for i, depends_on in self.dependencies_with_options
            if depends_on.probe is not None and not depends_on.probe.empty
        ]

    @lazy_property
    def groups(self) -> list[tuple[str, Concurrency | StepConcurrency]]:
        """The concurrency groups of the flow and of its steps, with their JSON paths."""
        of_steps = ((self.path(i), step.concurrency) for i, step in self.steps_with_options)
        every = (("spec", self.flow.spec.concurrency), *of_steps)
        return [(f"{path}.concurrency", found) for path, found in every if found is not None]

    @lazy_property
    def owners(self) -> list[specs.Owner]:
        """Steps and cases that may have layers, or run a flow."""
        return specs.owners_of(self.steps_with_options, self.path)

    @lazy_property
    def without_objects(self) -> list[tuple[int, Work]]:
        """Steps that never create an object, with what they, or the first of their cases, do."""
        return [
            (i, work_of(step, next(iter(step.switch or ()), None)))
            for i, step in self.steps_with_options
            if ends_in_status(step)
        ]

    @lazy_property
    def approvals(self) -> list[tuple[int, Approval]]:
        return [
            (i, step.approval) for i, step in self.steps_with_options if step.approval is not None
        ]

    @lazy_property
    def cases(self) -> list[tuple[int, int, Case]]:
        """Every case of a switch, with its step and its index."""
        return [
            (i, at, case)
            for i, step in self.steps_with_options
            if step.switch
            for at, case in enumerate(step.switch)
        ]

    @lazy_property
    def unsound_graphs(self) -> list[tuple[int, graph.Graph]]:
        """The graphs in which a target is no other step, or steps wait for each other."""
        return [each for each in self.graphs if not each[1].is_sound]

    @lazy_property
    def claims(self) -> list[VolumeClaim]:
        found = []
        for name, written in (self.flow.spec.volume_claims or {}).items():
            path, spec = join_path("spec.volumeClaims", name), claim_spec(self.flow, name)
            is_known = not isinstance(spec, EvaluationFailure)
            of_claim = misfits(spec, path, kind=claim_type()) if is_known else Verdict()
            found.append(VolumeClaim(name, path, written, spec, of_claim))
        return found

    @lazy_property
    def matching(self) -> list[tuple[int, DependsOn]]:
        """Dependencies of single items."""
        return [each for each in self.dependencies_with_options if each[1].items is not None]

    @lazy_property
    def takers(self) -> list[tuple[int, list[int]]]:
        """Steps that have the items of their targets, in running order, each with these targets."""
        # a target has its items before the step that takes them
        graphs = self.graphs if self.matching else ()
        order = (first + position for first, graph in graphs for position in graph.order)
        return [
            (i, [target for target in self.targets(i) if self.steps[target].for_each is not None])
            for i in order
            if takes_items(self.steps[i])
        ]

    @lazy_property
    def index(self) -> Mapping[str, int]:
        """The positions of steps by name; of two with one name that of the first."""
        if not self.finally_steps:
            return self.graph.index
        return {name: i for i, name in reversed([*enumerate(self.names)])}

    def targets(self, step: int) -> Sequence[int]:
        """Return the positions of the steps that a step depends on."""
        first = len(self.flows)
        if step < first:
            return self.graph.targets[step]
        return [first + target for target in self.finally_graph.targets[step - first]]

    @lazy_property
    def probe_entries(self) -> list[ProbeEntry]:
        found = []
        for i, probe in self.probes:
            path = f"{self.path(i)}.dependsOn.probe"
            lists: dict[str, Sequence[Any] | None] = {
                "httpGetList": probe.http_get_list,
                "tcpSocketList": probe.tcp_socket_list,
                "taskStatusList": probe.task_status_list,
            }
            for field, entries in lists.items():
                for at, asked in enumerate(entries or ()):
                    place = f"{field}[{at}]"
                    found.append(ProbeEntry(i, f"{path}.{place}", place, asked))
        return found

    @lazy_property
    def written_expressions(self) -> list[WrittenExpression]:
        """Every expression, in the order of the flow; outputs last."""
        of_steps = (written_in(i, step, self.path(i)) for i, step in self.steps_with_options)
        of_flow = written_in(len(self.steps), self.flow.spec, "spec")
        return [*chain.from_iterable(of_steps), *of_flow]

    @lazy_property
    def expressions(self) -> FlowExpressions:
        upstream = UpstreamSteps(self.graph, self.finally_graph, self.steps)
        scope = NameScope(self.flow, self.index, upstream, self.tasks)
        return FlowExpressions(self.written_expressions, scope, self.budget, self.level)

    @lazy_property
    def reference_trial(self) -> ReferenceTrial:
        return ReferenceTrial(self.flow, self.steps, self.budget, self.level)

    @lazy_property
    def flow_name(self) -> str:
        """The flow's name; a placeholder of the same length if the API server generates it."""
        metadata = self.flow.metadata
        return metadata.name or predict_generated_name(metadata.generate_name)

    @lazy_property
    def longest_name(self) -> int:
        return max(map(len, self.names), default=0)

    @lazy_property
    def job_counts(self) -> list[JobCount]:
        return job_counts(self.flow, self.steps, self.takers)

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

    @lazy_property
    def steps_with_flows(self) -> list[int]:
        return [i for i, step in self.steps_with_options if step.child_flows]

    @lazy_property
    def children(self) -> list[Child[FlowFacts]]:
        inner = partial(FlowFacts, known=self.known, level=self.level + 1, budget=self.budget)
        return child_flows(self, inner) if self.steps_with_options else []

    @lazy_property
    def references(self) -> list[specs.ResolvedLayer]:
        """All that may hold references: layers of jobs, and the params of child flows."""
        params = [child.params for child in self.children if child.params is not None]
        return [*self.resolved_layers, *params]

    @lazy_property
    def resolved_layers(self) -> list[specs.ResolvedLayer]:
        """Layers of all steps and cases, in the order of the flow."""
        return list(specs.resolved_layers(self.flow, self.owners, self.budget, self.level))

    @lazy_property
    def has_work(self) -> bool:
        """Whether a step or a case runs something else than a template."""
        return any(
            owner.written.job_spec is not None or owner.written.container is not None
            for owner in self.owners
        )

    @lazy_property
    def misfits(self) -> list[tuple[specs.ResolvedLayer, Verdict]]:
        """Fields and values of layers that no vcjob has (`misfits_of_layers`)."""
        return misfits_of_layers(self.resolved_layers)

    @lazy_property
    def unknown_elements(
        self,
    ) -> list[tuple[specs.ResolvedSpec, specs.ResolvedLayer, UnknownElement]]:
        changed = (resolved for resolved in self.resolved_specs if resolved.changes)
        return [(each, *found) for each in changed for found in unknown_elements(each)]

    @lazy_property
    def templates(self) -> list[str]:
        """Names of the JobTemplates that steps may run, in the order of the flow."""
        if not self.steps_with_options:
            return list(dict.fromkeys([step.template or step.name for step in self.steps]))
        steps, found = dict(self.steps_with_options), dict[str, None]()
        for i, step in enumerate(self.steps):
            if i in steps:
                cases = step.switch or (None,)
                found |= {name: None for case in cases if (name := step.template_for(case))}
            else:  # it can only run a template
                found[step.template or step.name] = None
        return list(found)

    @lazy_property
    def resolved_specs(self) -> list[specs.ResolvedSpec]:
        """The distinct specs of steps as far as known. Unchanged templates are shared."""
        if self.steps_with_options and self.resolved_layers:
            return list({id(use.resolved): use.resolved for use in self.resolved_steps}.values())
        found = map(self._resolver.plain, self.templates) if self.known.templates else ()
        return [resolved for resolved in found if resolved is not None]

    @lazy_property
    def resolved_steps(self) -> list[specs.ResolvedStep]:
        """The resolved spec of each step and case, for rules that found a fault in a spec."""
        has_any = self.known.templates or self.has_work
        return list(self._resolver.resolve(self.steps)) if has_any else []

    @property
    def layer_faults(self) -> list[tuple[specs.ResolvedLayer, str]]:
        """Layers that cannot be merged into what their step runs, and why."""
        return self._resolver.faults if self.resolved_steps else []

    @lazy_property
    def tasks(self) -> specs.KnownTasks:
        """Tasks of each step all of whose templates are known."""
        templates = self.known.templates or {}
        # a case that runs a flow, or a template that may come later, may have any task
        partly_known = frozenset(
            i
            for i, _, case in self.cases
            if work_of(self.steps[i], case).has_steps
            or ((name := self.steps[i].template_for(case)) and name not in templates)
        )
        return specs.KnownTasks(self.resolved_steps, partly_known)

    @lazy_property
    def _resolver(self) -> specs.Resolver:
        known = self.known.templates
        return specs.Resolver(self.flow, self.resolved_layers, known, self.budget, self.level)
