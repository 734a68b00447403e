"""The graph of a flow as values: a node for each step, an arrow for each dependency, and the graphs
of its child flows inside of the nodes that run them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

from jobflow.api.flow.control import to_number
from jobflow.api.flow.jobflow import JobFlow, child_spec
from jobflow.api.flow.status import StepCondition, StepPhase
from jobflow.api.flow.step import Condition, Step, Strategy
from jobflow.api.resources import ObjectMeta
from jobflow.core.explain.progress import format_case, format_run_progress
from jobflow.core.limits import MAX_RUNS
from jobflow.core.names import format_job_name, stored_condition
from jobflow.core.reasons import StepReason
from jobflow.core.spec.compiled import find_left_out
from jobflow.core.spec.graph import Graph
from jobflow.core.spec.items import get_items
from jobflow.core.spec.param_values import with_param_values
from jobflow.core.spec.readiness import get_condition_for, get_probe, get_strategy
from jobflow.core.text import format_count, join_names
from jobflow.core.work import may_run_steps, work_of

PROBE, ANY = "probe", "any"


class CyclicFlowError(ValueError):
    """The dependencies of a flow have a cycle; the text is a sentence about it."""


@dataclass(frozen=True, slots=True)
class Node:
    """A step of a flow."""

    step: str
    phase: str = ""
    """"" for a flow that has no status, such as one of a file."""
    detail: str = ""
    """`finally`, `not in targets`, `daemon`, `approval`, `flow of 3 steps`, `12/40 items`, `up to 5
    runs`, `3 cases`, joined by commas."""
    is_daemon: bool = False
    is_last: bool = False
    """Whether it is a step of `finally`."""
    inner: Sequence[FlowGraph] = ()
    """The graphs of its child flows (`nested_graph`): one, or one for each case of `switch` that
    runs a flow, which is named `case 1` and so on."""


@dataclass(frozen=True, slots=True)
class Arrow:
    """A dependency."""

    source: int
    """Position of the target of `dependsOn`."""
    target: int
    """Position of the step that depends on it."""
    label: str = ""
    """The condition, such as `Failed`, or `probe`; "" for Completed. If one of several targets is
    enough, it begins with `any`."""

    @property
    def is_any(self) -> bool:
        return self.label.startswith(ANY)

    @property
    def condition(self) -> str:
        """A condition or `probe`."""
        return self.label.removeprefix(ANY).strip() or Condition.COMPLETED


@dataclass(frozen=True)
class FlowGraph:
    """Nodes in the order of the spec, and arrows between them. A step of `finally` without targets
    has an arrow from each step that no other step depends on."""

    name: str
    nodes: Sequence[Node]
    arrows: Sequence[Arrow]
    order: Sequence[int]
    """Positions of the nodes, each after all that it depends on."""

    @cached_property
    def into(self) -> Sequence[Sequence[Arrow]]:
        """For each node the arrows that lead to it."""
        rows: list[list[Arrow]] = [[] for _ in self.nodes]
        for arrow in self.arrows:
            rows[arrow.target].append(arrow)
        return rows

    @cached_property
    def targets(self) -> Sequence[Sequence[int]]:
        """For each node the nodes that its arrows come from."""
        return [[arrow.source for arrow in row] for row in self.into]


def flow_graph(flow: JobFlow) -> FlowGraph:
    """Return the graph of a flow, with the phases of its status. Raises CyclicFlowError."""
    flow = with_param_values(flow)
    steps = flow.all_steps
    graph = Graph(steps)
    if graph.cycles:
        cycle = [graph.names[step] for step in graph.cycles[0]]
        text = join_names(cycle, last="and", shown=len(cycle))
        raise CyclicFlowError(f"these steps depend on each other in a cycle: {text}")
    conditions = flow.status.conditions or {}
    phase = StepPhase.WAITING if conditions or flow.status.state.phase else ""
    regular = len(flow.steps)
    left_out = find_left_out(graph, regular, flow.spec.targets)
    nodes = []
    for position, step in enumerate(steps):
        key = format_job_name(flow.metadata.name, step.name)
        stored = conditions.get(key, StepCondition(phase=phase))
        is_last, is_left_out = position >= regular, position in left_out
        nodes.append(_node(step, stored, phase, is_last=is_last, is_left_out=is_left_out))
    arrows = []
    for position, step in enumerate(steps):
        is_any = get_strategy(step) is Strategy.ANY and len(step.targets) > 1
        for target in graph.targets[position]:
            condition = get_condition_for(step, steps[target])
            shown: str = "" if condition == Condition.COMPLETED else condition
            if get_probe(step) is not None:
                shown = PROBE
            label = " ".join(filter(None, (ANY if is_any else "", shown)))
            arrows.append(Arrow(target, position, label))
    ends = [position for position in range(regular) if not graph.dependants[position]]
    arrows += [
        Arrow(end, position, Condition.FINISHED)
        for position in range(regular, len(nodes))
        for end in ends
        if not graph.targets[position]
    ]
    return FlowGraph(flow.metadata.name, nodes, arrows, graph.order)


def nested_graph(
    flow: JobFlow, children: Mapping[str, JobFlow] = MappingProxyType({})
) -> FlowGraph:
    """Return the graph of a flow with the graphs of its child flows, at all levels. `children`: the
    child flows that exist, by name, whose phases it shows. Raises CyclicFlowError."""
    graph, nodes = flow_graph(flow), []
    for step, node in zip(flow.all_steps, graph.nodes, strict=True):
        if may_run_steps(step):
            condition = stored_condition(flow, step.name) or StepCondition()
            taken, inner = step.case_of(condition.decisions), []
            for number, case in enumerate(step.switch or (None,), start=1):
                if (raw := step.flow_for(case)) is None:
                    continue
                name = "" if case is None else f"case {number}"
                # a case that was not taken has no runs, only its plan
                runs = condition.runs or (condition,) if case is taken else ()
                if step.repeat is not None:
                    runs = runs[-1:]
                known = (children[run.flow] for run in runs if run.flow in children)
                found = [nested_graph(child, children) for child in known]
                planned = JobFlow(metadata=ObjectMeta(name=name), spec=child_spec(raw))
                shown = _summed_up(found) if found else nested_graph(planned)
                inner.append(replace(shown, name=name))
            node = replace(node, inner=inner)
        nodes.append(node)
    return replace(graph, nodes=nodes)


def _summed_up(graphs: Sequence[FlowGraph]) -> FlowGraph:
    """Return one graph for child flows of the same steps: a step has their phase, or `3 Completed,
    1 Failed` if they differ."""
    first, *others = graphs
    # graphs of different steps cannot be added up
    if any(len(each.nodes) != len(first.nodes) for each in others):
        return first
    nodes = []
    for same in zip(*(each.nodes for each in graphs), strict=True):
        inner = [_summed_up(each) for each in zip(*(node.inner for node in same), strict=True)]
        node, phases = replace(same[0], inner=inner), Counter(each.phase for each in same)
        if len(phases) > 1:
            counts = ", ".join(f"{count} {phase}" for phase, count in phases.most_common())
            node = replace(node, phase="", detail=counts)
        nodes.append(node)
    return replace(first, nodes=nodes)


def _node(
    step: Step, condition: StepCondition, default: str, *, is_last: bool, is_left_out: bool
) -> Node:
    work, flow = work_of(step).word, step.flow_for(None)
    if flow is not None:
        work += f" of {format_count(len(child_spec(flow).all_steps), 'step')}"
    loop = ""  # the number of runs of a step that has not started
    if step.fan_out is not None:
        items = get_items(step, None)
        loop = "forEach" if items is None else format_count(len(items), "item")
    elif step.repeat is not None:
        loop = f"up to {format_count(to_number(step.repeat.max) or MAX_RUNS, 'run')}"
    parts = (
        "finally" if is_last else "",
        "not in targets" if is_left_out else "",
        "daemon" if step.daemon else "",
        work,
        format_run_progress(step, condition, brief=True) or loop,
        "reused" if condition.reason == StepReason.REUSED else "",
        "item by item" if step.matches_items else "",
        format_case(step, condition)
        or (format_count(len(step.switch), "case") if step.switch else ""),
    )
    return Node(
        step.name,
        condition.phase or default,
        ", ".join(filter(None, parts)),
        bool(step.daemon),
        is_last,
    )
