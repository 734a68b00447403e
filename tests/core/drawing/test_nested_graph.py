"""The graph of a flow with the graphs of its child flows: phases, positions, and other programs."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from jobflow.api.flow.jobflow import JobFlow
from jobflow.core.drawing.flow_graph import Arrow, FlowGraph, Node, nested_graph
from jobflow.core.drawing.graph_layout import PlacedGraph, PlacedNode, place_graph
from jobflow.core.drawing.graph_text import to_dot, to_mermaid
from jobflow.core.drawing.svg import graph_svg


def flow(name: str, steps: list[Any], conditions: dict[str, Any] | None = None) -> JobFlow:
    status = {"conditions": conditions} if conditions else {}
    raw = {"metadata": {"name": name}, "spec": {"flows": steps}, "status": status}
    return msgspec.convert(raw, JobFlow)


FIT = {"name": "fit", "dependsOn": {"targets": ["fetch"]}}
INNER = [{"name": "fetch"}, FIT]
TRAIN = {"name": "train", "dependsOn": {"targets": ["prep"]}, "flow": {"flows": INNER}}
AFTER = {"name": "report", "dependsOn": {"targets": ["train"], "condition": "Finished"}}
STEPS = [{"name": "prep"}, TRAIN, AFTER]


def child(name: str, **phases: str) -> JobFlow:
    return flow(name, INNER, {f"{name}-{step}": {"phase": phases[step]} for step in phases})


def phases(graph: FlowGraph) -> list[tuple[str, str, str]]:
    return [(node.step, node.phase, node.detail) for node in graph.nodes]


# ---------------------------------------------------------------------- phases


def test_a_flow_that_has_not_started_has_the_steps_of_its_child_flows() -> None:
    graph = nested_graph(flow("f", STEPS))
    (inner,) = graph.nodes[1].inner
    assert [node.inner for node in graph.nodes if node.step != "train"] == [(), ()]
    assert phases(inner) == [("fetch", "", ""), ("fit", "", "")]
    assert inner.arrows == [Arrow(0, 1)]


def test_the_steps_of_a_child_flow_that_runs_have_their_phases() -> None:
    running = flow("f", STEPS, {"f-train": {"phase": "Running", "flow": "f-train"}})
    children = {"f-train": child("f-train", fetch="Completed", fit="Running")}
    (inner,) = nested_graph(running, children).nodes[1].inner
    assert phases(inner) == [("fetch", "Completed", ""), ("fit", "Running", "")]


def test_phases_of_many_child_flows_are_counted_where_they_differ() -> None:
    steps = [{"name": "train", "forEach": {"count": 3}, "flow": {"flows": INNER}}]
    runs = [{"index": index, "phase": "Running", "flow": f"f-train-{index}"} for index in range(3)]
    running = flow("f", steps, {"f-train": {"phase": "Running", "runs": runs}})
    ends = ("Completed", "Running", "Completed")
    children = {
        f"f-train-{index}": child(f"f-train-{index}", fetch="Completed", fit=end)
        for index, end in enumerate(ends)
    }
    (inner,) = nested_graph(running, children).nodes[0].inner
    assert phases(inner) == [("fetch", "Completed", ""), ("fit", "", "2 Completed, 1 Running")]


def test_each_case_that_runs_a_flow_has_a_graph_and_the_taken_one_has_phases() -> None:
    cases = [
        {"when": "false", "flow": {"flows": [{"name": "x"}]}},
        {"when": "false", "template": "t"},
        {"when": "true", "flow": {"flows": INNER}},
    ]
    condition = {"phase": "Running", "flow": "f-a", "decisions": {"case": 2}}
    running = flow("f", [{"name": "a", "switch": cases}], {"f-a": condition})
    found = nested_graph(running, {"f-a": child("f-a", fetch="Failed", fit="Skipped")})
    assert [(each.name, phases(each)) for each in found.nodes[0].inner] == [
        ("case 1", [("x", "", "")]),
        ("case 3", [("fetch", "Failed", ""), ("fit", "Skipped", "")]),
    ]


# ---------------------------------------------------------------------- positions


@st.composite
def graphs(draw: st.DrawFn, level: int = 0, name: str = "") -> FlowGraph:
    count = draw(st.integers(1, 4))
    nodes, arrows = [], []
    for position in range(count):
        inner: list[FlowGraph] = []
        if level < 2:
            names = draw(st.sampled_from([[], [], [""], ["case 1", "case 2"]]))
            inner = [draw(graphs(level + 1, each)) for each in names]
        nodes.append(Node(draw(st.text("abc", min_size=1, max_size=30)), "Running", inner=inner))
        sources = draw(st.sets(st.integers(0, position - 1))) if position else set()
        label = draw(st.sampled_from(["", "any Failed"]))
        arrows += [Arrow(source, position, label) for source in sorted(sources)]
    return FlowGraph(name, nodes, arrows, range(count))


def all_graphs(graph: PlacedGraph) -> Iterator[PlacedGraph]:
    yield graph
    for node in graph.nodes:
        for inner in node.inner:
            yield from all_graphs(inner)


def is_inside(one: PlacedGraph | PlacedNode, other: PlacedGraph | PlacedNode) -> bool:
    slack = 0.01
    return (
        one.x >= other.x - slack
        and one.y >= other.y - slack
        and one.x + one.width <= other.x + other.width + slack
        and one.y + one.height <= other.y + other.height + slack
    )


def overlap(one: PlacedGraph | PlacedNode, other: PlacedGraph | PlacedNode) -> bool:
    return (
        one.x < other.x + other.width
        and other.x < one.x + one.width
        and one.y < other.y + other.height - 0.01
        and other.y < one.y + one.height - 0.01
    )


@given(graphs())
def test_graphs_are_inside_of_their_nodes_and_nodes_do_not_overlap(graph: FlowGraph) -> None:
    for placed in all_graphs(place_graph(graph)):
        nodes = placed.nodes
        assert all(is_inside(node, placed) for node in nodes)
        assert not any(
            overlap(node, other) for at, node in enumerate(nodes) for other in nodes[:at]
        )
        for node in nodes:
            assert all(is_inside(inner, node) for inner in node.inner)
            pairs = [(a, b) for at, a in enumerate(node.inner) for b in node.inner[:at]]
            assert not any(overlap(one, other) for one, other in pairs)


@given(graphs())
def test_arrows_lead_from_the_right_of_a_node_to_the_left_of_another(graph: FlowGraph) -> None:
    for placed in all_graphs(place_graph(graph)):
        for each in placed.arrows:
            source, target = placed.nodes[each.arrow.source], placed.nodes[each.arrow.target]
            first, last = each.stops[0], each.stops[-1]
            assert abs(first.left - source.x - source.width) < 0.01
            assert abs(last.right - target.x) < 3
            assert source.y < first.y < source.y + source.height
            assert target.y < last.y < target.y + target.height
            lefts = [stop.left for stop in each.stops]
            assert lefts == sorted(lefts)


def test_a_picture_has_the_boxes_of_child_flows_behind_their_steps() -> None:
    text = graph_svg(nested_graph(flow("f", STEPS)))
    order = ["prep", "train", "fetch", "fit", "report"]
    places = [text.index(f"<title>{step}</title>") for step in order]
    assert places == sorted(places)
    assert text.count('class="node box"') == 1


# ---------------------------------------------------------------------- other programs


def test_mermaid_has_a_subgraph_for_a_child_flow() -> None:
    assert to_mermaid(nested_graph(flow("f", STEPS))).splitlines() == [
        "flowchart LR",
        '  s0["prep"]',
        '  subgraph s1["train<br/>flow of 2 steps"]',
        "    direction LR",
        '    s1_0["fetch"]',
        '    s1_1["fit"]',
        "    s1_0 --> s1_1",
        "  end",
        '  s2["report"]',
        "  s0 --> s1",
        "  s1 -. Finished .-> s2",
    ]


def test_dot_has_a_cluster_for_a_child_flow_and_arrows_that_end_at_it() -> None:
    lines = to_dot(nested_graph(flow("f", STEPS))).splitlines()
    assert "compound=true" in lines[1]
    assert lines[2:] == [
        '  s0 [label="prep"];',
        "  subgraph cluster_s1 {",
        '    graph [label="train\\nflow of 2 steps", style=rounded, fontname="sans-serif"];',
        '    s1_0 [label="fetch"];',
        '    s1_1 [label="fit"];',
        "    s1_0 -> s1_1;",
        "  }",
        '  s2 [label="report"];',
        "  s0 -> s1_0 [lhead=cluster_s1];",
        '  s1_1 -> s2 [label="Finished", style=dashed, ltail=cluster_s1];',
        "}",
    ]


@given(graphs())
def test_every_name_of_dot_and_mermaid_is_defined_once(graph: FlowGraph) -> None:
    dot = to_dot(graph)
    nodes = re.findall(r"^ *(s[\w]+) \[label", dot, re.MULTILINE)
    boxes = re.findall(r"subgraph (cluster_\w+)", dot)
    ends = {name for pair in re.findall(r"(s\w+) -> (s\w+)", dot) for name in pair}
    assert len({*nodes, *boxes}) == len(nodes) + len(boxes)
    assert ends <= {*nodes}
    assert {*re.findall(r"l(?:head|tail)=(\w+)", dot)} <= {*boxes}
    assert dot.count("{") == dot.count("}")
    mermaid = to_mermaid(graph)
    names = re.findall(r'^ *(?:subgraph )?(s\w+)\["', mermaid, re.MULTILINE)
    used = {n for pair in re.findall(r"(s\w+) -.*-?-> (s\w+)", mermaid) for n in pair}
    assert len({*names}) == len(names) and used <= {*names}
    assert mermaid.count("subgraph ") == len(re.findall(r"^ *end$", mermaid, re.MULTILINE))
