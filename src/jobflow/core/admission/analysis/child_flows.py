"""Child flows of a flow, as flows with facts of their own.

A child flow is judged as the flow that its parent creates: with the longest name that it may get,
with what it inherits, and with the known values of its params. A param with another value keeps its
reference, which fits any type.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from jobflow.api.flow.control import Param
from jobflow.api.flow.jobflow import JobFlow, JobFlowSpec, child_spec
from jobflow.api.flow.step import Step
from jobflow.api.flow.traits import InChild, fields_of
from jobflow.api.resources import ObjectMeta
from jobflow.core.admission.analysis.jobs.job_counts import JobCount
from jobflow.core.admission.analysis.jobs.resolved_specs import ResolvedLayer
from jobflow.core.admission.analysis.tree_budget import FLOW, Constants, TreeBudget
from jobflow.core.manifests.crd_schema import schema_violations, without_nulls
from jobflow.core.manifests.job import INHERITED
from jobflow.core.manifests.layers import Layer, Rank
from jobflow.core.names import format_job_name
from jobflow.core.violations import FieldWarning, Reason, Verdict, Violation, join_path

F = TypeVar("F", Violation, FieldWarning)
Facts = TypeVar("Facts")
"""Facts of a flow, which have its child flows and therefore stand above this file."""
MAX_CHILDREN = 1_000
"""Child flows of a flow, each of which has an entry in its status."""
MAX_PARAM_VALUES = 65_536
"""Bytes of JSON of the values of all params of a flow."""
MAX_LEVEL = 4
"""Levels of flows in flows; the outermost flow is the first."""
_NOT_IN_CHILD = {field.name: None for field in fields_of(JobFlowSpec) if field.get(InChild) is None}
_UNKNOWN_FIELD = "unknown field"
_PARAM = re.compile(r"\.params\[(\d+)\](?:\.\w+)?")


class Child(NamedTuple, Generic[Facts]):
    """A child flow of a step, or of a case of its switch."""

    step: int
    path: str
    """JSON path: `spec.flows[0].flow`."""
    raw: Mapping[str, Any]
    misfits: Verdict
    """Values of a wrong type, and warnings of unknown fields."""
    params: ResolvedLayer | None
    facts: Facts | None
    """None if a value has a wrong type, or the flow is beyond the last level."""

    def own(self, found: Iterable[F]) -> Iterator[F]:
        """Yield findings in this flow at their places in the outer one, which itself has the faults
        of what a child gets from it: its name, and the fields that it inherits."""
        inherited = tuple(f"spec.{name}" for name in INHERITED.values() if name not in self.raw)
        for each in found:
            if each.path.startswith("spec") and not each.path.startswith(inherited):
                yield replace(each, path=self.place(each.path))

    def place(self, path: str) -> str:
        """Return the path in the outer flow of a path in this one."""
        below = path.removeprefix("spec")
        if self.params is not None and (found := _PARAM.fullmatch(below)) is not None:
            names = list(self.params.written)
            return join_path(f"{self.path}.params", names[int(found[1])])
        return f"{self.path}{below}"


def flows_of(step: Step) -> Iterator[tuple[int | None, dict[str, Any]]]:
    """Yield the child flows of a step, each with the index of its case, None for the step's own."""
    if step.flow is not None:
        yield None, step.flow
    for at, case in enumerate(step.switch or ()):
        if case.flow is not None:
            yield at, case.flow


class Parent(Protocol):
    """Facts of a flow by which its child flows are found."""

    flow: JobFlow
    names: list[str]
    steps: Sequence[Step]
    level: int
    budget: TreeBudget

    @property
    def flow_name(self) -> str: ...
    @property
    def steps_with_flows(self) -> Sequence[int]: ...
    @property
    def job_counts(self) -> Sequence[JobCount]: ...
    def path(self, step: int) -> str: ...


def count_children(facts: Parent) -> int:
    runs = (facts.job_counts[step].runs for step in facts.steps_with_flows)
    return sum(1 if each is None else each for each in runs)


def child_flows(facts: Parent, facts_of: Callable[[JobFlow], Facts]) -> list[Child[Facts]]:
    """Return the child flows of a flow, in the order of the flow, as far as the budget allows to
    judge them. If a flow has too many, none is looked at."""
    if not facts.steps_with_flows or count_children(facts) > MAX_CHILDREN:
        return []
    constants = Constants(facts.flow, facts.budget, facts.level)
    found: list[Child[Facts]] = []
    for i in facts.steps_with_flows:
        for case, raw in flows_of(facts.steps[i]):
            # the controller judges the others before they start
            if facts.budget.children <= 0:
                facts.budget.leave_out("flows", facts.level + 1)
                return found
            facts.budget.children -= 1
            facts.budget.spend(FLOW)
            owner = facts.path(i) if case is None else f"{facts.path(i)}.switch[{case}]"
            path = f"{owner}.flow"
            # the CRD keeps a child flow as it is, so its schema is checked here
            misfits = _misfits(raw, path)
            params = raw.get("params")
            resolved = None
            if params and isinstance(params, dict):
                layer = Layer(Rank.WORK, "flow.params", params)
                content = constants.insert(params, MAX_PARAM_VALUES)
                resolved = ResolvedLayer(i, case, owner, layer, *content)
            # values of wrong types cannot be read, and a flow beyond the last level has a fault
            inner = None
            if not misfits.violations and facts.level < MAX_LEVEL:
                inner = facts_of(_flow(facts, i, raw, resolved))
            found.append(Child(i, path, raw, misfits, resolved, inner))
    return found


def _flow(facts: Parent, step: int, raw: dict[str, Any], params: ResolvedLayer | None) -> JobFlow:
    parent = facts.flow.spec
    spec = child_spec(without_nulls("JobFlow", {"spec": raw})["spec"])
    # the values of the parent, unless the child has its own
    inherited = {name: getattr(spec, name) or getattr(parent, name) for name in INHERITED}
    values = params.content if params is not None else {}
    spec = msgspec.structs.replace(
        spec,
        params=[Param(name=name, value=value) for name, value in values.items()] or None,
        **_NOT_IN_CHILD,
        **inherited,
    )
    name = format_job_name(facts.flow_name, facts.names[step])
    metadata = ObjectMeta(
        name=name + facts.job_counts[step].longest_suffix, namespace=facts.flow.metadata.namespace
    )
    return JobFlow(metadata=metadata, spec=spec)


def _misfits(raw: dict[str, Any], path: str) -> Verdict:
    """Return the values of a wrong type, and the unknown fields, by the schema of a JobFlow."""
    params = raw.get("params")
    wrong: list[Violation] = []
    unknown: list[FieldWarning] = []
    if params is not None and not isinstance(params, dict):
        detail = "the params of a child flow are a map: names, each with its value"
        wrong.append(Violation(f"{path}.params", Reason.TYPE_INVALID, params, detail))
    spec = {key: value for key, value in raw.items() if key != "params"}
    for found in schema_violations("JobFlow", {"spec": spec}, strict=True):
        at = path + found.path.removeprefix("spec")
        detail = found.detail.removeprefix(f"{found.path} in body ")
        if detail.startswith(_UNKNOWN_FIELD):
            unknown.append(FieldWarning(at, detail, found.reason, found.value))
        else:
            wrong.append(Violation(at, found.reason, found.value, detail))
    return Verdict(tuple(wrong), field_warnings=tuple(unknown))
