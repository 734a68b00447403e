"""The graph of a flow as text: lanes for a terminal, Mermaid, Graphviz's dot and JSON.

A lane begins at a node and ends at the last node that depends on it, as in `git log --graph`. Nodes
with the same targets and the same dependants are below each other, and share a lane, which begins
to the right of the first of them:

    ●      extract
    ├─●─╮  clean
    ├─●─┤  index
    ●───╯  report
"""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from jobflow.api.flow.step import Strategy
from jobflow.core.drawing.flow_graph import FlowGraph, Node
from jobflow.core.drawing.layered_layout import layered_layout
from jobflow.core.drawing.phase_looks import LOOKS, look_of

NODE = "●"
_CONNECTORS = {
    # (lane goes on below, line to the left, line to the right), where a lane meets a node's line
    (True, False, True): "├",
    (True, True, False): "┤",
    (True, True, True): "┼",
    (False, False, True): "╰",
    (False, True, False): "╯",
    (False, True, True): "┴",
}
_LANE, _LINE, _BEGIN, _JOIN = "│", "─", "╮", "┤"


@dataclass(frozen=True, slots=True)
class Line:
    """A node and the lanes around it."""

    node: int
    lanes: str
    """The drawing, with NODE in the node's lane; it has no trailing spaces."""


def draw_lanes(targets: Sequence[Iterable[int]], roots: Iterable[int]) -> Iterator[Line]:
    """Draw an acyclic graph: each node below its targets, and near them if possible. `roots`: the
    nodes without targets in the order to draw them."""
    lanes = _Lanes(targets)
    # a stack: dependants are drawn near the node that they waited for
    ready = lanes.together(roots)[::-1]
    waits_for = [len(row) for row in lanes.targets]
    while ready:
        node = ready.pop()
        yield Line(node, lanes.draw(node))
        met = []
        for dependant in lanes.dependants[node]:
            waits_for[dependant] -= 1
            if not waits_for[dependant]:
                met.append(dependant)
        ready += reversed(lanes.together(met))


@dataclass(slots=True)
class _Group:
    """Nodes with the same targets and the same dependants, of which there are some."""

    members: list[int]
    lane: int = -1
    """The lane of all members; that of their arrows is the next one."""


class _Lanes:
    """The lanes of arrows that still have a node to reach."""

    def __init__(self, targets: Sequence[Iterable[int]]) -> None:
        self.targets = [frozenset(row) for row in targets]
        self.dependants: list[list[int]] = [[] for _ in targets]
        for node, row in enumerate(self.targets):
            for target in row:
                self.dependants[target].append(node)
        alike: dict[object, list[int]] = {}
        for node, row in enumerate(self.targets):
            if self.dependants[node]:
                alike.setdefault((row, tuple(self.dependants[node])), []).append(node)
        groups = [_Group(members) for members in alike.values() if len(members) > 1]
        self._groups = {member: group for group in groups for member in group.members}
        self._missing = [len(row) for row in self.dependants]
        self._owners: list[int | None] = []
        """The node in which each lane begins, or the first one of a group; None for a free lane."""
        self._shared: set[int] = set()
        """Lanes whose last owner was a group."""
        self._freed: set[int] = set()
        """Free lanes with a node in the line above: a node there would look connected."""

    def together(self, nodes: Iterable[int]) -> list[int]:
        """Return these nodes, the members of each group behind its first one."""
        found: dict[int, None] = {}
        for node in nodes:
            group = self._groups.get(node)
            found.update(dict.fromkeys([node] if group is None else group.members))
        return [*found]

    def draw(self, node: int) -> str:
        # the lanes of the line above
        before = [owner is not None for owner in self._owners]
        groups = {target: self._groups.get(target) for target in self.targets[node]}
        owners = {target if group is None else group.members[0] for target, group in groups.items()}
        sources = {at for at, owner in enumerate(self._owners) if owner in owners}
        ended = []
        for at in sorted(sources):
            owner = self._owners[at]
            assert owner is not None
            self._missing[owner] -= 1
            if not self._missing[owner]:  # it has reached its last node
                self._owners[at] = None
                ended.append(at)
        group = self._groups.get(node)
        out: int | None = None
        if group is None:
            lane = ended[0] if ended else self._free_lane(min(sources, default=-1) + 1)
            # instead of the lane of a group, the one that the group began from if it is free
            if ended and lane in self._shared:
                lane = self._free_lane(max(lane - 2, 0))
        else:
            if group.lane < 0:
                group.lane = self._free_lane(max(sources, default=-1) + 1, 2)
            lane, out = group.lane, group.lane + 1
        self._freed = set()
        if group is not None:
            self._owners[lane + 1] = group.members[0]
            self._shared.add(lane + 1)
        elif self.dependants[node]:
            self._owners[lane] = node
            self._shared.discard(lane)
        if self._owners[lane] is None:
            self._freed.add(lane)
        before += [False] * (len(self._owners) - len(before))
        text = self._text(lane, out, sources, before)
        while self._owners and self._owners[-1] is None:
            if len(self._owners) - 1 in self._freed:
                break
            self._owners.pop()
        return text

    def _free_lane(self, first: int, count: int = 1) -> int:
        """Return the first one of so many free lanes side by side, and add missing ones."""
        taken = {lane for lane, owner in enumerate(self._owners) if owner is not None} | self._freed
        at = first
        while not taken.isdisjoint(range(at, at + count)):
            at += 1
        self._owners += [None] * (at + count - len(self._owners))
        return at

    def _text(
        self, lane: int, out: int | None, sources: Collection[int], before: Sequence[bool]
    ) -> str:
        reached = [lane, *sources, *(() if out is None else (out,))]
        start, end = min(reached), max(reached)
        text = ""
        for at, is_lane in enumerate(before):
            if at == lane:
                text += NODE
            elif at == out:
                text += _JOIN if is_lane else _BEGIN
            elif at in sources:
                text += _CONNECTORS[self._owners[at] is not None, at > start, at < end]
            elif is_lane:
                text += _LANE
            else:
                text += _LINE if start < at < end else " "
            text += _LINE if start <= at < end else " "
        return text.rstrip()


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
        look = look_of(node.phase)
        if not node.inner:
            shape = f'(["{text}"])' if node.is_last else f'["{text}"]'
            yield f"{indent}{name}{shape}" + (f":::{look.name}" if look.line else "")
            continue
        yield f'{indent}subgraph {name}["{text}"]'
        yield f"{indent}  direction LR"
        for number, inner in enumerate(node.inner):
            # only several child flows have names, and subgraphs of their own
            if not inner.name:
                yield from _mermaid_lines(inner, f"{name}_", indent + "  ")
                continue
            yield f'{indent}  subgraph {name}_c{number}["{_escape_mermaid(inner.name)}"]'
            yield f"{indent}    direction LR"
            yield from _mermaid_lines(inner, f"{name}_c{number}_", indent + "    ")
            yield f"{indent}  end"
        yield f"{indent}end"
        if look.line:
            yield f"{indent}class {name} {look.name}"
    for arrow in graph.arrows:
        line = f"-. {arrow.label} .->" if arrow.label else "-->"
        yield f"{indent}{prefix}{arrow.source} {line} {prefix}{arrow.target}"


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
    box = 'style=rounded, fontname="sans-serif"'
    for position, node in enumerate(graph.nodes):
        name = f"{prefix}{position}"
        line = look_of(node.phase).line
        label = f"label={_quote(*_lines(node))}"
        colour = f', color="{line.light}"' if line else ""
        if not node.inner:
            yield f"{indent}{name} [{label}{colour}];"
            continue
        yield f"{indent}subgraph cluster_{name} {{"
        yield f"{indent}  graph [{label}, {box}{colour}];"
        for number, inner in enumerate(node.inner):
            # only several child flows have names, and clusters of their own
            if not inner.name:
                yield from _dot_lines(inner, f"{name}_", indent + "  ")
                continue
            yield f"{indent}  subgraph cluster_{name}_c{number} {{"
            yield f"{indent}    graph [label={_quote(inner.name)}, {box}];"
            yield from _dot_lines(inner, f"{name}_c{number}_", indent + "    ")
            yield f"{indent}  }}"
        yield f"{indent}}}"
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
    return [*filter(None, (node.step, node.phase, node.detail))]


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "\ufffd" for char in text)
