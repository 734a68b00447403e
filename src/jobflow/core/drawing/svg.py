"""A flow as SVG: its graph, in columns from left to right, and its timeline, a row a step."""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from html import escape
from itertools import count

from jobflow.api.flow.status import StepPhase
from jobflow.core.drawing import graph_layout
from jobflow.core.drawing.flow_graph import FlowGraph
from jobflow.core.drawing.graph_layout import CHAR, HEIGHT, PADDING, PlacedGraph, PlacedNode, cut
from jobflow.core.drawing.phase_looks import LOOKS, class_of
from jobflow.core.text import format_duration
from jobflow.core.timelines.spans import Span, State
from jobflow.core.timelines.timeline import StepTimeline, Timeline

MARGIN = 16
"""Pixels around everything."""

_STYLE = """
.jf{font:12px system-ui,-apple-system,"Segoe UI",sans-serif;fill:#1f2328}
.jf .back{fill:#fff}
.jf .node{fill:#f6f8fa;stroke:#8c959f;stroke-width:1.5}
.jf .box{fill:#fff}
.jf .arrow{fill:none;stroke:#8c959f;stroke-width:1.3}
.jf .tip{fill:#8c959f}
.jf .conditional{stroke-dasharray:5 3}
.jf .small{font-size:11px;fill:#57606a}
.jf .halo{stroke:#fff;stroke-width:4;paint-order:stroke}
.jf .grid{stroke:#d0d7de;stroke-width:1}
.jf .bold{font-weight:600}
.jf .end{text-anchor:end}
.jf .daemon .node{stroke-dasharray:2 3}
.jf .failed .node,.jf .running .node{stroke-width:2.5}
.jf .skipped .node{fill:none}.jf .skipped text{fill:#57606a}
.jf .bar{fill:#6e7781}.jf .queued{fill:#d4a72c}.jf rect.waiting{fill:#d0d7de}
.jf .critical{fill:#8250df}
LIGHT
@media(prefers-color-scheme:dark){
.jf{fill:#e6edf3}.jf .back{fill:#0d1117}
.jf .node{fill:#161b22}.jf .box{fill:#0d1117}.jf .skipped .node{fill:none}
.jf .small,.jf .skipped text{fill:#9198a1}.jf .halo{stroke:#0d1117}
.jf .grid{stroke:#30363d}.jf rect.waiting{fill:#3d444d}.jf .critical{fill:#ab7df8}
DARK
}
"""


def document(title: str, width: float, height: float, body: Iterable[str]) -> str:
    """Return a standalone document, which needs no script, font or other file. It is in ASCII, so
    that any output can encode it."""
    style, line = _STYLE, ".jf .{0} .node{{stroke:{1}}}.jf .{0} .bar{{fill:{1}}}"
    drawn = [(each.name, each.line) for each in LOOKS if each.line]
    style = style.replace("LIGHT", "\n".join(line.format(name, of.light) for name, of in drawn))
    style = style.replace("DARK", "\n".join(line.format(name, of.dark) for name, of in drawn))
    text = (
        '<svg xmlns="http://www.w3.org/2000/svg" class="jf" role="img" '
        f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}">\n'
        f"<title>{xml_text(title)}</title>\n<style>{style}</style>\n"
        '<rect class="back" width="100%" height="100%"/>\n' + "\n".join(body) + "\n</svg>\n"
    )
    return text.encode("ascii", "xmlcharrefreplace").decode()


def xml_text(text: str) -> str:
    """Return text for XML, without characters that XML cannot contain."""
    return escape("".join(char if char.isprintable() else "\ufffd" for char in text))


_TIP = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    'orient="auto"><path class="tip" d="M0 0L8 4L0 8z"/></marker></defs>'
)


def graph_svg(graph: FlowGraph) -> str:
    placed = graph_layout.place_graph(graph, x=MARGIN, y=MARGIN)
    width, height = placed.width + 2 * MARGIN, placed.height + 2 * MARGIN
    return document(graph.name, width, height, (_TIP, *_elements(placed)))


def _elements(placed: PlacedGraph) -> Iterator[str]:
    # arrows first, so that nodes cover them
    for arrow in placed.arrows:
        kind = "arrow conditional" if arrow.arrow.label else "arrow"
        yield f'<path class="{kind}" d="{arrow.path}" marker-end="url(#tip)"/>'
    for label in placed.labels:
        text = xml_text(label.text)
        yield f'<text class="small halo end" x="{label.x:.1f}" y="{label.y:.1f}">{text}</text>'
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
    below = graph_layout.second_line(node)
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


_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_STEPS = (
    *(1, 2, 5, 10, 15, 30),
    *(_MINUTE * each for each in (1, 2, 5, 10, 15, 30)),
    *(_HOUR * each for each in (1, 2, 3, 6, 12)),
)


def ticks(total: timedelta, most: float) -> Iterator[tuple[timedelta, float]]:
    """Yield at most `most` round times from 0 on, all before `total`, each with its share of it."""
    if total <= timedelta():
        yield timedelta(), 0.0
        return
    wanted = total.total_seconds() / max(most, 1.0)
    days = (_DAY * 2**power for power in count())
    step = next((each for each in _STEPS if each >= wanted), None)
    step = step or next(each for each in days if each >= wanted)
    for number in count():
        tick = timedelta(seconds=step * number)
        if tick >= total:
            return
        yield tick, tick / total


_ROW, _BAR, _CHART, _LENGTH, _AXIS = 24, 14, 640, 120, 28
"""Pixels: from row to row, of a bar, the chart's width, a duration with a phase, the axis."""
_TICK = 80
"""Pixels that a tick of the axis takes at least."""
_CLASSES = {State.WAITING: "waiting", State.QUEUED: "queued", State.RUNNING: "bar"}


def timeline_svg(name: str, found: Timeline) -> str:
    """Return a standalone SVG document for the timeline of the flow with this name."""
    names = max((len(cut(row.step)) for row in found.steps), default=0) * CHAR + 16
    width = MARGIN + names + _CHART + _LENGTH + MARGIN
    left, bottom = MARGIN + names, MARGIN + _AXIS + len(found.steps) * _ROW
    body = []
    for tick, share in ticks(found.duration, _CHART / _TICK):
        x = left + share * _CHART
        body.append(
            f'<text class="small" x="{x:.1f}" y="{MARGIN + 11}">{format_duration(tick)}</text>'
            f'<path class="grid" d="M{x:.1f} {MARGIN + 16}V{bottom}"/>'
        )
    for at, row in enumerate(found.steps):
        body.append(_row(row, found, left, MARGIN + _AXIS + at * _ROW))
    x, y = max(left, MARGIN + 110), bottom + _ROW
    body.append(
        f'<rect class="critical" x="{MARGIN}" y="{y}" width="4" height="{_BAR}" rx="2"/>'
        f'<text class="bold" x="{MARGIN + 10}" y="{y + 11}">critical path</text>'
    )
    for state, time in found.critical_times.items():
        text = f"{state} {format_duration(time)}"
        body.append(
            f'<rect class="{_CLASSES[state]}" x="{x:.1f}" y="{y}" width="14" height="{_BAR}" '
            f'rx="2"/><text class="small" x="{x + 20:.1f}" y="{y + 11}">{text}</text>'
        )
        x += 20 + len(text) * CHAR + 16
    return document(name, width, bottom + 2 * _ROW + MARGIN, body)


def _row(row: StepTimeline, found: Timeline, left: float, top: float) -> str:
    middle = top + _BAR - 3
    weight = "bold" if row.is_critical else ""
    mark = f'<rect class="critical" x="{MARGIN}" y="{top}" width="4" height="{_BAR}" rx="2"/>'
    layers = [*_CLASSES]  # running jobs are drawn over queued ones
    spans = sorted(row.spans, key=lambda span: layers.index(span.state))
    times = (f"{state} {format_duration(time)}" for state, time in row.times.items() if time)
    title = f"{row.step}: {', '.join((row.phase, *times))}"
    parts = [
        f"<title>{xml_text(title)}</title>",
        mark if row.is_critical else "",
        f'<text class="{weight}" x="{MARGIN + 10}" y="{middle}">{xml_text(cut(row.step))}</text>',
        *(_bar(span, found, left, top) for span in spans),
    ]
    text, x = row.phase, left + 4
    if row.start is not None and row.end is not None:
        text, x = format_duration(row.end - row.start), left + _CHART + 8
        text += f" {row.phase}" if row.phase != StepPhase.COMPLETED else ""
    parts.append(f'<text class="small" x="{x:.1f}" y="{middle}">{xml_text(text)}</text>')
    return f'<g class="{f"step {class_of(row.phase)}".strip()}">{"".join(parts)}</g>'


def _bar(span: Span, found: Timeline, left: float, top: float) -> str:
    # a flow that has just started has no duration
    total = max(found.duration, timedelta(seconds=1))
    # a bar that is very short is still visible
    width = max(span.duration / total * _CHART, 2.0)
    x = min((span.start - found.start) / total * _CHART, _CHART - width)
    height, y = (_BAR, top) if span.state is State.RUNNING else (_BAR / 2, top + _BAR / 4)
    return (
        f'<rect class="{_CLASSES[span.state]}" x="{left + x:.1f}" y="{y:.1f}" '
        f'width="{width:.1f}" height="{height}" rx="2"/>'
    )
