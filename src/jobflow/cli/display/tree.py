"""Draws flows as trees and tables of text. It reads status and nothing else; it prints nothing."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from rich.cells import cell_len
from rich.text import Text

from jobflow.api.flow_status import FINAL_PHASES, FlowPhase, StepPhase
from jobflow.api.job import JobPhase
from jobflow.api.jobflow import JobFlow
from jobflow.cli.display.step_rows import StepRow, requested_hours, rows, told
from jobflow.cli.display.tree_layout import Branch, branches, guides
from jobflow.core.explain.progress import format_task_progress
from jobflow.core.text import format_duration

_GAP = "  "
_BETWEEN = "   "
_ENDLESS = 1_000_000
_HELD = "requested: "
_LEAST_DETAIL = 12
"""Fewer columns than this show nothing worth reading."""


@dataclass(frozen=True, slots=True)
class _Look:
    icon: str
    plain: str
    """The icon where the terminal is not UTF-8."""
    style: str
    rank: int
    """What is left out last where there is too little room: 0."""


_LOOKS: dict[str, _Look] = {
    StepPhase.COMPLETED: _Look("✔", "+", "green", 3),
    FlowPhase.SUCCEED: _Look("✔", "+", "green", 3),
    StepPhase.FAILED: _Look("✖", "x", "red", 0),
    StepPhase.SKIPPED: _Look("⊘", "-", "dim", 4),
    StepPhase.WAITING: _Look("○", ".", "dim", 5),
    JobPhase.PENDING: _Look("◌", "o", "yellow", 2),
    JobPhase.RUNNING: _Look("●", "*", "cyan", 1),
}
_UNSTEADY = _Look("◍", "~", "yellow", 1)
"""Restarting, Completing, Aborting, Terminating: on the way to something."""


def _look(phase: str) -> _Look:
    return _LOOKS.get(phase, _UNSTEADY)


def style_of(phase: str) -> str:
    """The colour of a phase."""
    return _look(phase).style


class Tree:
    """A flow as a tree. Which step stands where is computed once; a flow's spec never changes."""

    def __init__(self, flow: JobFlow, *, ascii_only: bool = False) -> None:
        self.flow = flow
        self._branches = branches(flow)
        self._ascii = ascii_only

    def __len__(self) -> int:
        """How many lines the whole tree has."""
        return 1 + len(self._branches)

    def lines(self, now: datetime, width: int, height: int | None = None) -> Iterator[Text]:
        """The flow's line, then a line a step, cut to `width` columns.

        Where `height` is too small, what runs and what failed is shown first, and a last line
        counts the rest.
        """
        yield self._header(now, width)
        standing = {row.step: row for row in rows(self.flow)}
        shown = self._branches
        if height is not None and len(self) > height:
            shown = _most_telling(shown, standing, max(height - 2, 0))
        drawn = guides([branch.level for branch in shown])
        lefts = [
            self._left(guide, standing[branch.step.name])
            for guide, branch in zip(drawn, shown, strict=True)
        ]
        columns = _Columns.of(lefts, [standing[branch.step.name] for branch in shown], width)
        for left, branch in zip(lefts, shown, strict=True):
            yield columns.line(left, standing[branch.step.name], branch, now)
        if len(shown) < len(self._branches) and height != 1:
            yield _rest(self._branches, shown, standing)

    def _header(self, now: datetime, width: int) -> Text:
        status = self.flow.status
        phase = status.state.phase or FlowPhase.PENDING
        end = status.completion_time if phase in FINAL_PHASES else None
        took = format_duration((end or now) - status.start_time) if status.start_time else ""
        line = Text.assemble(
            (self.flow.metadata.name, "bold"), _GAP, (phase, style_of(phase)), no_wrap=True
        )
        for part in (status.progress, took):
            line.append(_GAP + part if part else "")
        if why := told(status.state.reason, status.state.message):
            line.append(_GAP + why, style="dim")
        line.truncate(width, overflow="ellipsis")
        return line

    def _left(self, guide: str, row: StepRow) -> Text:
        look = _look(row.phase)
        if self._ascii:
            guide = guide.replace("├─", "|-").replace("└─", "`-").replace("│", "|")
        icon = look.plain if self._ascii else look.icon
        return Text.assemble((guide, "dim"), (icon, look.style), " ", row.step, no_wrap=True)


@dataclass(frozen=True, slots=True)
class _Columns:
    """How wide each column is."""

    left: int
    phase: int
    duration: int
    detail: int

    @classmethod
    def of(cls, lefts: Iterable[Text], standing: Iterable[StepRow], width: int) -> _Columns:
        left = max((text.cell_len for text in lefts), default=0)
        phase = max((cell_len(row.phase) for row in standing), default=0)
        phase = max(phase, len(StepPhase.COMPLETED))
        duration = 6
        left = min(left, max(width - phase - duration - 2 * len(_GAP), 16))
        rest = width - left - phase - duration - 3 * len(_GAP)
        return cls(left, phase, duration, max(rest, 0))

    def line(self, left: Text, row: StepRow, branch: Branch, now: datetime) -> Text:
        line = left.copy()
        line.truncate(self.left, overflow="ellipsis", pad=True)
        line.append(_GAP + row.phase.ljust(self.phase), style=style_of(row.phase))
        line.append(_GAP + format_duration(row.lasting(now)).rjust(self.duration))
        if self.detail >= _LEAST_DETAIL and (why := _why(row, now, self.detail) or branch.follows):
            detail = Text(_GAP + why, style="red" if row.phase == StepPhase.FAILED else "dim")
            detail.truncate(self.detail + len(_GAP), overflow="ellipsis")
            line.append_text(detail)
        line.rstrip()
        return line


def _why(row: StepRow, now: datetime, room: int) -> str:
    """What a line of the tree says of a step besides its phase, in `room` columns if it can."""
    said = _said(row, now, brief=False)
    return said if cell_len(said) <= room else _said(row, now, brief=True)


def _said(row: StepRow, now: datetime, *, brief: bool) -> str:
    runs = row.few_runs if brief else row.runs
    parts: tuple[str, ...]
    if row.phase == StepPhase.WAITING:
        why = (row.brief if brief else row.message) or row.reason
        parts = (runs, ": ".join(filter(None, (_again(row, now), why))))
    elif row.phase == StepPhase.FAILED:
        parts = (row.brief if brief else row.told, row.outputs)
    elif row.phase == StepPhase.COMPLETED:
        parts = (row.told, "" if brief else row.case, runs, row.outputs)
    else:
        tasks = (", " if brief else "; ").join(format_task_progress(row.pods, brief=brief))
        case = "" if brief else row.case
        parts = (runs, row.brief if brief else row.told, case, tasks)
    again = f"attempt {row.attempts}" if row.attempts > 1 else ""
    waits = row.phase == StepPhase.WAITING
    return "; ".join(filter(None, ("" if waits else again, *parts)))


def _again(row: StepRow, now: datetime) -> str:
    """`in 12s`: when it runs again, where it waits for that."""
    if row.next_attempt is None or row.next_attempt <= now:
        return ""
    return f"in {format_duration(row.next_attempt - now) or '0s'}"


def _most_telling(shown: Sequence[Branch], standing: dict[str, StepRow], room: int) -> list[Branch]:
    """The branches that say most about where the flow stands, in their order."""
    ranked = sorted(range(len(shown)), key=lambda i: _look(standing[shown[i].step.name].phase).rank)
    return [shown[i] for i in sorted(ranked[:room])]


def _rest(
    all_branches: Sequence[Branch], shown: Sequence[Branch], standing: dict[str, StepRow]
) -> Text:
    """`… 12 Completed and 938 Waiting are not shown`."""
    phases = Counter(standing[branch.step.name].phase for branch in all_branches)
    phases.subtract(standing[branch.step.name].phase for branch in shown)
    counts = [f"{count} {phase}" for phase, count in phases.most_common() if count > 0]
    return Text(f"… {', '.join(counts)} not shown", style="dim")


_STEP, _JOB, _PHASE, _START, _DURATION = range(5)
_HEADER = ("STEP", "JOB", "PHASE", "START", "DURATION")
_DROPPED = (_JOB, _START)
"""Columns that are left out, the first first, where the terminal is too narrow for all."""


def table(flow: JobFlow, now: datetime, width: int | None = None) -> Iterator[Text]:
    """The final table: step, job, phase, start (local time), duration; a message where one says
    why something is not Completed, or what it has left behind, wrapped in its column where `width`
    is given. Below it what the jobs held of the cluster, where that fits."""
    standing = rows(flow)
    cells = [_cells(row, now) for row in standing]
    sizes = [max(cell_len(line[i]) for line in (_HEADER, *cells)) for i in range(len(_HEADER))]
    columns = _columns(sizes, width)
    messages = [row.result if row.phase == StepPhase.COMPLETED else row.told for row in standing]
    last = "MESSAGE" if any(messages) and _room(sizes, columns, width) is not None else ""
    yield Text(_joined(_HEADER, sizes, columns, last), style="bold")
    for line, message in zip(cells, messages, strict=True):
        yield from _table_line(line, message, sizes, columns, width)
    held = requested_hours(flow)
    if held and (width is None or cell_len(held) + len(_HELD) <= width):
        yield Text(f"{_HELD}{held}", style="dim")


def _cells(row: StepRow, now: datetime) -> Sequence[str]:
    start = row.start.astimezone().strftime("%H:%M:%S") if row.start else ""
    return row.step, row.job, row.phase, start, format_duration(row.duration(now))


def _columns(sizes: Sequence[int], width: int | None) -> Sequence[int]:
    """Which columns are shown in `width`."""
    shown = list(range(len(sizes)))
    for column in _DROPPED:
        if width is not None and _indent(sizes, shown) - len(_BETWEEN) > width:
            shown.remove(column)
    return shown


def _indent(sizes: Sequence[int], columns: Sequence[int]) -> int:
    """Where the column behind these begins."""
    return sum(sizes[column] + len(_BETWEEN) for column in columns)


def _joined(cells: Sequence[str], sizes: Sequence[int], columns: Sequence[int], last: str) -> str:
    fixed = (cells[i] + " " * (sizes[i] - cell_len(cells[i])) for i in columns)
    return _BETWEEN.join((*fixed, last)).rstrip()


def _room(sizes: Sequence[int], columns: Sequence[int], width: int | None) -> int | None:
    """Columns that are left beside these for messages; None: too few, they go below."""
    room = _ENDLESS if width is None else width - _indent(sizes, columns)
    return room if room >= 2 * _LEAST_DETAIL else None


def _table_line(
    cells: Sequence[str],
    message: str,
    sizes: Sequence[int],
    columns: Sequence[int],
    width: int | None,
) -> Iterator[Text]:
    room = _room(sizes, columns, width)
    if room is not None:
        beside, below = _wrapped(message, room) or [""], []
    else:
        beside, below = [""], _wrapped(message, max((width or 0) - 4, 2 * _LEAST_DETAIL))
    line = Text(_joined(cells, sizes, columns, beside[0]))
    at = _indent(sizes, columns[: columns.index(_PHASE)])
    line.stylize(style_of(cells[_PHASE]), at, at + len(cells[_PHASE]))
    yield line
    yield from (Text(" " * _indent(sizes, columns) + more) for more in beside[1:])
    yield from (Text("    " + more) for more in below)


def _wrapped(text: str, width: int) -> list[str]:
    """Lines of whole words; a name with dashes is one."""
    return textwrap.wrap(text, width, break_on_hyphens=False)
