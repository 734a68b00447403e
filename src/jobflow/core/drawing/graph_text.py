"""The graph of a flow in languages of other programs: Mermaid, Graphviz's dot and JSON."""

import json
from collections.abc import Iterator
from typing import Any

from jobflow.api.flow.step import Strategy
from jobflow.core.drawing.flow_graph import FlowGraph, Node
from jobflow.core.drawing.layered_layout import layered_layout
from jobflow.core.drawing.phase_looks import LOOKS, look_of

_PLAIN = frozenset(" -_.,:/()")


def to_mermaid(graph: FlowGraph) -> str:
    """Return a Mermaid flowchart (mermaid.js.org), which GitHub renders in Markdown."""
    lines = ["flowchart LR", *_mermaid_lines(graph, "s", "  ")]
    used = {look_of(node.phase) for node in _all_nodes(graph)}
    lines += [
        f"  classDef {look.name} stroke:{look.line.light},stroke-width:2px"
        for look in LOOKS
        if look.line and look in used
    ]
    return "\n".join(lines) + "\n"


def _mermaid_lines(graph: FlowGraph, prefix: str, indent: str) -> Iterator[str]:
    """Yield the lines of a graph; the names of its nodes begin with `prefix`."""
    for position, node in enumerate(graph.nodes):
        name, text = f"{prefix}{position}", "<br/>".join(map(_escape_mermaid, _lines(node)))
        if node.inner:
            yield from _mermaid_box(node, name, text, indent)
            continue
        shape = f'(["{text}"])' if node.is_last else f'["{text}"]'
        look = look_of(node.phase)
        kind = f":::{look.name}" if look.line else ""
        yield f"{indent}{name}{shape}{kind}"
    for arrow in graph.arrows:
        line = f"-. {arrow.label} .->" if arrow.label else "-->"
        yield f"{indent}{prefix}{arrow.source} {line} {prefix}{arrow.target}"


def _mermaid_box(node: Node, name: str, text: str, indent: str) -> Iterator[str]:
    """Yield a subgraph with the graphs of the child flows of a step, which have subgraphs of their
    own if there are several."""
    yield f'{indent}subgraph {name}["{text}"]'
    yield f"{indent}  direction LR"
    for number, inner in enumerate(node.inner):
        if not inner.name:
            yield from _mermaid_lines(inner, f"{name}_", indent + "  ")
            continue
        yield f'{indent}  subgraph {name}_c{number}["{_escape_mermaid(inner.name)}"]'
        yield f"{indent}    direction LR"
        yield from _mermaid_lines(inner, f"{name}_c{number}_", indent + "    ")
        yield f"{indent}  end"
    yield f"{indent}end"
    if (look := look_of(node.phase)).line:
        yield f"{indent}class {name} {look.name}"


def _all_nodes(graph: FlowGraph) -> Iterator[Node]:
    for node in graph.nodes:
        yield node
        for inner in node.inner:
            yield from _all_nodes(inner)


def _escape_mermaid(text: str) -> str:
    """Replace all but letters, digits and harmless signs by character codes."""
    return "".join(
        char if char in _PLAIN or (char.isascii() and char.isalnum()) else f"#{ord(char)};"
        for char in _printable(text)
    )


def to_dot(graph: FlowGraph) -> str:
    """Return a digraph for Graphviz, in ASCII."""
    # without it, no arrow would end at the border of a cluster
    compound = " compound=true;" if any(node.inner for node in graph.nodes) else ""
    lines = [
        f"digraph {_quote(graph.name)} {{",
        f'  rankdir=LR;{compound} node [shape=box, style=rounded, fontname="sans-serif"];',
        *_dot_lines(graph, "s", "  "),
        "}\n",
    ]
    return "\n".join(lines).encode("ascii", "xmlcharrefreplace").decode()


def _dot_lines(graph: FlowGraph, prefix: str, indent: str) -> Iterator[str]:
    """Yield the lines of a graph; the names of its nodes begin with `prefix`."""
    for position, node in enumerate(graph.nodes):
        name = f"{prefix}{position}"
        line = look_of(node.phase).line
        colour = f', color="{line.light}"' if line else ""
        if node.inner:
            yield from _dot_box(node, name, colour, indent)
        else:
            yield f"{indent}{name} [label={_quote(*_lines(node))}{colour}];"
    for arrow in graph.arrows:
        source, target = f"{prefix}{arrow.source}", f"{prefix}{arrow.target}"
        options = [f"label={_quote(arrow.label)}, style=dashed"] if arrow.label else []
        if graph.nodes[arrow.source].inner:
            options.append(f"ltail=cluster_{source}")
            source = _end_of(graph.nodes[arrow.source], source, -1)
        if graph.nodes[arrow.target].inner:
            options.append(f"lhead=cluster_{target}")
            target = _end_of(graph.nodes[arrow.target], target, 0)
        text = f" [{', '.join(options)}]" if options else ""
        yield f"{indent}{source} -> {target}{text};"


def _dot_box(node: Node, name: str, colour: str, indent: str) -> Iterator[str]:
    """Yield a cluster with the graphs of the child flows of a step, which have clusters of their
    own if there are several."""
    box = 'style=rounded, fontname="sans-serif"'
    yield f"{indent}subgraph cluster_{name} {{"
    yield f"{indent}  graph [label={_quote(*_lines(node))}, {box}{colour}];"
    for number, inner in enumerate(node.inner):
        if not inner.name:
            yield from _dot_lines(inner, f"{name}_", indent + "  ")
            continue
        yield f"{indent}  subgraph cluster_{name}_c{number} {{"
        yield f"{indent}    graph [label={_quote(inner.name)}, {box}];"
        yield from _dot_lines(inner, f"{name}_c{number}_", indent + "    ")
        yield f"{indent}  }}"
    yield f"{indent}}}"


def _end_of(node: Node, name: str, end: int) -> str:
    """Return the name of the first (0) or last (-1) node in a cluster: an arrow of dot leads to a
    node, and is cut at the border of the cluster."""
    while node.inner:
        number = range(len(node.inner))[end]
        graph = node.inner[number]
        position = graph.order[end]
        part = f"c{number}_" if graph.name else ""
        node, name = graph.nodes[position], f"{name}_{part}{position}"
    return name


def to_json(graph: FlowGraph) -> str:
    """Return nodes with their positions in a layout from left to right, and edges from each target
    to the step that depends on it. A node whose step runs a flow has `flows`: the graphs of its
    child flows, one for each case of `switch`, and "" as the flow if there is no switch."""
    return json.dumps(_json(graph), indent=2, ensure_ascii=False) + "\n"


def _json(graph: FlowGraph) -> dict[str, Any]:
    layout = layered_layout(graph.targets, graph.order)
    positions = zip(graph.nodes, layout.columns, layout.rows, strict=True)
    nodes = [
        {
            "step": node.step,
            "phase": node.phase or None,
            "detail": node.detail,
            "daemon": node.is_daemon,
            "finally": node.is_last,
            "column": column,
            "row": round(row, 2),
            **({"flows": [*map(_json, node.inner)]} if node.inner else {}),
        }
        for node, column, row in positions
    ]
    edges = [
        {
            "from": graph.nodes[arrow.source].step,
            "to": graph.nodes[arrow.target].step,
            "condition": arrow.condition,
            "strategy": Strategy.ANY if arrow.is_any else Strategy.ALL,
        }
        for arrow in graph.arrows
    ]
    return {"flow": graph.name, "nodes": nodes, "edges": edges}


def _quote(*lines: str) -> str:
    r"""Return a string of dot, in which `\N` and `&amp;` would have a meaning."""
    escapes = str.maketrans({"\\": "\\\\", '"': '\\"', "&": "&amp;"})
    return '"' + "\\n".join(_printable(line).translate(escapes) for line in lines) + '"'


def _lines(node: Node) -> list[str]:
    """Return the name, the phase and the details of a node."""
    return [*filter(None, (node.step, node.phase, node.detail))]


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "\ufffd" for char in text)
