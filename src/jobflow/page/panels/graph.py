"""The graph of a flow: every step from the start, from left to right, and its state."""

from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

from jobflow.api.flow.status import StepPhase
from jobflow.api.flow.step import Step
from jobflow.client.conditions import condition_of
from jobflow.client.step_rows import with_reason
from jobflow.core.drawing.flow_graph import CyclicFlowError, FlowGraph, Node, flow_graph
from jobflow.core.drawing.graph_layout import NodeSize, place_graph
from jobflow.core.explain.progress import message_of
from jobflow.core.reasons import StepReason
from jobflow.core.spec.items import get_items
from jobflow.core.spec.param_values import with_param_values
from jobflow.core.work import is_asked
from jobflow.page.flow_view import FlowView
from jobflow.page.web.fragments import Fragment, look

MIN_WIDTH, DETAIL_WIDTH, MAX_WIDTH, HEIGHT, ROW, GAP, MARGIN = 150, 200, 232, 52, 72, 48, 16
"""Pixels: of a node, at least, with details below its name, and at most; its height; from row to
row, between columns, around everything."""
TEXT, PADDING = 40, 10
"""Pixels before and behind the texts of a node."""
CHAR, SMALL_CHAR = 8.6, 6.2
"""Pixels of a wide character of a name and of the line below it. A browser decides the true width,
and cuts what is wider than the node."""
_KEPT = 8


class Spot(NamedTuple):
    x: float
    y: float
    width: float


@dataclass(frozen=True, slots=True)
class GraphFrame:
    """All of a graph but its nodes: it changes only with the spec."""

    flow: str
    width: int
    height: int
    edges: Sequence[dict[str, Any]]
    """Arrows: a path, and as label a condition other than Completed."""
    labels: Sequence[dict[str, Any]]
    """Conditions, each written before the node that it is for."""
    spots: Sequence[Spot]
    """The place of each node, in the order of the steps."""


_frames: OrderedDict[tuple[str, int | None], GraphFrame] = OrderedDict()
"""By UID and generation of flows."""


def graph(view: FlowView) -> Fragment:
    try:
        found = flow_graph(view.flow)
    except CyclicFlowError as error:
        return Fragment("graph-tab", "graph-problem.html", str(error))
    steps = with_param_values(view.flow).all_steps
    key = view.flow.metadata.uid, view.flow.metadata.generation
    # layout takes long, and depends on the spec alone
    frame = _frames.pop(key, None) or _lay_out(found, steps)
    _frames[key] = frame
    while len(_frames) > _KEPT:
        _frames.popitem(last=False)
    # from left to right, so that a keyboard goes through the nodes as an eye does
    placed = sorted(zip(steps, found.nodes, frame.spots, strict=True), key=itemgetter(2))
    nodes = [
        Fragment(f"node:{node.step}", "node.html", _box(view, step, node, spot))
        for step, node, spot in placed
    ]
    counts = Counter(node.phase or StepPhase.WAITING for node in found.nodes)
    legend = Fragment("legend", "legend.html", tuple(counts.items()))
    drawn = Fragment("graph", "graph.html", frame, [Fragment("nodes", "nodes.html", None, nodes)])
    return Fragment("graph-tab", "tab.html", None, [legend, drawn])


def _lay_out(found: FlowGraph, steps: Sequence[Step]) -> GraphFrame:
    by_name = {step.name: step for step in steps}
    size = NodeSize(lambda node: _width(by_name[node.step], node), HEIGHT, ROW, GAP)
    placed = place_graph(found, x=MARGIN, y=MARGIN, size=size)
    return GraphFrame(
        flow=found.name,
        width=round(placed.width + 2 * MARGIN),
        height=round(placed.height + 2 * MARGIN),
        edges=[{"path": each.path, "label": each.arrow.label} for each in placed.arrows],
        labels=[
            {"x": round(each.x, 1), "y": round(each.y, 1), "text": each.text}
            for each in placed.labels
        ],
        spots=[Spot(round(each.x, 1), round(each.y, 1), each.width) for each in placed.nodes],
    )


def _width(step: Step, node: Node) -> float:
    """Return the width of a node. It depends on the spec alone, so that no node ever moves."""
    least = DETAIL_WIDTH if step.has_runs or node.detail else MIN_WIDTH
    if step.has_runs and is_asked(step):
        least = MAX_WIDTH
    return min(max(len(step.name) * CHAR + TEXT + PADDING, least), MAX_WIDTH)


def _box(view: FlowView, step: Step, node: Node, spot: Spot) -> dict[str, Any]:
    condition = condition_of(view.flow, node.step)
    phase = node.phase or condition.phase
    # that it was reused says that it is Completed
    is_reused = condition.reason == StepReason.REUSED
    below = node.detail if is_reused else " · ".join(filter(None, (phase, node.detail)))
    room = spot.width - TEXT - PADDING
    why = with_reason(condition.reason, message_of(condition))
    runs = condition.runs or ()
    total = max(len(runs), len(get_items(step, condition.decisions) or ()))
    counts = Counter(look(run.phase) for run in runs)
    bars, x = [], 0.0
    for name in ("completed", "failed", "skipped", "running", "other", "pending"):
        if count := counts[name]:
            width = round(room * count / total, 2)
            bars.append({"look": name, "x": round(x, 2), "width": width})
            x += width
    return {
        "step": node.step,
        "name": _cut(node.step, room / CHAR),
        "phase": phase,
        "detail": _cut(below, room / SMALL_CHAR),
        "title": ", ".join(filter(None, (node.step, phase, node.detail, why))),
        "spot": spot,
        "is_selected": view.choice is not None and node.step == view.choice.step,
        "is_last": node.is_last,
        "is_daemon": node.is_daemon,
        "has_runs": step.has_runs,
        "bars": bars,
    }


def _cut(text: str, most: float) -> str:
    return text if len(text) <= most else text[: int(most) - 1] + "…"
