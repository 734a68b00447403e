"""`jobflow graph`: the graph of a flow of a file or of a cluster, as text and for programs."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import yaml
from rich.cells import cell_len
from rich.text import Text

from jobflow.api.flow.control import ForEach
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import StepCondition
from jobflow.api.flow.step import Condition, DependsOn, Probe, Step, TaskStatusProbe
from jobflow.cli.show.graph import graph_lines
from jobflow.core.drawing.flow_graph import flow_graph
from support.paths import ROOT
from support.plan.flow_statuses import DIAMOND, FAILED, several
from support.sandbox.command_line import jobflow
from support.sandbox.flow_commands import forbid, run_command, set_status
from support.sandbox.running_controller import Cluster, flow, template

EXAMPLES = ROOT / "examples"


def drawn(of: JobFlow, width: int | None = None, *, ascii_only: bool = False) -> list[str]:
    return [line.plain for line in graph_lines(flow_graph(of), width, ascii_only=ascii_only)]


def unstarted(**steps: Step | str) -> JobFlow:
    """A flow without a status; a text names the targets of a step."""
    pairs = []
    for name, given in steps.items():
        depends_on = DependsOn(targets=given.split()) if isinstance(given, str) and given else None
        step = given if isinstance(given, Step) else Step(name=name, depends_on=depends_on)
        pairs.append((step, StepCondition()))
    return several(pairs, "", status={"conditions": None})


def fan_out(count: int) -> JobFlow:
    work = {f"work-{number}": "start" for number in range(count)}
    return unstarted(start="", **work, end=" ".join(work))


def test_a_file_is_drawn_without_a_cluster() -> None:
    answer = jobflow("graph", EXAMPLES / "on-failure.yaml")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.splitlines() == [
        "●     prepare",
        "●     train     after prepare",
        "├─●   evaluate  after train",
        "├───● alarm     when train is Failed",
        "●     cleanup   when train is Finished",
    ]


@pytest.mark.parametrize(
    ("output", "start"), [("mermaid", "flowchart LR\n"), ("dot", 'digraph "test" {\n')]
)
def test_other_programs_get_the_graph_in_their_language(output: str, start: str) -> None:
    text = (EXAMPLES / "diamond.yaml").read_text()
    answer = jobflow("graph", "-", "-o", output, stdin=text)
    assert answer.code == 0
    assert answer.out.startswith(start)


def test_json_has_nodes_with_positions_and_edges_with_conditions() -> None:
    found = jobflow("graph", EXAMPLES / "on-failure.yaml", "-o", "json").json
    assert (found["flow"], found["nodes"][2], found["nodes"][4]) == (
        "forecast",
        {
            "step": "evaluate",
            "phase": None,
            "detail": "",
            "daemon": False,
            "finally": False,
            "column": 2,
            "row": found["nodes"][2]["row"],
        },
        {**found["nodes"][2], "step": "cleanup", "row": found["nodes"][4]["row"]},
    )
    assert [tuple(edge.values()) for edge in found["edges"]] == [
        ("prepare", "train", "Completed", "all"),
        ("train", "evaluate", "Completed", "all"),
        ("train", "alarm", "Failed", "all"),
        ("train", "cleanup", "Finished", "all"),
    ]
    found = jobflow("graph", EXAMPLES / "entries-and-exits.yaml", "-o", "json").json
    strategies = {edge["to"]: edge["strategy"] for edge in found["edges"]}
    assert (strategies["dashboard"], strategies["join"]) == ("any", "all")


async def test_json_has_the_phases_of_a_flow_of_a_cluster(world: Cluster, kubeconfig: Path) -> None:
    await world.apply(flow("f", {"a": "", "b": "a"}))
    await set_status(world, {"conditions": {"f-a": {"phase": "Completed"}}})
    answer = await run_command(kubeconfig, "graph", "f", "-o", "json")
    assert [node["phase"] for node in answer.json["nodes"]] == ["Completed", "Waiting"]


def test_svg_is_a_document_on_any_terminal() -> None:
    answer = jobflow("graph", EXAMPLES / "diamond.yaml", "-o", "svg")
    assert answer.code == 0
    assert answer.out.isascii()
    assert ET.fromstring(answer.out).tag == "{http://www.w3.org/2000/svg}svg"


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_example_is_drawn(example: Path) -> None:
    for document in yaml.safe_load_all(example.read_text()):
        if document["kind"] == "JobFlow":
            file = yaml.safe_dump_all([document])
            answer = jobflow("graph", "-", stdin=file)
            assert answer.code == 0
            steps = [*document["spec"]["flows"], *document["spec"].get("finally", ())]
            assert all(step["name"] in answer.out for step in steps)


async def test_a_flow_of_a_cluster_has_the_phases_of_its_steps(
    world: Cluster, kubeconfig: Path
) -> None:
    await world.apply(flow("f", {"a": "", "b": "a"}))
    conditions = {"f-a": {"phase": "Completed"}, "f-b": {"phase": "Running"}}
    await set_status(world, {"state": {"phase": "Running"}, "conditions": conditions})
    answer = await run_command(kubeconfig, "graph", "jf/f")
    assert answer.out.splitlines() == ["✔ a  Completed", "● b  Running  after a"]


async def test_a_cycle_that_nobody_refused_is_an_error(world: Cluster, kubeconfig: Path) -> None:
    await world.apply(flow("f", {"a": "b", "b": "a"}))
    answer = await run_command(kubeconfig, "graph", "f")
    sentence = "JobFlow f cannot be drawn: these steps depend on each other in a cycle: a, b and a"
    assert (answer.code, answer.err) == (1, f"jobflow: error: {sentence}\n")


async def test_a_missing_flow_and_a_missing_right_are_errors(
    world: Cluster, kubeconfig: Path
) -> None:
    await world.apply(flow("train", {"a": ""}))
    forbid(world, "GET", "/jobflows/secret")
    answer = await run_command(kubeconfig, "graph", "tarin")
    assert answer.code == 2
    assert answer.err.endswith('did you mean "train"?\n')
    answer = await run_command(kubeconfig, "graph", "secret")
    assert answer.code == 1
    assert answer.err.startswith("jobflow: error: ") and answer.err.endswith("alice must not\n")


def test_a_file_with_faults_or_several_flows_is_an_error() -> None:
    two = yaml.safe_dump_all([template("a"), flow("f", {"a": ""}), flow("g", {"a": ""})])
    answer = jobflow("graph", "-", stdin=two)
    assert answer.code == 2
    assert "contains several JobFlows (f and g): graph draws one" in answer.err
    answer = jobflow("graph", "-", stdin=yaml.safe_dump(flow("f", {"a": "b"})))
    assert (answer.code, answer.out) == (2, "")
    assert "b" in answer.err


def test_lanes_lead_from_a_step_to_those_that_depend_on_it() -> None:
    assert drawn(DIAMOND) == [
        "✔     a  Completed",
        "✔     b  Completed  after a",
        "├─●─╮ c  Running  after b",
        "╰─◌─┤ d  Pending  after b",
        "○───╯ e  Waiting  after c and d",
    ]


def test_a_terminal_without_utf_8_gets_ascii() -> None:
    lines = drawn(DIAMOND, 40, ascii_only=True)
    assert lines[2:] == [
        "+-*-. c  Running  after b",
        "'-o-+ d  Pending  after b",
        ".---' e  Waiting  after c and d",
    ]
    assert all(line.isascii() for line in drawn(fan_out(30), 12, ascii_only=True))


def styles(line: Text, word: str) -> set[str]:
    start = line.plain.index(word)
    return {str(span.style) for span in line.spans if span.start <= start < span.end}


def test_phases_have_colours() -> None:
    lines = [*graph_lines(flow_graph(FAILED), None)]
    assert "red" in styles(lines[0], "✖")
    assert "red" in styles(lines[0], "Failed")
    assert "green" in styles(lines[2], "Completed")


PROBE = Probe(task_status_list=[TaskStatusProbe(task_name="main", phase="Running")])


@pytest.mark.parametrize(
    ("depends_on", "words"),
    [
        (DependsOn(targets=["a", "b"]), "  after a and b"),
        (DependsOn(targets=["a"], condition=Condition.FAILED), "  when a is Failed"),
        (DependsOn(targets=["a", "b"], condition="Finished"), "  when a and b are Finished"),
        (DependsOn(targets=["a"], condition="NotFailed"), "  when a is NotFailed"),
        (DependsOn(targets=["a", "b"], condition="Always"), "  always after a and b"),
        (DependsOn(targets=["a", "b"], strategy="any"), "  when a or b is Completed"),
        (
            DependsOn(targets=["a", "b"], strategy="any", condition="Failed"),
            "  when a or b is Failed",
        ),
        (DependsOn(targets=["a", "d"]), "  after a, when d is Running"),
        (DependsOn(targets=["d"], probe=PROBE), "  when its probe passes on d"),
    ],
)
def test_conditions_are_named_as_in_the_manifest(depends_on: DependsOn, words: str) -> None:
    steps = {"a": "", "b": "", "d": Step(name="d", daemon=True)}
    of = unstarted(**steps, x=Step(name="x", depends_on=depends_on))  # type: ignore[arg-type]
    [line] = [line for line in drawn(of) if " x" in line]
    assert line.endswith(f" x{words}")


def test_loops_daemons_and_finally_are_recognizable() -> None:
    items = Step(name="a", for_each=ForEach(count=40))
    pairs = [(items, StepCondition()), (Step(name="d", daemon=True), StepCondition())]
    of = several(pairs, "", last=[(Step(name="z"), StepCondition())], status={"conditions": None})
    lines = drawn(of)
    assert lines == ["●─╮ a  40 items", "●─┤ d  daemon", "  ● z  finally"]


def test_a_thousand_steps_fold() -> None:
    assert drawn(fan_out(998), 80) == [
        "● start",
        "● work-0, work-1, work-2 and 995 more  after start",
        "● end    after work-0, work-1, work-2 and 995 more",
    ]
    assert [len(drawn(fan_out(998), width)) for width in (None, 40)] == [3, 3]


def test_a_flow_without_steps_has_no_lines() -> None:
    assert drawn(unstarted()) == []


def test_a_fan_out_takes_few_columns() -> None:
    assert drawn(fan_out(12), 40)[:3] == [
        "●     start",
        "├─●─╮ work-0   after start",
        "├─●─┤ work-1   after start",
    ]


def test_a_long_name_does_not_move_the_others() -> None:
    assert drawn(unstarted(**{"a" * 50: "", "b": "a" * 50})) == [
        f"● {'a' * 50}",
        f"● b  after {'a' * 50}",
    ]


def test_steps_that_fold_are_counted_by_phase() -> None:
    pairs = [
        (Step(name=f"s{number}"), StepCondition(phase="Running" if number < 20 else "Waiting"))
        for number in range(60)
    ]
    assert drawn(several(pairs)) == ["● s0, s1, s2 and 57 more  40 Waiting  20 Running"]


@pytest.mark.parametrize("width", [1, 20, 40])
def test_a_narrow_terminal_gets_the_dependencies_as_words(width: int) -> None:
    steps = {f"step-{number}": "" for number in range(30)}
    for number in range(30):
        steps[f"end-{number}"] = f"step-{number} step-{(number * 7 + 3) % 30}"
    lines = drawn(unstarted(**steps), width)
    assert len(lines) == 60
    assert all(cell_len(line) <= width for line in lines)
    if width == 40:
        assert "  ● end-1  after step-1 and step-10" in lines


def test_words_for_dependencies_keep_the_conditions() -> None:
    steps: dict[str, Step | str] = {f"s{number}": "" for number in range(30)}
    mixed = DependsOn(targets=["s0", "d"])
    steps |= {"d": Step(name="d", daemon=True), "x": Step(name="x", depends_on=mixed)}
    steps |= {f"e{number}": f"s{number} s{(number * 7 + 3) % 30}" for number in range(30)}
    assert "  ● x  after s0, when d is Running" in drawn(unstarted(**steps), 40)


def test_a_name_cannot_move_the_cursor() -> None:
    assert drawn(unstarted(**{"a\x1b[2J\nb": ""})) == ["● a\ufffd[2J b"]
