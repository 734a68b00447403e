"""The graph of a flow: its nodes and arrows, in words that users know."""

import pytest

from jobflow.api.flow.control import Case, ForEach, Repeat
from jobflow.api.flow.jobflow import JobFlow, JobFlowSpec
from jobflow.api.flow.status import RunCondition, StepCondition
from jobflow.api.flow.step import DependsOn, Probe, Step, TaskStatusProbe
from jobflow.api.resources import ObjectMeta
from jobflow.core.drawing.flow_graph import Arrow, CyclicFlowError, flow_graph
from support.plan.flow_statuses import DIAMOND, TAKEN, one, several


def unstarted(*steps: Step, last: tuple[Step, ...] = ()) -> JobFlow:
    spec = JobFlowSpec(flows=[*steps], finally_=[*last] or None)
    return JobFlow(metadata=ObjectMeta(name="f"), spec=spec)


def after(*targets: str, **fields: object) -> DependsOn:
    return DependsOn(targets=[*targets], **fields)  # type: ignore[arg-type]


def test_a_flow_that_runs_has_the_phases_of_its_status() -> None:
    graph = flow_graph(DIAMOND)
    phases = [(node.step, node.phase) for node in graph.nodes]
    assert phases == [
        ("a", "Completed"), ("b", "Completed"), ("c", "Running"), ("d", "Pending"),
        ("e", "Waiting"),
    ]  # fmt: skip
    assert graph.arrows == [Arrow(0, 1), Arrow(1, 2), Arrow(1, 3), Arrow(2, 4), Arrow(3, 4)]
    assert graph.targets == [[], [0], [1], [1], [2, 3]]


def test_a_flow_of_a_file_has_no_phases() -> None:
    assert [node.phase for node in flow_graph(unstarted(Step(name="a"))).nodes] == [""]


def test_a_flow_of_a_cluster_that_has_not_started_waits() -> None:
    flow = several([(Step(name="a"), StepCondition())], "Pending", status={"conditions": None})
    assert [node.phase for node in flow_graph(flow).nodes] == ["Waiting"]


@pytest.mark.parametrize(
    ("step", "detail"),
    [
        (Step(name="a"), ""),
        (Step(name="a", daemon=True), "daemon"),
        (Step(name="a", for_each=ForEach(items=["x", "y"])), "2 items"),
        (Step(name="a", for_each=ForEach(count=1000)), "1,000 items"),
        (Step(name="a", for_each=ForEach(from_="params.x")), "forEach"),
        (Step(name="a", repeat=Repeat(until="true", max=5)), "up to 5 runs"),
        (Step(name="a", switch=[Case(when="true"), Case(template="t")]), "2 cases"),
    ],
)
def test_a_step_that_has_not_started_says_what_it_is(step: Step, detail: str) -> None:
    assert flow_graph(unstarted(step)).nodes[0].detail == detail


def test_a_step_that_runs_counts_its_items_and_names_its_case() -> None:
    runs = [RunCondition(index=0, phase="Completed"), RunCondition(index=1, phase="Running")]
    items = one(
        Step(name="a", for_each=ForEach(count=3)), StepCondition(phase="Running", runs=runs)
    )
    assert flow_graph(items).nodes[0].detail == "1/3 items"
    switch = Step(name="a", switch=[Case(when="x"), Case(template="large")])
    chosen = one(switch, StepCondition(phase="Running", decisions=TAKEN))
    assert flow_graph(chosen).nodes[0].detail == "case 2 of 2: large"


PROBE = Probe(task_status_list=[TaskStatusProbe(task_name="main", phase="Running")])


@pytest.mark.parametrize(
    ("depends_on", "labels"),
    [
        (after("a"), [""]),
        (after("a", condition="Completed"), [""]),
        (after("a", condition="Failed"), ["Failed"]),
        (after("a", condition="Finished"), ["Finished"]),
        (after("a", "d", condition="Running"), ["Running", "Running"]),
        (after("a", "d"), ["", "Running"]),
        (after("d", probe=PROBE), ["probe"]),
        (after("a", "d", strategy="any", condition="Finished"), ["any Finished", "any Finished"]),
        (after("a", strategy="any"), [""]),
        (after("a", "b", strategy="any"), ["any", "any"]),
    ],
)
def test_an_arrow_has_the_condition_of_its_dependency(
    depends_on: DependsOn, labels: list[str]
) -> None:
    steps = Step(name="a"), Step(name="b"), Step(name="d", daemon=True)
    graph = flow_graph(unstarted(*steps, Step(name="x", depends_on=depends_on)))
    assert [arrow.label for arrow in graph.into[3]] == labels


def test_steps_of_finally_can_follow_each_other() -> None:
    last = (Step(name="y"), Step(name="z", depends_on=after("y", condition="Finished")))
    arrows = flow_graph(unstarted(Step(name="a"), last=last)).arrows
    assert arrows == [Arrow(1, 2, "Finished"), Arrow(0, 1, "Finished")]


def test_finally_follows_all_steps_that_none_depends_on() -> None:
    flow = unstarted(
        Step(name="a"),
        Step(name="b", depends_on=after("a")),
        Step(name="c", depends_on=after("a")),
        last=(Step(name="z"),),
    )
    graph = flow_graph(flow)
    assert graph.into[3] == [Arrow(1, 3, "Finished"), Arrow(2, 3, "Finished")]
    assert (graph.nodes[3].is_last, graph.nodes[3].detail) == (True, "finally")
    assert [*graph.order] == [0, 1, 2, 3]


def test_a_cycle_is_named() -> None:
    flow = unstarted(Step(name="a", depends_on=after("b")), Step(name="b", depends_on=after("a")))
    with pytest.raises(CyclicFlowError, match="in a cycle: a, b and a"):
        flow_graph(flow)
