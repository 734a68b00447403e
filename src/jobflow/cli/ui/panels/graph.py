"""The graph of a flow: every step from the start, from left to right, and its state."""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass
from operator import itemgetter

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import StepCondition, StepPhase
from jobflow.api.flow.step import Step
from jobflow.cli.ui.panels.flow_view import FlowView
from jobflow.cli.ui.web.filters import look
from jobflow.cli.ui.web.fragments import Fragment
from jobflow.core.drawing.flow_graph import Arrow, CyclicFlowError, FlowGraph, Node, flow_graph
from jobflow.core.drawing.layered_layout import Layout, layered_layout
from jobflow.core.spec.items import get_items
from jobflow.core.spec.param_values import with_param_values

WIDTH, HEIGHT, ROW, GAP, MARGIN = 208, 52, 72, 56, 16
"""Pixels: of a node, of a node, from row to row, between columns, around everything. They depend on
nothing that changes while a flow runs, so no node ever moves."""
BAR = WIDTH - 52
"""Pixels of the bar of a step with items."""
LABEL = 6.5
"""Pixels of an average character of a condition."""
MAX_NAME, MAX_DETAIL = 22, 30
"""Characters of a name and of the line below it; the title has the rest."""
_KEPT = 8
"""Layouts that are kept."""


@dataclass(frozen=True, slots=True)
class Edge:
    """An arrow: its path, and a condition other than Completed."""

    path: str
    label: str


@dataclass(frozen=True, slots=True)
class Label:
    """A condition, written before the node that it is for."""

    x: int
    y: float
    text: str


@dataclass(frozen=True, slots=True)
class GraphFrame:
    """All of a graph but its nodes: it changes only with the spec."""

    flow: str
    width: int
    height: int
    edges: tuple[Edge, ...]
    labels: tuple[Label, ...]
    places: tuple[tuple[int, float], ...]
    """The left upper corner of each node, in the order of the steps."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A part of the bar of a step with items."""

    look: str
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class NodeBox:
    """A step in the graph."""

    step: str
    name: str
    """Cut."""
    phase: str
    detail: str
    """Cut."""
    title: str
    """All that is known in one line."""
    x: int
    y: float
    is_selected: bool
    is_last: bool
    """Whether it is a step of `finally`."""
    is_daemon: bool
    has_runs: bool
    """Whether it stands for several runs, drawn as a stack."""
    bars: tuple[Bar, ...]


def graph(view: FlowView) -> Fragment:
    """Return the tab of the graph."""
    try:
        found = flow_graph(view.flow)
    except CyclicFlowError as error:
        return Fragment("graph-tab", "graph-problem.html", str(error))
    frame, steps = _frame(view.flow, found), with_param_values(view.flow).all_steps
    nodes = [
        Fragment(f"node:{node.step}", "node.html", _box(view, step, node, place))
        for step, node, place in sorted(
            zip(steps, found.nodes, frame.places, strict=True), key=itemgetter(2)
        )
    ]
    drawn = Fragment("graph", "graph.html", frame, [Fragment("nodes", "nodes.html", None, nodes)])
    return Fragment("graph-tab", "tab.html", None, [_legend(found), drawn])


def _legend(found: FlowGraph) -> Fragment:
    """Return how many steps are in each phase, in the order of their first steps."""
    counts = Counter(node.phase or StepPhase.WAITING for node in found.nodes)
    return Fragment("legend", "legend.html", tuple(counts.items()))


_frames: OrderedDict[tuple[str, int | None], GraphFrame] = OrderedDict()
"""By UID and generation of flows."""


def _frame(flow: JobFlow, found: FlowGraph) -> GraphFrame:
    key = flow.metadata.uid, flow.metadata.generation
    frame = _frames.pop(key, None) or _lay_out(found)
    _frames[key] = frame
    while len(_frames) > _KEPT:
        _frames.popitem(last=False)
    return frame


def _lay_out(found: FlowGraph) -> GraphFrame:
    layout = layered_layout(found.targets, found.order)
    gaps = [GAP] * (layout.width + 1)
    for arrow in found.arrows:  # its condition is written in the gap before the node
        column = layout.columns[arrow.target]
        gaps[column] = max(gaps[column], int(len(arrow.label) * LABEL) + GAP // 2)
    lefts, left = [], MARGIN
    for column in range(layout.width):
        left += gaps[column] if column else 0
        lefts.append(left)
        left += WIDTH
    rows = zip(layout.columns, layout.rows, strict=True)
    return GraphFrame(
        found.name,
        left + MARGIN,
        round(layout.height * ROW - (ROW - HEIGHT) + 2 * MARGIN),
        tuple(Edge(_path(arrow, layout, lefts), arrow.label) for arrow in found.arrows),
        tuple(_labels(found, layout, lefts)),
        tuple((lefts[column], round(MARGIN + row * ROW, 1)) for column, row in rows),
    )


def _path(arrow: Arrow, layout: Layout, lefts: list[int]) -> str:
    """Return the path of an arrow, through its bends."""
    x = lefts[layout.columns[arrow.source]] + WIDTH
    y = _middle(layout.rows[arrow.source])
    path = f"M{x} {y:.1f}"
    bends = layout.bends.get((arrow.source, arrow.target), ())
    points = [(lefts[column], _middle(row), WIDTH) for column, row in bends]
    end = lefts[layout.columns[arrow.target]] - 3, _middle(layout.rows[arrow.target]), 0
    for left, row, width in (*points, end):
        half = (x + left) / 2
        path += f"C{half:.1f} {y:.1f} {half:.1f} {row:.1f} {left} {row:.1f}"
        x, y = left + width, row
        path += f"H{x}" if width else ""
    return path


def _labels(found: FlowGraph, layout: Layout, lefts: list[int]) -> list[Label]:
    labels = []
    for position, arrows in enumerate(found.into):
        texts = dict.fromkeys(arrow.label for arrow in arrows if arrow.label)
        if texts:
            x = lefts[layout.columns[position]] - 14
            y = round(_middle(layout.rows[position]) - 7, 1)
            labels.append(Label(x, y, ", ".join(texts)))
    return labels


def _middle(row: float) -> float:
    return MARGIN + row * ROW + HEIGHT / 2


def _box(view: FlowView, step: Step, node: Node, place: tuple[int, float]) -> NodeBox:
    condition = view.condition(node.step)
    phase = node.phase or condition.phase
    below = " · ".join(filter(None, (phase, node.detail)))
    title = ": ".join(filter(None, (condition.reason, condition.message)))
    return NodeBox(
        step=node.step,
        name=_cut(node.step, MAX_NAME),
        phase=phase,
        detail=_cut(below, MAX_DETAIL),
        title=", ".join(filter(None, (node.step, phase, node.detail, title))),
        x=place[0],
        y=place[1],
        is_selected=view.choice is not None and node.step == view.choice.step,
        is_last=node.is_last,
        is_daemon=node.is_daemon,
        has_runs=step.fan_out is not None or step.repeat is not None,
        bars=_bars(step, condition),
    )


def _bars(step: Step, condition: StepCondition) -> tuple[Bar, ...]:
    """Return the phases of a step's runs, as parts of a bar."""
    runs = condition.runs or ()
    total = max(len(runs), len(get_items(step, condition.decisions) or ()))
    counts = Counter(look(run.phase) for run in runs)
    bars, x = [], 0.0
    for name in ("completed", "failed", "skipped", "running", "other", "pending"):
        if count := counts[name]:
            width = round(BAR * count / total, 2)
            bars.append(Bar(name, round(x, 2), width))
            x += width
    return tuple(bars)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
