"""`jobflow timeline`: when each step of a flow waited, was queued and ran, as bars, JSON or SVG."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import FlowPhase, StepPhase
from jobflow.api.volcano.job import JobPhase
from jobflow.client.errors import FAILED, SUCCESS, CommandError, print_error
from jobflow.client.flows.children import read_children
from jobflow.client.flows.find_flow import connect, find_flow, find_flows
from jobflow.client.options import Connection
from jobflow.core.drawing.phase_looks import style_of
from jobflow.core.drawing.svg import ticks, timeline_svg
from jobflow.core.reasons import StepReason
from jobflow.core.text import format_count, format_duration, printable
from jobflow.core.timelines import time_left
from jobflow.core.timelines.spans import State
from jobflow.core.timelines.timeline import StepTimeline, Timeline, timeline, with_children
from jobflow.display.console import columns_of, make_console
from jobflow.display.formats import TimelineOutput, print_json

Left = time_left.TimeLeft | time_left.NoEstimate | None
"""The time until the end of a flow; None: it has ended, or is only planned."""
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


async def print_timeline(name: str, connection: Connection, output: TimelineOutput) -> int:
    now = datetime.now(UTC)
    async with await connect(connection) as client:
        flow = await find_flow(client, name)
        found = timeline(flow, now=now)
        if found is None:  # before the start, or by a controller of another project
            phase = flow.status.state.phase or FlowPhase.PENDING
            why = f"has not started: it is {phase}"
            if phase != FlowPhase.PENDING:
                why = f"is {phase}, but its status has no times: a controller that records none "
                why += "has run it"
            raise CommandError(FAILED, f"JobFlow {flow.metadata.name} {why}")
        children = await read_children(client, [flow])
        found = with_children(found, flow, children, now=now)
        left: Left = None
        # the flows of a namespace are many, so they are read only if something is left
        if found.is_open:
            try:
                history = time_left.learn(await find_flows(client))
                left = time_left.time_left(flow, history, now=now, children=children)
            except CommandError as error:  # many users may read a flow but not list them
                print_error(f"the time left is unknown: {error}", severity="warning")
                left = time_left.NoEstimate("the flows of the namespace cannot be listed")
    if output is TimelineOutput.JSON:
        print_json(to_json(flow, found, left))
    elif output is TimelineOutput.SVG:
        sys.stdout.write(timeline_svg(flow.metadata.name, found))
    else:
        console = make_console()
        width = columns_of(console) or 100  # of a pipe
        for line in timeline_lines(found, width, left, ascii_only=console.options.ascii_only):
            console.print(line, soft_wrap=True)
    return SUCCESS


def to_json(flow: JobFlow, found: Timeline, left: Left) -> dict[str, Any]:
    """Return the timeline as JSON: times in RFC 3339, durations in seconds, null if unknown."""
    # every key always exists, so that programs need not ask for it
    answer: dict[str, Any] = {
        "namespace": flow.metadata.namespace,
        "flow": flow.metadata.name,
        "phase": flow.status.state.phase or FlowPhase.PENDING,
        "start": _time(found.start),
        "end": None if found.is_open else _time(found.end),
        "seconds": found.duration.total_seconds(),
        "suspendedSeconds": found.suspended.total_seconds(),
        "criticalPath": list(found.critical_path),
        "criticalSeconds": _seconds(found.critical_times),
        "steps": [],
        "timeLeft": None,
        "timeLeftUnknown": left.why if isinstance(left, time_left.NoEstimate) else None,
    }
    for row in found.steps:
        spans = [
            {
                "state": span.state.value,
                "start": _time(span.start),
                "end": None if span.is_open else _time(span.end),
                "job": span.job or None,
            }
            for span in row.spans
        ]
        answer["steps"].append(
            {
                "step": row.step,
                "phase": row.phase,
                "reason": row.reason or None,
                "critical": row.is_critical,
                "after": row.after or None,
                "start": _time(row.start),
                "end": None if row.is_open else _time(row.end),
                "seconds": _seconds(row.times),
                "spans": spans,
            }
        )
    if isinstance(left, time_left.TimeLeft):
        answer["timeLeft"] = {
            "lowSeconds": left.low.total_seconds(),
            "highSeconds": left.high.total_seconds(),
            "atLeast": left.at_least,
            "runs": left.runs,
            "unknown": list(left.unknown),
        }
    return answer


def _seconds(times: Mapping[State, timedelta]) -> dict[str, float]:
    return {state.value: time.total_seconds() for state, time in times.items()}


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def timeline_lines(
    found: Timeline, width: int, left: Left = None, *, ascii_only: bool = False
) -> Iterator[Text]:
    """Yield the axis, a line for each step, and the totals; no line exceeds `width` columns."""
    symbols = _ASCII_BARS if ascii_only else _BARS
    notes = [_note(row) if width >= _WIDE else "" for row in found.steps]
    note = max((len(each) + 2 for each in notes if each), default=0)
    names = max((cell_len(printable(row.step)) for row in found.steps), default=0)
    # bars are what a timeline is for, so names are cut first
    names = max(min(names, _MAX_NAME, width - _MIN_BAR - _LENGTH - 3), 1)
    bar = max(width - names - note - _LENGTH - 3, 1)
    axis = _axis(found.duration, bar, width - names - 3)
    yield Text((" " * (names + 3) + axis).rstrip()[:width], style="dim")
    for row, text in zip(found.steps, notes, strict=True):
        mark = "*" if row.is_critical else " "
        name = cut_name(printable(row.step), names, ascii_only)
        line = Text.assemble((mark, "bold magenta"), " ", name, " ")
        if row.spans:
            line.append_text(_bar(row, found, bar, symbols))
        else:  # a step without times has its phase in place of a bar
            word = row.reason if row.reason == StepReason.REUSED else row.phase
            line.append(set_cell_size(printable(word), bar), style=style_of(row.phase))
        ran = row.end - row.start if row.start is not None and row.end is not None else None
        line.append(format_duration(ran).rjust(_LENGTH))
        line.append(f"  {text}" if text else "", style=style_of(row.phase))
        line.truncate(width)
        line.rstrip()
        yield line
    yield Text()
    for head, parts, separator in _summary(found, left, symbols, ascii_only=ascii_only):
        # a line breaks only between parts
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


def cut_name(name: str, width: int, ascii_only: bool) -> str:
    """Return a name in this width, padded, or cut with an ellipsis."""
    if cell_len(name) <= width:
        return set_cell_size(name, width)
    return set_cell_size(name, width - 1) + ("~" if ascii_only else "…")


def _note(row: StepTimeline) -> str:
    parts = (
        "daemon" if row.is_daemon else "",
        row.phase if row.spans and row.phase != StepPhase.COMPLETED else "",
        format_count(row.attempts, "job") if row.attempts > 1 else "",
    )
    return printable(", ".join(filter(None, parts)))


def _axis(total: timedelta, width: int, room: int) -> str:
    """Return round times since the start, `0s          30s         1m`, above bars of this width,
    as many as fit into `room` columns."""
    text = ""
    for tick, share in ticks(total, width / _TICK):
        start, label = int(share * width), format_duration(tick)
        # times that would touch each other are left out
        if start + len(label) <= room and (start > len(text) or not text):
            text = text.ljust(start) + label
    return text


def _bar(row: StepTimeline, found: Timeline, width: int, symbols: Mapping[State, str]) -> Text:
    cells: list[State | None] = [None] * width
    total = max(found.duration.total_seconds(), 1e-9)
    for span in row.spans:
        first = int((span.start - found.start).total_seconds() / total * width)
        last = int((span.end - found.start).total_seconds() / total * width)
        first = min(max(first, 0), width - 1)
        # at least one cell, so that nothing is invisible
        for at in range(first, min(max(last, first + 1), width)):
            # spans of several jobs may share a cell
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


def _summary(
    found: Timeline, left: Left, symbols: Mapping[State, str], *, ascii_only: bool
) -> Iterator[tuple[str, Sequence[str], str]]:
    """Yield paragraphs: the first words, the parts behind them, and what separates the parts."""
    steps = [
        f"{printable(each.step)} {format_duration(each.end - each.start)}" for each in found.path
    ]
    if steps:
        yield "* critical path:", ends_of_path(steps), " >" if ascii_only else " →"
    total = max(found.duration, timedelta(seconds=1))  # a flow may end in the second of its start
    parts = [
        f"{symbols[state]} {state} {format_duration(time)} ({time / total:.0%})"
        for state, time in found.critical_times.items()
    ]
    so_far = " so far" if found.is_open else ""
    yield f"{format_duration(found.duration)}{so_far}:", parts, ","
    if found.suspended:
        yield "suspended for", [f"{format_duration(found.suspended)} of it"], ""
    if left is not None:
        yield "time left:", time_left.describe_time_left(left).split(), ""


def ends_of_path(steps: Sequence[str]) -> list[str]:
    """Return the steps of a path, without the middle of a long one."""
    more = len(steps) - 2 * _ENDS_OF_PATH
    if more < 2:  # `(1 more steps)` would be no shorter than the step
        return [*steps]
    return [*steps[:_ENDS_OF_PATH], f"({more} more steps)", *steps[-_ENDS_OF_PATH:]]
