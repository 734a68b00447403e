"""The graph of a flow as SVG: columns from left to right, phases by colour, symbol and word. A step
that runs a flow is a box with the steps of that flow."""

from __future__ import annotations

from collections.abc import Iterator

from jobflow.core.drawing.flow_graph import FlowGraph
from jobflow.core.drawing.graph_layout import (
    HEIGHT,
    PADDING,
    PlacedArrow,
    PlacedGraph,
    PlacedLabel,
    PlacedNode,
    place_graph,
)
from jobflow.core.drawing.phase_looks import class_of
from jobflow.core.drawing.svg import MARGIN, cut, document, xml_text

_TIP = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    'orient="auto"><path class="tip" d="M0 0L8 4L0 8z"/></marker></defs>'
)


def graph_svg(graph: FlowGraph) -> str:
    """Return a standalone SVG document."""
    placed = place_graph(graph, x=MARGIN, y=MARGIN)
    width, height = placed.width + 2 * MARGIN, placed.height + 2 * MARGIN
    return document(graph.name, width, height, (_TIP, *_elements(placed)))


def _elements(placed: PlacedGraph) -> Iterator[str]:
    """Yield the elements of a graph: arrows first, so that nodes cover them."""
    yield from map(_arrow, placed.arrows)
    yield from map(_label, placed.labels)
    for node in placed.nodes:
        yield _node(node)
        for inner in node.inner:
            if name := xml_text(inner.graph.name):
                yield f'<text class="small" x="{inner.x:.1f}" y="{inner.y - 7:.1f}">{name}</text>'
            yield from _elements(inner)


def _node(placed: PlacedNode) -> str:
    node, x, y = placed.node, placed.x, placed.y
    kind = "node box" if placed.inner else "node"
    classes = f"{class_of(node.phase)} {'daemon' if node.is_daemon else ''}".split()
    below = placed.second_line
    lines = [("bold", cut(node.step), y + (18 if below else 26))]
    lines += [("small", below, y + 34)] if below else []
    texts = "".join(
        f'<text class="{kind}" x="{x + PADDING:.1f}" y="{at:.1f}">{xml_text(text)}</text>'
        for kind, text, at in lines
    )
    return (
        f'<g class="{" ".join(["step", *classes])}"><title>{xml_text(node.step)}</title>'
        f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{placed.width:.1f}" '
        f'height="{placed.height:.0f}" rx="{HEIGHT / 2 if node.is_last else 8}"/>{texts}</g>'
    )


def _arrow(placed: PlacedArrow) -> str:
    kind = "arrow conditional" if placed.arrow.label else "arrow"
    return f'<path class="{kind}" d="{placed.path}" marker-end="url(#tip)"/>'


def _label(placed: PlacedLabel) -> str:
    text = xml_text(placed.text)
    return f'<text class="small halo end" x="{placed.x:.1f}" y="{placed.y:.1f}">{text}</text>'
