"""The timeline of a flow as SVG: a row for each step, with bars for its spans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta

from jobflow.api.flow.status import StepPhase
from jobflow.core.drawing.phase_looks import class_of
from jobflow.core.drawing.svg import CHAR, MARGIN, cut, document, xml_text
from jobflow.core.drawing.time_axis import ticks
from jobflow.core.text import format_duration
from jobflow.core.timelines.spans import Span, State
from jobflow.core.timelines.timeline import StepTimeline, Timeline

_ROW, _BAR, _CHART, _LENGTH, _AXIS = 24, 14, 640, 120, 28
"""Pixels: from row to row, of a bar, of the chart's width, of a duration with a phase, of
the axis."""
_TICK = 80
"""Pixels that a tick of the axis takes at least."""
_CLASSES: Mapping[State, str] = {
    State.WAITING: "waiting",
    State.QUEUED: "queued",
    State.RUNNING: "bar",
}


def timeline_svg(name: str, found: Timeline) -> str:
    """Return a standalone SVG document for the timeline of the flow with this name."""
    names = max((len(cut(row.step)) for row in found.steps), default=0) * CHAR + 16
    width = MARGIN + names + _CHART + _LENGTH + MARGIN
    height = MARGIN + _AXIS + len(found.steps) * _ROW + 2 * _ROW + MARGIN
    return document(name, width, height, _body(found, MARGIN + names))


def _body(found: Timeline, left: float) -> Iterator[str]:
    bottom = MARGIN + _AXIS + len(found.steps) * _ROW
    for tick, share in ticks(found.duration, _CHART / _TICK):
        x = left + share * _CHART
        yield (
            f'<text class="small" x="{x:.1f}" y="{MARGIN + 11}">{format_duration(tick)}</text>'
            f'<path class="grid" d="M{x:.1f} {MARGIN + 16}V{bottom}"/>'
        )
    for at, row in enumerate(found.steps):
        yield _row(row, found, left, MARGIN + _AXIS + at * _ROW)
    yield from _legend(found.critical_times, left, bottom + _ROW)


def _row(row: StepTimeline, found: Timeline, left: float, top: float) -> str:
    middle = top + _BAR - 3
    weight = "bold" if row.is_critical else ""
    mark = f'<rect class="critical" x="{MARGIN}" y="{top}" width="4" height="{_BAR}" rx="2"/>'
    parts = [
        f"<title>{xml_text(_describe(row))}</title>",
        mark if row.is_critical else "",
        f'<text class="{weight}" x="{MARGIN + 10}" y="{middle}">{xml_text(cut(row.step))}</text>',
        *(_bar(span, found, left, top) for span in sorted(row.spans, key=_rank)),
    ]
    text, x = row.phase, left + 4
    if row.start is not None and row.end is not None:
        text, x = format_duration(row.end - row.start), left + _CHART + 8
        text += f" {row.phase}" if row.phase != StepPhase.COMPLETED else ""
    parts.append(f'<text class="small" x="{x:.1f}" y="{middle}">{xml_text(text)}</text>')
    return f'<g class="{f"step {class_of(row.phase)}".strip()}">{"".join(parts)}</g>'


def _rank(span: Span) -> int:
    """Return the layer of a bar: running jobs are drawn over queued ones."""
    return list(_CLASSES).index(span.state)


def _bar(span: Span, found: Timeline, left: float, top: float) -> str:
    """Return a bar. One that is very short is still visible."""
    total = max(found.duration, timedelta(seconds=1))
    width = max(span.duration / total * _CHART, 2.0)
    x = min((span.start - found.start) / total * _CHART, _CHART - width)
    height, y = (_BAR, top) if span.state is State.RUNNING else (_BAR / 2, top + _BAR / 4)
    return (
        f'<rect class="{_CLASSES[span.state]}" x="{left + x:.1f}" y="{y:.1f}" '
        f'width="{width:.1f}" height="{height}" rx="2"/>'
    )


def _describe(row: StepTimeline) -> str:
    times = (f"{state} {format_duration(time)}" for state, time in row.times.items() if time)
    return f"{row.step}: {', '.join((row.phase, *times))}"


def _legend(times: Mapping[State, timedelta], left: float, y: float) -> Iterator[str]:
    yield (
        f'<rect class="critical" x="{MARGIN}" y="{y}" width="4" height="{_BAR}" rx="2"/>'
        f'<text class="bold" x="{MARGIN + 10}" y="{y + 11}">critical path</text>'
    )
    x = max(left, MARGIN + 110)
    for state, time in times.items():
        text = f"{state} {format_duration(time)}"
        yield (
            f'<rect class="{_CLASSES[state]}" x="{x:.1f}" y="{y}" width="14" height="{_BAR}" '
            f'rx="2"/><text class="small" x="{x + 20:.1f}" y="{y + 11}">{text}</text>'
        )
        x += 20 + len(text) * CHAR + 16
