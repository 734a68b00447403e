"""The timeline of a flow as lines of text: a bar for each step, the critical path, the totals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from jobflow.api.flow.status import StepPhase
from jobflow.api.volcano.job import JobPhase
from jobflow.client.flows.time_left import describe_time_left
from jobflow.core.drawing.phase_looks import style_of
from jobflow.core.drawing.svg import ticks
from jobflow.core.text import format_count, format_duration, printable
from jobflow.core.timelines.spans import Span, State
from jobflow.core.timelines.time_left import NoEstimate, TimeLeft
from jobflow.core.timelines.timeline import StepTimeline, Timeline

_BARS = {State.WAITING: "·", State.QUEUED: "░", State.RUNNING: "█"}
_ASCII_BARS = {State.WAITING: ".", State.QUEUED: "-", State.RUNNING: "#"}
_RANK = (State.WAITING, State.QUEUED, State.RUNNING)
"""A cell in which several states occur shows the last of these."""
_MIN_BAR = 12
_MAX_NAME = 30
_LENGTH = 7
"""Columns of a duration, with a space before it."""
_TICK = 8
"""Columns that a time of the axis takes at least."""
_WIDE = 72
"""Columns from which on a line has a note, such as `2 attempts`."""
_ENDS_OF_PATH = 5
"""Steps that are named at each end of a long critical path."""


def timeline_lines(
    found: Timeline,
    width: int,
    left: TimeLeft | NoEstimate | None = None,
    *,
    ascii_only: bool = False,
) -> Iterator[Text]:
    """Return the axis, a line for each step, and the totals; no line exceeds `width` columns."""
    symbols = _ASCII_BARS if ascii_only else _BARS
    notes = [_note(row) if width >= _WIDE else "" for row in found.steps]
    note = max((len(each) + 2 for each in notes if each), default=0)
    names = max((cell_len(printable(row.step)) for row in found.steps), default=0)
    names = max(min(names, _MAX_NAME, width - _MIN_BAR - _LENGTH - 3), 1)
    bar = max(width - names - note - _LENGTH - 3, 1)
    axis = _axis(found.duration, bar, width - names - 3)
    yield Text((" " * (names + 3) + axis).rstrip()[:width], style="dim")
    for row, text in zip(found.steps, notes, strict=True):
        mark = "*" if row.is_critical else " "
        name = cut_name(printable(row.step), names, ascii_only)
        line = Text.assemble((mark, "bold magenta"), " ", name, " ")
        line.append_text(_bar(row, found, bar, symbols) if row.spans else _phase(row, bar))
        line.append(_length(row).rjust(_LENGTH))
        line.append(f"  {text}" if text else "", style=style_of(row.phase))
        line.truncate(width)
        line.rstrip()
        yield line
    yield Text()
    for head, parts, separator in _summary(found, left, symbols, ascii_only=ascii_only):
        yield from _filled(head, parts, separator, width)


def cut_name(name: str, width: int, ascii_only: bool) -> str:
    """Return a name in this width, padded, or cut with an ellipsis."""
    if cell_len(name) <= width:
        return set_cell_size(name, width)
    return set_cell_size(name, width - 1) + ("~" if ascii_only else "…")


def _length(row: StepTimeline) -> str:
    if row.start is None or row.end is None:
        return ""
    return format_duration(row.end - row.start)


def _note(row: StepTimeline) -> str:
    """Return the phase, unless it is Completed, and the number of jobs if there are several."""
    parts = (
        "daemon" if row.is_daemon else "",
        row.phase if row.spans and row.phase != StepPhase.COMPLETED else "",
        format_count(row.attempts, "job") if row.attempts > 1 else "",
    )
    return printable(", ".join(filter(None, parts)))


def _axis(total: timedelta, width: int, room: int) -> str:
    """Return round times since the start, such as `0s          30s         1m`, above bars of this
    width. A time that does not fit into `room` columns is left out."""
    text = ""
    for tick, share in ticks(total, width / _TICK):
        start, label = int(share * width), format_duration(tick)
        if start + len(label) <= room and (start > len(text) or not text):
            text = text.ljust(start) + label
    return text


def _phase(row: StepTimeline, width: int) -> Text:
    """Return the phase of a step without times in place of its bar."""
    return Text(set_cell_size(printable(row.phase), width), style=style_of(row.phase))


def _bar(row: StepTimeline, found: Timeline, width: int, symbols: Mapping[State, str]) -> Text:
    cells: list[State | None] = [None] * width
    for span in row.spans:
        for at in _covered(span, found.start, found.end, width):
            before = cells[at]
            if before is None or _RANK.index(span.state) > _RANK.index(before):
                cells[at] = span.state
    styles = {
        State.WAITING: "dim",
        State.QUEUED: style_of(JobPhase.PENDING),
        State.RUNNING: style_of(row.phase),
    }
    bar = Text()
    for state, run in groupby(cells):
        symbol = " " if state is None else symbols[state]
        bar.append(symbol * len([*run]), style=styles[state] if state else "")
    return bar


def _covered(span: Span, start: datetime, end: datetime, width: int) -> range:
    """Return the cells of a span; at least one, so that nothing is invisible."""
    total = max((end - start).total_seconds(), 1e-9)
    first = int((span.start - start).total_seconds() / total * width)
    last = int((span.end - start).total_seconds() / total * width)
    first = min(max(first, 0), width - 1)
    return range(first, min(max(last, first + 1), width))


def _summary(
    found: Timeline,
    left: TimeLeft | NoEstimate | None,
    symbols: Mapping[State, str],
    *,
    ascii_only: bool,
) -> Iterator[tuple[str, Sequence[str], str]]:
    """Yield paragraphs: the first words, the parts behind them, and what separates the parts."""
    steps = [
        f"{printable(each.step)} {format_duration(each.end - each.start)}" for each in found.path
    ]
    if steps:
        yield "* critical path:", ends_of_path(steps), " >" if ascii_only else " →"
    total = max(found.duration, timedelta(seconds=1))
    parts = [
        f"{symbols[state]} {state} {format_duration(time)} ({time / total:.0%})"
        for state, time in found.critical_times.items()
    ]
    so_far = " so far" if found.is_open else ""
    yield f"{format_duration(found.duration)}{so_far}:", parts, ","
    if found.suspended:
        yield "suspended for", [f"{format_duration(found.suspended)} of it"], ""
    if left is not None:
        yield "time left:", describe_time_left(left).split(), ""


def _filled(head: str, parts: Sequence[str], separator: str, width: int) -> Iterator[Text]:
    """Yield lines that break only between parts; the first words are bold."""
    lines = [Text(head, style="bold")]
    for at, part in enumerate(parts):
        text = part + (separator if at < len(parts) - 1 else "")
        if lines[-1].cell_len + 1 + cell_len(text) > width:
            lines.append(Text(text))
        else:
            lines[-1].append(f" {text}", style="not bold")
    for line in lines:
        line.truncate(width)
        yield line


def ends_of_path(steps: Sequence[str]) -> list[str]:
    """Return the steps of a path, without the middle of a long one."""
    more = len(steps) - 2 * _ENDS_OF_PATH
    if more < 2:
        return [*steps]
    return [*steps[:_ENDS_OF_PATH], f"({more} more steps)", *steps[-_ENDS_OF_PATH:]]
