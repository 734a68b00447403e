"""SVG documents: well-formed and without scripts, whatever the names in a flow are."""

import re
import xml.etree.ElementTree as ET
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobflow.core.drawing.flow_graph import Arrow, FlowGraph, Node, flow_graph
from jobflow.core.drawing.svg import graph_svg, timeline_svg
from jobflow.core.timelines.spans import Span, State
from jobflow.core.timelines.timeline import StepTimeline, Timeline
from support.plan.flow_statuses import DIAMOND, START

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = (
    "</text><script>alert(1)</script>", "]]>", "&amp;", '" onload="x', "<!--", "\x00\x08\x1b\x7f",
    "\ud800", "\ufffe", "<?xml?>", "a" * 300,
)  # fmt: skip
names = st.sampled_from(HOSTILE) | st.text(max_size=12)


def parse(text: str) -> ET.Element:
    """Parse a document that has to be self-contained."""
    root = ET.fromstring(text.encode())
    kinds = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert kinds <= {"svg", "title", "style", "rect", "defs", "marker", "path", "g", "text"}
    for element in root.iter():
        assert not any(name.startswith("on") or "href" in name for name in element.attrib)
    assert "url(http" not in text and "@import" not in text
    return root


def texts(root: ET.Element) -> list[str]:
    return [element.text or "" for element in root.iter(f"{SVG}text")]


def boxes(root: ET.Element, kind: str) -> list[tuple[float, float, float, float]]:
    """Return left, top, right and bottom of the rectangles of a class."""
    found = []
    for element in root.iter(f"{SVG}rect"):
        if element.get("class") == kind:
            x, y, width, height = (
                float(element.get(name, "")) for name in ("x", "y", "width", "height")
            )
            found.append((x, y, x + width, y + height))
    return found


@given(st.lists(names, min_size=1, max_size=5), names)
def test_hostile_names_are_text(steps: list[str], phase: str) -> None:
    nodes = [Node(step, phase, phase) for step in steps]
    arrows = [Arrow(at - 1, at, phase) for at in range(1, len(steps))]
    root = parse(graph_svg(FlowGraph(phase, nodes, arrows, range(len(steps)))))
    assert len([*root.iter(f"{SVG}g")]) == len(steps)
    rows = tuple(StepTimeline(step, phase) for step in steps)
    found = Timeline(START, START + timedelta(5), False, timedelta(), rows, ())
    assert len([*parse(timeline_svg(phase, found)).iter(f"{SVG}g")]) == len(steps)


def test_a_graph_has_a_node_and_an_arrow_for_each_dependency() -> None:
    root = parse(graph_svg(flow_graph(DIAMOND)))
    assert texts(root) == [
        "a", "✔ Completed", "b", "✔ Completed", "c", "● Running", "d", "◌ Pending", "e",
        "○ Waiting",
    ]  # fmt: skip
    paths = [each.get("d", "") for each in root.iter(f"{SVG}path") if each.get("marker-end")]
    assert len(paths) == 5
    a, b, c, d, e = boxes(root, "node")
    assert a[2] < b[0] and b[2] < c[0] == d[0] and c[2] < e[0]
    assert c[3] < d[1]
    width, height = float(root.get("width", "")), float(root.get("height", ""))
    assert e[2] <= width and d[3] <= height


def test_arrows_begin_and_end_at_their_nodes() -> None:
    nodes = [Node("a"), Node("b"), Node("c")]
    graph = FlowGraph("f", nodes, [Arrow(0, 1), Arrow(1, 2), Arrow(0, 2, "Failed")], range(3))
    root = parse(graph_svg(graph))
    places = boxes(root, "node")
    paths = [each.get("d", "") for each in root.iter(f"{SVG}path") if each.get("marker-end")]
    for arrow, path in zip(graph.arrows, paths, strict=True):
        numbers = [float(number) for number in re.findall(r"-?\d+\.\d", path)]
        source, target = places[arrow.source], places[arrow.target]
        assert numbers[0] == pytest.approx(source[2], abs=0.2)
        assert source[1] < numbers[1] < source[3]
        assert numbers[-2] == pytest.approx(target[0], abs=3)
        assert target[1] < numbers[-1] < target[3]
    assert "Failed" in texts(root)


def test_both_colour_schemes_have_a_background() -> None:
    text = graph_svg(flow_graph(DIAMOND))
    light, dark = text.split("@media(prefers-color-scheme:dark)")
    assert ".back{fill:#fff}" in light and ".back{fill:#0d1117}" in dark


def at(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


def test_a_timeline_has_a_bar_for_each_span_at_its_time() -> None:
    spans = (
        Span(State.WAITING, START, START + at(10)),
        Span(State.QUEUED, START + at(10), START + at(20), "f-a"),
        Span(State.RUNNING, START + at(20), START + at(100), "f-a"),
    )
    rows = (StepTimeline("a", "Completed", spans=spans), StepTimeline("b", "Skipped"))
    found = Timeline(START, START + at(100), False, timedelta(), rows, ())
    root = parse(timeline_svg("f", found))
    waiting, queued, running = (boxes(root, kind)[0] for kind in ("waiting", "queued", "bar"))
    assert waiting[2] == pytest.approx(queued[0], abs=0.2)
    assert queued[2] == pytest.approx(running[0], abs=0.2)
    assert running[2] - running[0] == pytest.approx(8 * (queued[2] - queued[0]), abs=1)
    assert {"1m40s", "Skipped", "0s", "1m"} <= {*texts(root)}
