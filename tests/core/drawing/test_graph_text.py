"""Mermaid and dot: what a parser reads is the graph, whatever the names of its steps are."""

import html
import re
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobflow.core.drawing.flow_graph import Arrow, FlowGraph, Node
from jobflow.core.drawing.graph_text import to_dot, to_mermaid

HOSTILE = (
    'a"]', "x\n  evil --> y", "]:::c", "<script>alert(1)</script>", "`md`", "#quot;", "&lt;b&gt;",
    "\\N", 'end \\" ]; x -> y', "%% c", "é → ü", "a|b", "\x00\x1b[2J\u2028", "click s0 call f()",
    "{{x}}", "--", "",
)  # fmt: skip
names = st.sampled_from(HOSTILE) | st.text(max_size=12)


def graph_of(steps: Sequence[str], *, phase: str = "Running") -> FlowGraph:
    nodes = [Node(step, phase, is_last=at % 2 == 1) for at, step in enumerate(steps)]
    arrows = [Arrow(at - 1, at, "any Failed" if at % 2 else "") for at in range(1, len(steps))]
    return FlowGraph("f", nodes, arrows, range(len(steps)))


def visible(text: str) -> str:
    return "".join(char if char.isprintable() else "\ufffd" for char in text)


NODE = re.compile(
    r'  s(\d+)(?:\["([^"\[\]<>`]*(?:<br/>[^"\[\]<>`]*)*)"\]|\(\["([^"]*)"\]\))(:::\w+)?'
)
ARROW = re.compile(r"  s(\d+) (-->|-\. [\w ]+ \.->) s(\d+)")
CLASS = re.compile(r"  classDef \w+ stroke:#\w+,stroke-width:2px")


def read_mermaid(text: str) -> tuple[dict[int, list[str]], list[tuple[int, int]]]:
    """Parse the output by a strict grammar of its lines."""
    lines = text.removesuffix("\n").split("\n")
    assert lines.pop(0) == "flowchart LR"
    nodes: dict[int, list[str]] = {}
    arrows = []
    for line in lines:
        if node := NODE.fullmatch(line):
            label = (node[2] or node[3] or "").split("<br/>")
            assert all(re.fullmatch(r"(?:[A-Za-z0-9 \-_.,:/()]|#\d+;)*", part) for part in label)
            codes = (re.sub(r"#(\d+);", lambda code: chr(int(code[1])), part) for part in label)
            nodes[int(node[1])] = [*codes]
        elif arrow := ARROW.fullmatch(line):
            arrows.append((int(arrow[1]), int(arrow[3])))
        else:
            assert CLASS.fullmatch(line), line
    return nodes, arrows


def tokens(text: str) -> Iterator[str]:
    """Yield the tokens of dot, in which a backslash escapes the next character of a string."""
    pattern = re.compile(r'"(?:[^"\\\n]|\\.)*"|->|[\w.]+|[{}\[\]=,;]|\s+')
    at = 0
    while at < len(text):
        token = pattern.match(text, at)
        assert token, f"not a token: {text[at : at + 20]!r}"
        at = token.end()
        if not token[0].isspace():
            yield token[0]


def unquote(token: str) -> list[str]:
    """Return the lines that Graphviz draws for a string."""
    text = re.sub(r"\\(.)", lambda code: {"n": "\n", "\\": "\\", '"': '"'}[code[1]], token[1:-1])
    return [html.unescape(line) for line in text.split("\n")]


def read_dot(text: str) -> tuple[dict[int, list[str]], list[tuple[int, int]]]:
    found = [*tokens(text)]
    assert found[0] == "digraph" and found[2] == "{" and found[-1] == "}"
    body = " ".join(found[3:-1])
    nodes, arrows = {}, []
    for name, label in re.findall(r's(\d+) \[ label = ("(?:[^"\\]|\\.)*")', body):
        nodes[int(name)] = unquote(label)
    for source, target in re.findall(r"s(\d+) -> s(\d+)", re.sub(r'"(?:[^"\\]|\\.)*"', "", body)):
        arrows.append((int(source), int(target)))
    return nodes, arrows


@given(st.lists(names, max_size=5))
def test_mermaid_reads_back_as_the_graph(steps: list[str]) -> None:
    nodes, arrows = read_mermaid(to_mermaid(graph_of(steps)))
    assert nodes == {
        at: [*filter(None, (visible(step), "Running"))] for at, step in enumerate(steps)
    }
    assert arrows == [(at - 1, at) for at in range(1, len(steps))]


@given(st.lists(names, max_size=5))
def test_dot_reads_back_as_the_graph(steps: list[str]) -> None:
    nodes, arrows = read_dot(to_dot(graph_of(steps)))
    assert list(nodes) == [*range(len(steps))]
    assert len(arrows) == max(len(steps) - 1, 0)


@pytest.mark.parametrize("name", HOSTILE)
def test_dot_shows_the_name_itself(name: str) -> None:
    nodes, _ = read_dot(to_dot(graph_of([name], phase="")))
    assert nodes == {0: [visible(name)] if name else [""]}


def test_a_phase_that_is_not_known_cannot_inject_a_class() -> None:
    text = to_mermaid(graph_of(["a"], phase='x"]\nclick'))
    assert ":::" not in text and text.count("\n") == 2


def test_mermaid_of_a_diamond() -> None:
    nodes = [Node("a", "Completed"), Node("b", detail="2 items"), Node("z", is_last=True)]
    graph = FlowGraph("f", nodes, [Arrow(0, 1), Arrow(1, 2, "Finished")], range(3))
    assert to_mermaid(graph).splitlines() == [
        "flowchart LR",
        '  s0["a<br/>Completed"]:::completed',
        '  s1["b<br/>2 items"]',
        '  s2(["z"])',
        "  s0 --> s1",
        "  s1 -. Finished .-> s2",
        "  classDef completed stroke:#2da44e,stroke-width:2px",
    ]
