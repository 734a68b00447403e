"""A table of flows, as `kubectl get` prints one: a line each, wide or narrow."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from rich.cells import cell_len
from rich.text import Text

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import FlowPhase
from jobflow.core.drawing.phase_looks import style_of
from jobflow.core.text import format_duration, printable

_GAP = "   "
_COLUMNS = ("NAME", "PHASE", "REASON", "PROGRESS", "DURATION", "AGE")
_OPTIONAL = ("AGE", "REASON", "DURATION", "PROGRESS")
"""Columns that are left out on a narrow terminal, in this order."""

Cells = tuple[str, ...]


def phase_of(flow: JobFlow) -> str:
    """Return the phase of a flow; one that no controller has handled yet is Pending."""
    return flow.status.state.phase or FlowPhase.PENDING


class FlowTable:
    """A table whose columns grow with the flows and never shrink, so that rows that are added later
    stay below their headings. `width` is that of the terminal."""

    def __init__(
        self, width: int | None = None, *, namespaces: bool = False, wide: bool = False
    ) -> None:
        self._width = width
        self._namespaces = namespaces
        self._wide = wide
        self._names = (
            *(("NAMESPACE",) if namespaces else ()),
            *_COLUMNS,
            *(("MESSAGE",) if wide else ()),
        )
        self._sizes = [cell_len(name) for name in self._names]
        self._columns = self._fitting()

    def resize(self, width: int) -> None:
        """Fit the columns into the width of a terminal that has changed."""
        self._width = width
        self._columns = self._fitting()

    def lines(self, flows: Iterable[JobFlow], now: datetime) -> list[Text]:
        """Return the header and a line for each flow; child flows are indented below theirs."""
        rows = [self._cells(flow, now, level=level) for flow, level in _with_levels(flows)]
        self._grow(rows)
        return [self._header(), *map(self._line, rows)]

    def row(self, flow: JobFlow, now: datetime, *, phase: str = "", level: int = 0) -> Text:
        """Return the line of one more flow, or of one that has changed; `phase` replaces its
        phase, `level` indents a child flow."""
        cells = self._cells(flow, now, phase=phase, level=level)
        self._grow([cells])
        return self._line(cells)

    def without_times(self, flow: JobFlow) -> Cells:
        """Return the cells of a flow that change only with the flow."""
        cells = zip(self._names, self._cells(flow, datetime.max.replace(tzinfo=UTC)), strict=True)
        return tuple(cell for name, cell in cells if name not in ("DURATION", "AGE"))

    def _grow(self, rows: Sequence[Cells]) -> None:
        widest = [max(map(cell_len, column)) for column in zip(*rows, strict=True)] or self._sizes
        self._sizes = list(map(max, self._sizes, widest))
        self._columns = self._fitting()

    def _fitting(self) -> list[int]:
        """Return the columns that fit into the width."""
        columns = [i for i, name in enumerate(self._names) if name != "MESSAGE"]
        for name in _OPTIONAL:
            needed = sum(self._sizes[i] + len(_GAP) for i in columns) - len(_GAP)
            if self._width is not None and needed > self._width:
                columns.remove(self._names.index(name))
        return columns + ([len(self._names) - 1] if self._wide else [])

    def _header(self) -> Text:
        return self._cut(Text(self._joined(self._names), style="bold"))

    def _line(self, cells: Cells) -> Text:
        line, phase = Text(self._joined(cells)), self._names.index("PHASE")
        start = sum(self._sizes[i] + len(_GAP) for i in self._columns if i < phase)
        line.stylize(style_of(cells[phase]), start, start + len(cells[phase]))
        return self._cut(line)

    def _joined(self, cells: Cells) -> str:
        padded = (cells[i] + " " * (self._sizes[i] - cell_len(cells[i])) for i in self._columns)
        return _GAP.join(padded).rstrip()

    def _cut(self, line: Text) -> Text:
        if self._width is not None:
            line.truncate(self._width, overflow="ellipsis")
        return line

    def _cells(self, flow: JobFlow, now: datetime, *, phase: str = "", level: int = 0) -> Cells:
        meta, status = flow.metadata, flow.status
        end = status.completion_time if flow.final else now
        ran = end - status.start_time if status.start_time and end else None
        age = now - meta.creation_timestamp if meta.creation_timestamp else None
        texts = (
            *((meta.namespace,) if self._namespaces else ()),
            "  " * level + meta.name,
            phase or phase_of(flow),
            status.state.reason,
            status.progress or f"0/{len(flow.all_steps)}",
            format_duration(ran),
            format_duration(age),
            *((status.state.message,) if self._wide else ()),
        )
        return tuple(map(printable, texts))


def level_of(flow: JobFlow, known: Mapping[str, JobFlow]) -> int:
    """Return the number of flows above a child flow that are known, by their UID."""
    above: set[str] = set()
    while (owner := flow.metadata.controller) is not None and owner.uid in known:
        if owner.uid in above:
            break  # flows that own each other
        above.add(owner.uid)
        flow = known[owner.uid]
    return len(above)


def _with_levels(flows: Iterable[JobFlow]) -> Iterator[tuple[JobFlow, int]]:
    """Yield the flows in their order, each followed by its child flows, with their level from 0. A
    child whose parent is not among the flows has none."""
    listed = [*flows]
    known = {flow.metadata.uid for flow in listed} - {""}
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
