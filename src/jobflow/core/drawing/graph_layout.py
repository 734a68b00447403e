"""The positions of everything in the graph of a flow, in pixels. The graphs of child flows are
inside of the node that runs them, which is a box as large as they need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from jobflow.core.drawing.flow_graph import Arrow, FlowGraph, Node
from jobflow.core.drawing.layered_layout import Layout, layered_layout
from jobflow.core.drawing.phase_looks import icon_of
from jobflow.core.text import shorten

PADDING, HEIGHT = 14, 44
"""Beside a text, of a node or of the head of a box."""
INSET = 12
"""Around the graphs in a box."""
TITLE = 20
"""Height of the title of a graph in a box that has several."""
CHAR, SMALL_CHAR = 7.2, 6.2
"""Width of an average character of a name, and of smaller text; a browser decides the real one."""
_MAX_CHARS = 40


def cut(text: str) -> str:
    return shorten(text, _MAX_CHARS)


@dataclass(frozen=True, slots=True)
class NodeSize:
    """The size of nodes, and the distances between them."""

    width: Callable[[Node], float]
    """Least width of a node without child flows; nodes of a column are as wide as the widest."""
    height: float = HEIGHT
    """Height of a node, or of the head of a box."""
    row: float = 62
    """From row to row of nodes without child flows."""
    gap: float = 56
    """Between columns."""


class Stop(NamedTuple):
    """A horizontal part of an arrow. Between two stops it is curved."""

    left: float
    right: float
    y: float


@dataclass(frozen=True, slots=True)
class PlacedArrow:
    """An arrow and its way: at least two stops, from left to right."""

    arrow: Arrow
    stops: Sequence[Stop]

    @property
    def path(self) -> str:
        """The way as the attribute `d` of an SVG path."""
        first, *others = self.stops
        x, y = first.right, first.y
        path = f"M{first.left:.1f} {y:.1f}" + (f"H{x:.1f}" if x > first.left else "")
        for stop in others:
            half = (stop.left - x) / 2
            path += f"C{x + half:.1f} {y:.1f} {stop.left - half:.1f} {stop.y:.1f} "
            path += f"{stop.left:.1f} {stop.y:.1f}"
            path += f"H{stop.right:.1f}" if stop.right > stop.left else ""
            x, y = stop.right, stop.y
        return path


@dataclass(frozen=True, slots=True)
class PlacedLabel:
    """Conditions of the arrows to a node. The text ends at `x`, before the node."""

    text: str
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class PlacedNode:
    """A step, and the graphs of its child flows inside of it."""

    node: Node
    x: float
    y: float
    width: float
    height: float
    inner: Sequence[PlacedGraph]


@dataclass(frozen=True, slots=True)
class PlacedGraph:
    """A graph. All positions are relative to the upper left corner of the outermost one."""

    graph: FlowGraph
    x: float
    y: float
    width: float
    height: float
    nodes: Sequence[PlacedNode]
    arrows: Sequence[PlacedArrow]
    labels: Sequence[PlacedLabel]


_BY_TEXT = NodeSize(
    lambda node: max(len(cut(node.step)) * CHAR, len(second_line(node)) * SMALL_CHAR) + 2 * PADDING
)


def place_graph(
    graph: FlowGraph, *, x: float = 0.0, y: float = 0.0, size: NodeSize = _BY_TEXT
) -> PlacedGraph:
    """Return the positions in a graph whose upper left corner is at `x` and `y`."""
    return _place(_Sized.of(graph, size), x, y)


@dataclass(frozen=True, slots=True)
class _Sized:
    """A graph whose size is known, but not its place."""

    graph: FlowGraph
    size: NodeSize
    inner: Sequence[Sequence[_Sized]]
    sizes: Sequence[tuple[float, float]]
    """Width and height of each node; nodes without graphs are as wide as others of the column."""
    layout: Layout
    lefts: Sequence[float]
    """Left edge of each column, from 0."""
    widths: Sequence[float]
    """Width of each column."""

    @classmethod
    def of(cls, graph: FlowGraph, size: NodeSize) -> _Sized:
        inner = [[cls.of(each, size) for each in node.inner] for node in graph.nodes]
        sizes = []
        for node, own in zip(graph.nodes, inner, strict=True):
            widest = max((each.width + 2 * INSET for each in own), default=0.0)
            height = size.height + sum(map(_outer_height, own))
            sizes.append((max(size.width(node), widest), height))
        heights = [(height + size.row - size.height) / size.row for _, height in sizes]
        layout = layered_layout(graph.targets, graph.order, heights)
        # nodes of one column are equally wide; a box is as wide as what it holds
        plain, widths = [0.0] * layout.width, [0.0] * layout.width
        for column, own, (width, _) in zip(layout.columns, inner, sizes, strict=True):
            widths[column] = max(widths[column], width)
            plain[column] = max(plain[column], 0.0 if own else width)
        sizes = [
            (width if own else plain[column], height)
            for column, own, (width, height) in zip(layout.columns, inner, sizes, strict=True)
        ]
        gaps = [size.gap] * layout.width
        for arrow in graph.arrows:  # a label is written before the node, in the gap
            column = layout.columns[arrow.target] - 1
            gaps[column] = max(gaps[column], len(arrow.label) * SMALL_CHAR + size.gap / 2)
        steps = (width + gap for width, gap in zip(widths, gaps, strict=True))
        return cls(graph, size, inner, sizes, layout, [*accumulate(steps, initial=0.0)], widths)

    @property
    def width(self) -> float:
        return self.lefts[-2] + self.widths[-1] if self.widths else 0.0

    @property
    def height(self) -> float:
        return max(self.layout.height * self.size.row - (self.size.row - self.size.height), 0.0)

    def middle(self, y: float, row: float) -> float:
        return y + row * self.size.row + self.size.height / 2


def _outer_height(inner: _Sized) -> float:
    return inner.height + INSET + (TITLE if inner.graph.name else 0)


def second_line(node: Node) -> str:
    """Return the text below the name: `✔ Completed · 12/40 items`."""
    phase = f"{icon_of(node.phase)} {node.phase}" if node.phase else ""
    return " · ".join(filter(None, (phase, cut(node.detail))))


def _place(sized: _Sized, x: float, y: float) -> PlacedGraph:
    layout = sized.layout
    middles = [sized.middle(y, row) for row in layout.rows]
    nodes = []
    for position, node in enumerate(sized.graph.nodes):
        left = x + sized.lefts[layout.columns[position]]
        width, height = sized.sizes[position]
        top = middles[position] - height / 2
        inner, inner_top = [], top + sized.size.height
        for each in sized.inner[position]:
            title = TITLE if each.graph.name else 0
            inner.append(_place(each, left + INSET, inner_top + title))
            inner_top += _outer_height(each)
        nodes.append(PlacedNode(node, left, top, width, height, inner))
    arrows = []
    for arrow in sized.graph.arrows:
        source, column = nodes[arrow.source], layout.columns[arrow.source]
        # a box ends at the right of its column, a narrower node before
        right = x + sized.lefts[column] + sized.widths[column]
        stops = [Stop(source.x + source.width, right, middles[arrow.source])]
        for at, row in layout.bends.get((arrow.source, arrow.target), ()):
            left = x + sized.lefts[at]
            stops.append(Stop(left, left + sized.widths[at], sized.middle(y, row)))
        # before the node, which would cover the tip
        end = nodes[arrow.target].x - 2
        arrows.append(PlacedArrow(arrow, [*stops, Stop(end, end, middles[arrow.target])]))
    labels = []
    for position, into in enumerate(sized.graph.into):
        if texts := dict.fromkeys(arrow.label for arrow in into if arrow.label):
            text, node_left = ", ".join(texts), nodes[position].x
            # in the gap before the node
            labels.append(PlacedLabel(text, node_left - 12, middles[position] - 5))
    return PlacedGraph(sized.graph, x, y, sized.width, sized.height, nodes, arrows, labels)
