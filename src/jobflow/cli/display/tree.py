"""A flow as a tree and as a table of text, drawn from its status."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from rich.cells import cell_len
from rich.text import Text

from jobflow.api.flow_status import FlowPhase, StepPhase
from jobflow.api.job import JobPhase
from jobflow.api.jobflow import JobFlow
from jobflow.cli.display.step_rows import StepRow, requested_hours, step_rows, with_reason
from jobflow.cli.display.tree_layout import Branch, branches, guides
from jobflow.core.explain.progress import format_task_progress
from jobflow.core.text import format_duration

_GAP = "  "
_TABLE_GAP = "   "
_UNLIMITED = 1_000_000
_REQUESTED = "requested: "
_MIN_DETAIL = 12
"""Columns; less room for details shows nothing worth reading."""


@dataclass(frozen=True, slots=True)
class _Look:
    icon: str
    ascii_icon: str
    """The icon on a terminal that is not UTF-8."""
    style: str
    rank: int
    """Priority if there are too few lines: 0 is shown first."""


_LOOKS: dict[str, _Look] = {
    StepPhase.COMPLETED: _Look("✔", "+", "green", 3),
    FlowPhase.SUCCEED: _Look("✔", "+", "green", 3),
    StepPhase.FAILED: _Look("✖", "x", "red", 0),
    StepPhase.SKIPPED: _Look("⊘", "-", "dim", 4),
    StepPhase.WAITING: _Look("○", ".", "dim", 5),
    JobPhase.PENDING: _Look("◌", "o", "yellow", 2),
    JobPhase.RUNNING: _Look("●", "*", "cyan", 1),
}
_TRANSIENT = _Look("◍", "~", "yellow", 1)
"""Restarting, Completing, Aborting, Terminating."""


def _look(phase: str) -> _Look:
    return _LOOKS.get(phase, _TRANSIENT)


def style_of(phase: str) -> str:
    """Return the style of a phase."""
    return _look(phase).style


class Tree:
    """A flow as a tree. The layout is computed once, because a flow's spec never changes."""

    def __init__(self, flow: JobFlow, *, ascii_only: bool = False) -> None:
        self.flow = flow
        self._branches = branches(flow)
        self._ascii = ascii_only

    def __len__(self) -> int:
        """Number of lines of the whole tree."""
        return 1 + len(self._branches)

    def lines(self, now: datetime, width: int, height: int | None = None) -> Iterator[Text]:
        """Return the flow's line, then a line per step, cut to `width` columns. If `height` is too
        small, steps that failed or run are shown first, and the last line counts the others."""
        yield self._header(now, width)
        rows = {row.step: row for row in step_rows(self.flow)}
        visible = self._branches
        if height is not None and len(self) > height:
            visible = _most_important(visible, rows, max(height - 2, 0))
        visible_rows = [rows[branch.step.name] for branch in visible]
        levels = guides([branch.level for branch in visible])
        lefts = [self._left(*each) for each in zip(levels, visible_rows, strict=True)]
        yield from _draw_steps(lefts, visible_rows, visible, now, width)
        if len(visible) < len(self._branches) and height != 1:
            yield _hidden_steps(rows.values(), visible_rows)

    def _header(self, now: datetime, width: int) -> Text:
        status = self.flow.status
        phase = status.state.phase or FlowPhase.PENDING
        end = status.completion_time if self.flow.final else None
        duration = format_duration((end or now) - status.start_time) if status.start_time else ""
        line = Text.assemble(
            (self.flow.metadata.name, "bold"), _GAP, (phase, style_of(phase)), no_wrap=True
        )
        for part in (status.progress, duration):
            line.append(_GAP + part if part else "")
        if why := with_reason(status.state.reason, status.state.message):
            line.append(_GAP + why, style="dim")
        line.truncate(width, overflow="ellipsis")
        return line

    def _left(self, guide: str, row: StepRow) -> Text:
        look = _look(row.phase)
        if self._ascii:
            guide = guide.replace("├─", "|-").replace("└─", "`-").replace("│", "|")
        icon = look.ascii_icon if self._ascii else look.icon
        return Text.assemble((guide, "dim"), (icon, look.style), " ", row.step, no_wrap=True)


def _draw_steps(
    lefts: Sequence[Text],
    rows: Sequence[StepRow],
    branches: Sequence[Branch],
    now: datetime,
    width: int,
) -> Iterator[Text]:
    phase_width = max(map(cell_len, (StepPhase.COMPLETED, *(row.phase for row in rows))))
    duration_width = 6
    most = max(width - phase_width - duration_width - 2 * len(_GAP), 16)
    left_width = min(max((text.cell_len for text in lefts), default=0), most)
    room = max(width - left_width - phase_width - duration_width - 3 * len(_GAP), 0)
    for line, row, branch in zip(lefts, rows, branches, strict=True):
        line.truncate(left_width, overflow="ellipsis", pad=True)
        line.append(_GAP + row.phase.ljust(phase_width), style=style_of(row.phase))
        line.append(_GAP + format_duration(row.time_in_phase(now)).rjust(duration_width))
        text = _detail(row, now, brief=False)
        if cell_len(text) > room:
            text = _detail(row, now, brief=True)
        if room >= _MIN_DETAIL and (text := text or branch.follows):
            detail = Text(_GAP + text, style="red" if row.phase == StepPhase.FAILED else "dim")
            detail.truncate(room + len(_GAP), overflow="ellipsis")
            line.append_text(detail)
        line.rstrip()
        yield line


def _detail(row: StepRow, now: datetime, *, brief: bool) -> str:
    """Return what a line of the tree tells about a step beside its phase."""
    runs = row.runs(brief=brief)
    attempt = f"attempt {row.attempts}" if row.attempts > 1 else ""
    parts: Sequence[str]
    if row.phase == StepPhase.WAITING:
        why = (row.brief if brief else row.message) or row.condition.reason
        parts = (runs, ": ".join(filter(None, (_retry_time(row, now, brief=brief), why))))
    elif row.phase == StepPhase.FAILED:
        parts = (attempt, row.brief if brief else row.with_reason, row.outputs)
    elif row.is_completed:
        parts = (attempt, row.with_reason, "" if brief else row.case, runs, row.outputs)
    else:
        tasks = (", " if brief else "; ").join(format_task_progress(row.pods, brief=brief))
        parts = (attempt, runs, row.brief if brief else row.with_reason)
        parts = (*parts, "" if brief else row.case, tasks)
    return "; ".join(filter(None, parts))


def _retry_time(row: StepRow, now: datetime, *, brief: bool) -> str:
    """`in 12s` or `now`; the message that follows says that the step runs again, unless `brief`."""
    next_attempt = row.condition.next_attempt_time
    if next_attempt is None:
        return ""
    delay = next_attempt - now
    when = f"in {format_duration(delay)}" if delay >= timedelta(seconds=1) else "now"
    return f"retries {when}" if brief else when


def _most_important(steps: Sequence[Branch], rows: dict[str, StepRow], count: int) -> list[Branch]:
    ranked = sorted(range(len(steps)), key=lambda i: _look(rows[steps[i].step.name].phase).rank)
    return [steps[i] for i in sorted(ranked[:count])]


def _hidden_steps(rows: Iterable[StepRow], shown: Iterable[StepRow]) -> Text:
    """`… 12 Completed, 938 Waiting not shown`."""
    phases = Counter(row.phase for row in rows)
    phases.subtract(row.phase for row in shown)
    counts = [f"{count} {phase}" for phase, count in phases.most_common() if count > 0]
    return Text(f"… {', '.join(counts)} not shown", style="dim")


_STEP, _JOB, _PHASE, _START, _DURATION = range(5)
_HEADER = ("STEP", "JOB", "PHASE", "START", "DURATION")
_OPTIONAL = (_JOB, _START)
"""Columns that are left out on a narrow terminal, in this order."""


def table(flow: JobFlow, now: datetime, width: int | None = None) -> Iterator[Text]:
    """Return the final table: step, job, phase, start (local time), duration, message. Messages
    wrap in their column, or below the step if `width` leaves too little room. The last line sums up
    the requests of all jobs."""
    rows = step_rows(flow)
    cells = [_cells(row, now) for row in rows]
    messages = [row.result if row.is_completed else row.with_reason for row in rows]
    sizes = [max(map(cell_len, column)) for column in zip(_HEADER, *cells, strict=True)]
    columns = _fitting(sizes, width)
    indent = _offset(sizes, columns)
    room = _UNLIMITED if width is None else width - indent
    is_beside = room >= 2 * _MIN_DETAIL
    if not is_beside:
        indent, room = 4, max((width or 0) - 4, 2 * _MIN_DETAIL)
    last = "MESSAGE" if is_beside and any(messages) else ""
    yield Text(_joined(_HEADER, sizes, columns, last), style="bold")
    for line_cells, message in zip(cells, messages, strict=True):
        wrapped = textwrap.wrap(message, room, break_on_hyphens=False)
        beside = wrapped[:1] if is_beside else []
        line = Text(_joined(line_cells, sizes, columns, "".join(beside)))
        start = _offset(sizes, columns[: columns.index(_PHASE)])
        line.stylize(style_of(line_cells[_PHASE]), start, start + len(line_cells[_PHASE]))
        yield line
        yield from (Text(" " * indent + text) for text in wrapped[len(beside) :])
    hours = requested_hours(flow)
    if hours and (width is None or cell_len(hours) + len(_REQUESTED) <= width):
        yield Text(f"{_REQUESTED}{hours}", style="dim")


def _cells(row: StepRow, now: datetime) -> Sequence[str]:
    start = row.start.astimezone().strftime("%H:%M:%S") if row.start else ""
    return row.step, row.job, row.phase, start, format_duration(row.duration(now))


def _fitting(sizes: Sequence[int], width: int | None) -> Sequence[int]:
    """Return the columns that fit into `width`."""
    columns = list(range(len(sizes)))
    for column in _OPTIONAL:
        if width is not None and _offset(sizes, columns) - len(_TABLE_GAP) > width:
            columns.remove(column)
    return columns


def _offset(sizes: Sequence[int], columns: Sequence[int]) -> int:
    """Return where the column after these starts."""
    return sum(sizes[column] + len(_TABLE_GAP) for column in columns)


def _joined(cells: Sequence[str], sizes: Sequence[int], columns: Sequence[int], last: str) -> str:
    padded = (cells[i] + " " * (sizes[i] - cell_len(cells[i])) for i in columns)
    return _TABLE_GAP.join((*padded, last)).rstrip()
