"""A flow as a tree and as a table of text, drawn from its status."""

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import chain

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import FlowPhase, StepPhase
from jobflow.client.step_rows import StepRow, format_outputs, step_rows, with_reason
from jobflow.core.drawing.phase_looks import look_of, style_of
from jobflow.core.drawing.tree_layout import Branch, branches, guides
from jobflow.core.explain.progress import format_task_progress
from jobflow.core.pods.failure import describe_attempt
from jobflow.core.spec.items import describe_scaling
from jobflow.core.spec.step_commands import asks
from jobflow.core.text import format_duration, format_time, join_names, printable
from jobflow.core.timelines.spans import runs_of
from jobflow.core.work import may_run_steps
from jobflow.display.console import columns_of, fitting, join_cells, offset_of, print_lines

_GAP = "  "
_UNLIMITED = 1_000_000
"""Columns, lines and child flows if there is no terminal."""
_REQUESTED = "requested: "
_DURATION = 6  # columns of a duration in a tree
_MIN_ROOM = 12
"""Columns for a text, also if the terminal has less."""
_START = 30
"""Characters at the beginning of a message by which it is found in another."""
NO_CHILDREN: Mapping[str, JobFlow] = {}
FEW_CHILDREN = 8
"""Child flows of a step that a tree shows even if its items are not asked for."""
MOST_LIVE_CHILDREN = 50
"""Child flows whose steps a tree with a height shows, because it is drawn again and again."""


@dataclass(frozen=True, slots=True)
class _Line:
    row: StepRow
    place: str
    """The step or item, behind the items of the flows above it: `train`, `site/0/fit`."""
    level: int
    """Indentation, from 0."""
    follows: str = ""
    """Dependencies that the position does not show."""
    is_own: bool = True
    """Whether it is a step of the flow itself, not an item and not of a child flow."""


@dataclass(eq=False)
class Tree:
    """A flow as a tree. The layout is computed once, because a flow's spec never changes."""

    flow: JobFlow
    children: Mapping[str, JobFlow] = field(default_factory=dict)
    """Child flows below it, at any level, by name. Others may be among them."""
    _: KW_ONLY
    ascii_only: bool = False
    items: bool = False
    """Whether all items of steps are shown."""
    _layouts: dict[tuple[str, str], Sequence[Branch]] = field(default_factory=dict)
    """By name and UID of a flow."""

    def lines(
        self, now: datetime, width: int | None = None, height: int | None = None
    ) -> list[Text]:
        """Return the lines of the flow and of each step. If `height` is too small, steps that
        failed or run are shown first, and the last line counts the others."""
        columns = width or _UNLIMITED
        # a display with a height is drawn several times a second
        lines = self._lines(_UNLIMITED if height is None else MOST_LIVE_CHILDREN)
        told = [printable(line.row.condition.message) for line in lines if line.is_own]
        head = self._header(lines, now, columns, told)
        room = _UNLIMITED if height is None else max(height - len(head), 0)
        shown = _most_important(lines, room)  # a step has at least one line
        blocks = self._blocks(shown, now, columns)
        if len(shown) == len(lines) and sum(map(len, blocks)) <= room:
            return [*head, *chain(*blocks)]
        shown = _within(shown, [*map(len, blocks)], room - 1)
        # drawn again, because other guides and columns fit the steps that are left
        steps = [*chain(*self._blocks(shown, now, columns))]
        phases = Counter(line.row.phase for line in lines)
        phases.subtract(line.row.phase for line in shown)
        counts = [f"{count} {phase}" for phase, count in phases.most_common() if count > 0]
        hidden = Text(f"… {', '.join(counts)} not shown" if counts else "…", style="dim")
        hidden.truncate(columns, overflow="ellipsis")
        return [*head, *steps[: max(room - 1, 0)], hidden][:height]

    def part(self, place: str, now: datetime, width: int | None = None) -> list[Text]:
        """Return the lines of a step or an item (`train`, `train/3`, `site/0/fit`), its items and
        the steps of its child flow."""
        lines = [
            each for each in self._lines(_UNLIMITED) if f"{each.place}/".startswith(f"{place}/")
        ]
        lines = [replace(each, level=each.level - lines[0].level) for each in lines]
        return [*chain(*self._blocks(lines, now, width or _UNLIMITED))]

    def _lines(self, most: int) -> list[_Line]:
        """Return the lines of the flow and of at most so many child flows, level by level, and of
        each level first those that failed or run."""
        shown: dict[str, JobFlow] = {}
        level = [self.flow] if self.children else []
        while level and len(shown) < most:
            below: list[JobFlow] = []
            for condition in chain(*((flow.status.conditions or {}).values() for flow in level)):
                runs = runs_of(condition)
                if self.items or len(runs) <= FEW_CHILDREN:
                    below += [self.children[run.flow] for run in runs if run.flow in self.children]
            below.sort(
                key=lambda child: look_of(child.status.state.phase or FlowPhase.PENDING).rank
            )
            level = below[: most - len(shown)]
            shown |= {child.metadata.name: child for child in level}
        return [*self._lines_of(self.flow, shown, 0)]

    def _lines_of(
        self, flow: JobFlow, shown: Mapping[str, JobFlow], level: int, above: str = ""
    ) -> Iterator[_Line]:
        shows_items = self.items or bool(shown)
        rows = {row.step: row for row in step_rows(flow, items=shows_items)}
        key = (flow.metadata.name, flow.metadata.uid)  # a child of this name may be made anew
        if key not in self._layouts:
            self._layouts[key] = branches(flow)
        for branch in self._layouts[key]:
            row, at = rows[branch.step.name], level + branch.level
            few = may_run_steps(branch.step) and len(row.items) <= FEW_CHILDREN
            items = row.items if self.items or few else ()
            # a tree tells a failure once, at the deepest line that shows it
            below = [item.message for item in items] or _messages_of(row, shown)
            own = replace(row, message=without(row.message, below))
            yield _Line(own, above + row.step, at, branch.follows, is_own=not level)
            for item in items:
                told = _messages_of(item, shown)
                own = replace(item, message=without(item.message, told))
                yield _Line(own, above + item.step, at + 1, is_own=False)
                if (child := shown.get(item.condition.flow)) is not None:
                    yield from self._lines_of(child, shown, at + 2, f"{above}{item.step}/")
            if not row.items and (child := shown.get(row.condition.flow)) is not None:
                yield from self._lines_of(child, shown, at + 1, f"{above}{row.step}/")

    def header(self, now: datetime) -> list[Text]:
        """Return the line of the flow, with its whole message."""
        return self._header(self._lines(0), now, _UNLIMITED, ())

    def _header(
        self, lines: Sequence[_Line], now: datetime, width: int, told: Iterable[str]
    ) -> list[Text]:
        """Return the line of the flow. `told`: the messages of the steps below it."""
        status = self.flow.status
        phase = status.state.phase or FlowPhase.PENDING
        end = status.completion_time if self.flow.final else None
        duration = format_duration((end or now) - status.start_time) if status.start_time else ""
        line = Text.assemble((self.flow.metadata.name, "bold"), _GAP, (phase, style_of(phase)))
        for part in (status.progress, duration):
            line.append(_GAP + part if part else "")
        phases = Counter(line.row.phase for line in lines if line.is_own)
        outcomes = ""  # the progress tells the steps that are Completed
        if phases[StepPhase.FAILED] + phases[StepPhase.SKIPPED]:
            ended = (StepPhase.COMPLETED, StepPhase.FAILED, StepPhase.SKIPPED)
            outcomes = ", ".join(f"{phases[each]} {each.lower()}" for each in ended if phases[each])
        message = without(printable(status.state.message), told)
        why = printable(with_reason(status.state.reason, message))
        outputs = format_outputs(status.outputs or {})
        text = "; ".join(filter(None, (outcomes, printable(describe_scaling(self.flow)), why)))
        return _beside_or_below(line, text, outputs, Text(_GAP), width, "dim")

    def _blocks(self, lines: Sequence[_Line], now: datetime, width: int) -> list[list[Text]]:
        # text that does not fit beside the name is below it
        levels = [line.level for line in lines]
        stems, next_levels = guides(levels), [*levels, 0][1:]
        phase = max(map(cell_len, (StepPhase.COMPLETED, *(line.row.phase for line in lines))))
        most = max(width - phase - _DURATION - 2 * len(_GAP), 16)
        lefts = [
            len(stem) + 2 + cell_len(line.row.step) for stem, line in zip(stems, lines, strict=True)
        ]
        # one long name does not move the column of all others
        left = max((each for each in lefts if each <= most), default=most)
        blocks = []
        for line, stem, next_level in zip(lines, stems, next_levels, strict=True):
            # name, phase and duration in their columns, then the text that explains them
            row, look = line.row, look_of(line.row.phase)
            is_parent = next_level > line.level
            below = stem.replace("├─ ", "│  ").replace("└─ ", "   ") + ("│ " if is_parent else "  ")
            if self.ascii_only:
                stem = stem.replace("├─ ", "|- ").replace("└─ ", "`- ").replace("│", "|")
                below = below.replace("│", "|")
            icon, indent = look.ascii_icon if self.ascii_only else look.icon, Text(below, "dim")
            first, *more = _wrapped(row.step, width - len(below), at_hyphens=True) or [row.step]
            drawn = [Text.assemble((stem, "dim"), (icon, look.style), " ", first)]
            drawn += [indent + Text(part) for part in more]
            if drawn[-1].cell_len > left:  # the phase is in its column on the next line
                drawn.append(indent.copy())
            last = drawn.pop()
            last.pad_right(left - last.cell_len)
            last.append(_GAP + row.phase.ljust(phase), style=look.style)
            duration = format_duration(row.time_in_phase(now), tenths=True)
            last.append(_GAP + duration.rjust(_DURATION))
            style = "red" if row.phase == StepPhase.FAILED else "dim"
            has_ended = row.is_completed or row.phase == StepPhase.FAILED
            text, outputs = _detail(row, now), row.outputs if has_ended else ""
            text = text if text or outputs else line.follows
            told = _beside_or_below(last, text, outputs, indent, width, style)
            blocks.append([*drawn, *told, *self._failed_attempts(row, indent, width, now)])
        return blocks

    def _failed_attempts(
        self, row: StepRow, indent: Text, width: int, now: datetime
    ) -> Iterator[Text]:
        """Yield the lines of the attempts that failed before, if items were asked for."""
        for failed in (row.condition.failed_attempts or ()) if self.items else ():
            when = f" at {format_time(failed.time, now)}" if failed.time is not None else ""
            text = f"attempt {failed.attempt} failed{when}: {printable(describe_attempt(failed))}"
            yield from (indent + Text(t, "dim") for t in _wrapped(text, width - indent.cell_len))


def without(message: str, told: Iterable[str]) -> str:
    """Return a message without the one of `told` that it ends with. Long messages are cut, so it
    may have only the beginning of it."""
    whole = f": {message}"
    for each in filter(None, told):
        # the message ends with the told one only if nothing differs up to its end
        at = whole.find(f": {each[:_START]}")
        if at >= 0 and each.startswith(whole[at + 2 :].removesuffix("…")):
            return whole[2:at]
    return message


def _messages_of(row: StepRow, shown: Mapping[str, JobFlow]) -> list[str]:
    child = shown.get(row.condition.flow)
    conditions = (child.status.conditions or {}).values() if child is not None else ()
    return [printable(each.message) for each in conditions]


def _beside_or_below(
    line: Text, told: str, outputs: str, indent: Text, width: int, style: str
) -> list[Text]:
    room = width - line.cell_len - len(_GAP)
    text = Text(_with_outputs(told, outputs, room, width - indent.cell_len), style)
    if text.cell_len <= room:
        line.append(_GAP if text else "").append_text(text).rstrip()
        return [line]
    line.rstrip()
    parts = _wrapped(text.plain, width - indent.cell_len)
    return [line, *(indent + Text(part, style) for part in parts)]


def _with_outputs(told: str, outputs: str, room: int, below: int) -> str:
    """Return a text, and behind it the outputs. They may have 4 KiB, so they are cut: to what the
    text leaves of the `room` beside the step, or to the width of a line `below`."""
    left = room - cell_len(f"{told}; " if told else "")
    cut = Text(outputs)
    if cut.cell_len > left:
        cut.truncate(left if left >= _MIN_ROOM else max(below, _MIN_ROOM), overflow="ellipsis")
    return "; ".join(filter(None, (told, cut.plain)))


def _wrapped(text: str, room: int, *, at_hyphens: bool = False) -> list[str]:
    return textwrap.wrap(text, max(room, _MIN_ROOM), break_on_hyphens=at_hyphens)


def _detail(row: StepRow, now: datetime) -> str:
    attempt = f"attempt {row.attempts}" if row.attempts > 1 else ""
    parts: Sequence[str]
    if row.phase == StepPhase.WAITING:
        why = row.with_reason if asks(row.condition) else row.message or row.condition.reason
        retry, next_attempt = "", row.condition.next_attempt_time
        if next_attempt is not None:  # the message that follows says that the step runs again
            delay = next_attempt - now
            retry = f"in {format_duration(delay)}" if delay >= timedelta(seconds=1) else "now"
        parts = (row.runs, ": ".join(filter(None, (retry, why))))
    elif row.phase == StepPhase.FAILED:
        parts = (attempt, row.with_reason)
    elif row.is_completed:
        parts = (attempt, row.result)
    else:
        parts = (attempt, row.runs, row.with_reason, row.case, *format_task_progress(row.pods))
    return "; ".join(filter(None, (row.item, *parts)))


def _ranked(lines: Sequence[_Line]) -> list[int]:
    return sorted(range(len(lines)), key=lambda i: look_of(lines[i].row.phase).rank)


def _most_important(lines: Sequence[_Line], count: int) -> Sequence[_Line]:
    if count >= len(lines):
        return lines
    return [lines[i] for i in sorted(_ranked(lines)[:count])]


def _within(lines: Sequence[_Line], sizes: Sequence[int], room: int) -> Sequence[_Line]:
    """Return the most important lines whose texts of these `sizes` fit into `room`."""
    count = 0
    for i in _ranked(lines):
        # at least one: a step with a long message is better than none
        if room <= 0 or (count and sizes[i] > room):
            break
        room -= sizes[i]
        count += 1
    return _most_important(lines, count)


def print_trees(
    console: Console,
    flows: Iterable[JobFlow],
    children: Mapping[str, JobFlow],
    *,
    items: bool = False,
) -> None:
    now, ascii_only = datetime.now(UTC), console.options.ascii_only
    for flow in flows:
        tree = Tree(flow, children, ascii_only=ascii_only, items=items)
        print_lines(console, tree.lines(now, columns_of(console)))


_HEADER = ("STEP", "JOB", "PHASE", "START", "DURATION")
_OPTIONAL = ("JOB", "START")
"""Columns that are left out on a narrow terminal, in this order."""


def table(flow: JobFlow, now: datetime, width: int | None = None) -> Iterator[Text]:
    """Yield the final table, with local times. Messages wrap in their column, or below the step if
    `width` leaves too little room. The last line sums up the requests of all jobs."""
    rows = step_rows(flow)
    cells = [cells_of(row, now) for row in rows]
    sizes = {name: max(map(cell_len, (name, *(row[name] for row in cells)))) for name in _HEADER}
    sizes = fitting(sizes, _OPTIONAL, width)
    sizes["MESSAGE"] = 0  # the last column needs no padding
    indent = offset_of("MESSAGE", sizes)
    room = _UNLIMITED if width is None else width - indent
    # a narrow column of words is harder to read than lines below
    is_beside = room >= 2 * _MIN_ROOM
    if not is_beside:
        indent, room = 4, max((width or 0) - 4, 2 * _MIN_ROOM)
    messages = [report_of(row, room) for row in rows]
    heading = {name: name for name in _HEADER}
    heading["MESSAGE"] = "MESSAGE" if is_beside and any(messages) else ""
    yield Text(join_cells(heading, sizes), style="bold")
    start = offset_of("PHASE", sizes)
    for line_cells, message in zip(cells, messages, strict=True):
        wrapped = _wrapped(message, room)
        beside = wrapped[:1] if is_beside else []
        line = Text(join_cells({**line_cells, "MESSAGE": "".join(beside)}, sizes))
        phase = line_cells["PHASE"]
        line.stylize(style_of(phase), start, start + len(phase))
        yield line
        yield from (Text(" " * indent + text) for text in wrapped[len(beside) :])
    hours = requested_hours(flow)
    # nothing follows it, so it is left out rather than wrapped
    if hours and (width is None or cell_len(hours) + len(_REQUESTED) <= width):
        yield Text(f"{_REQUESTED}{hours}", style="dim")


def report_of(row: StepRow, room: int) -> str:
    """Return the message of a step, and the outputs of a Completed one, cut to these columns."""
    if row.is_completed:
        return _with_outputs(row.result, row.outputs, room, room)
    return row.with_reason


def cells_of(row: StepRow, now: datetime) -> Mapping[str, str]:
    """Return the other cells of a step in the final table, by their headings."""
    return {
        "STEP": row.step,
        "JOB": row.job,
        "PHASE": row.phase,
        "START": row.times.start.astimezone().strftime("%H:%M:%S") if row.times.start else "",
        "DURATION": format_duration(row.duration(now), tenths=True),
    }


def requested_hours(flow: JobFlow) -> str:
    """`1.25 core hours, 2.5 GiB hours and 0.5 GPU hours`: requests of all finished jobs."""
    conditions = (flow.status.conditions or {}).values()
    hours = [hours for each in conditions if (hours := each.requested_hours) is not None]
    # as numbers, because quantities of a status are texts
    totals = {
        unit: sum(float(getattr(each, field) or 0) for each in hours)
        for unit, field in (("core", "cpu"), ("GiB", "memory"), ("GPU", "gpu"))
    }
    return join_names(
        [
            f"{total:.4f}".rstrip("0").rstrip(".") + f" {unit} hours"
            for unit, total in totals.items()
            if total >= 0.00005
        ]
    )
