"""A table of flows, as `kubectl get` prints one."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

from rich.cells import cell_len
from rich.text import Text

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import FlowPhase
from jobflow.core.drawing.phase_looks import style_of
from jobflow.core.text import format_duration, printable
from jobflow.display.console import fitting, join_cells, offset_of

COLUMNS = ("NAME", "PHASE", "REASON", "PROGRESS", "DURATION", "AGE")
_OPTIONAL = ("AGE", "REASON", "DURATION", "PROGRESS")
"""Columns that are left out on a narrow terminal, in this order."""
Cells = Mapping[str, str]


def phase_of(flow: JobFlow) -> str:
    # one that no controller has handled yet is Pending
    return flow.status.state.phase or FlowPhase.PENDING


class FlowTable:
    """A table whose columns grow with the flows and never shrink, so that rows that are added later
    stay below their headings."""

    def __init__(
        self, width: int | None = None, *, namespaces: bool = False, wide: bool = False
    ) -> None:
        self.width = width
        """That of the terminal, which may change."""
        names = (*(("NAMESPACE",) if namespaces else ()), *COLUMNS)
        self._names = (*names, *(("MESSAGE",) if wide else ()))
        self._sizes = self._shown = {name: cell_len(name) for name in self._names}

    def lines(self, flows: Iterable[JobFlow], now: datetime) -> list[Text]:
        """Return the header and a line for each flow; child flows are indented below theirs."""
        rows = [self._cells(flow, now, level=level) for flow, level in _with_levels(flows)]
        self._grow(rows)
        names = {name: name for name in self._names}
        header = self._cut(Text(join_cells(names, self._shown), style="bold"))
        return [header, *map(self._line, rows)]

    def row(self, flow: JobFlow, now: datetime, *, phase: str = "", level: int = 0) -> Text:
        """Return the line of one more flow, or of one that has changed."""
        cells = self._cells(flow, now, phase=phase, level=level)
        self._grow([cells])
        return self._line(cells)

    def without_times(self, flow: JobFlow) -> Cells:
        """Return the cells of a flow that change only with the flow."""
        # any time, because the cells that it changes are left out
        cells = self._cells(flow, datetime.max.replace(tzinfo=UTC))
        return {name: cell for name, cell in cells.items() if name not in ("DURATION", "AGE")}

    def _grow(self, rows: Iterable[Cells]) -> None:
        for row in rows:
            for name, cell in row.items():
                self._sizes[name] = max(self._sizes[name], cell_len(cell))
        sizes = dict(self._sizes)
        # a message may be longer than any terminal, so it is cut and leaves out no column
        message = {"MESSAGE": sizes.pop("MESSAGE")} if "MESSAGE" in sizes else {}
        self._shown = fitting(sizes, _OPTIONAL, self.width) | message

    def _line(self, cells: Cells) -> Text:
        line, phase = Text(join_cells(cells, self._shown)), cells["PHASE"]
        start = offset_of("PHASE", self._shown)
        line.stylize(style_of(phase), start, start + len(phase))
        return self._cut(line)

    def _cut(self, line: Text) -> Text:
        if self.width is not None:
            line.truncate(self.width, overflow="ellipsis")
        return line

    def _cells(self, flow: JobFlow, now: datetime, *, phase: str = "", level: int = 0) -> Cells:
        meta, status = flow.metadata, flow.status
        end = status.completion_time if flow.final else now
        ran = end - status.start_time if status.start_time and end else None
        age = now - meta.creation_timestamp if meta.creation_timestamp else None
        cells = {
            "NAMESPACE": meta.namespace,
            "NAME": "  " * level + meta.name,
            "PHASE": phase or phase_of(flow),
            "REASON": status.state.reason,
            # a flow that no controller has handled has no progress
            "PROGRESS": status.progress or f"0/{len(flow.all_steps)}",
            "DURATION": format_duration(ran),
            "AGE": format_duration(age),
            "MESSAGE": status.state.message,
        }
        return {name: printable(cells[name]) for name in self._names}


def level_of(flow: JobFlow, known: Mapping[str, JobFlow]) -> int:
    """Return the number of flows above a child flow. `known`: flows by UID."""
    above: set[str] = set()
    while (owner := flow.metadata.controller) is not None and owner.uid in known:
        if owner.uid in above:
            break  # flows that own each other
        above.add(owner.uid)
        flow = known[owner.uid]
    return len(above)


def _with_levels(flows: Iterable[JobFlow]) -> Iterator[tuple[JobFlow, int]]:
    """Yield the flows in their order, each followed by its child flows, with their level from 0."""
    listed = [*flows]
    known = {flow.metadata.uid for flow in listed} - {""}
    # a child may be listed before its parent, by its name
    below: dict[str, list[JobFlow]] = {}
    for flow in listed:
        owner = flow.metadata.controller
        parent = owner.uid if owner is not None and owner.uid in known else ""
        below.setdefault(parent, []).append(flow)
    tops = [*below.pop("", ())]
    while tops or below:  # flows that own each other have none above them
        pending = [(each, 0) for each in reversed(tops or below.pop(next(iter(below))))]
        tops = []
        while pending:
            flow, level = pending.pop()
            yield flow, level
            pending += [(each, level + 1) for each in reversed(below.pop(flow.metadata.uid, []))]
