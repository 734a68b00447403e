"""Displays of running flows: live trees and tables on a terminal, a line per change elsewhere."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple, Self

from rich.console import Console, ConsoleDimensions, Group
from rich.live import Live
from rich.text import Text

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import StepPhase
from jobflow.client.flows.follow import Display
from jobflow.client.step_rows import step_rows, with_reason
from jobflow.core.drawing.phase_looks import style_of
from jobflow.core.names import root_label
from jobflow.core.text import printable
from jobflow.display.flow_table import FlowTable, level_of, phase_of
from jobflow.display.tree import Tree
from jobflow.kube.cache import Key, key_of

Wanted = Callable[[JobFlow], bool]
DrawLines = Callable[[datetime, int, int], Iterable[Text]]
"""Returns lines for the present time, a width and a height."""
Put = Callable[[Sequence[Text]], None]
"""Shows lines instead of those before."""
_FLOW = ""
"""The flow's own phase among the phases of its steps."""


class _Redrawn(Live):
    """Lines that are drawn again only if they have changed; else a terminal flickers."""

    def __init__(
        self, lines: DrawLines, console: Console, *, transient: bool, put: Put | None
    ) -> None:
        super().__init__(console=console, refresh_per_second=10, transient=transient)
        self._put = put or self._draw
        self.is_stale = True
        """Whether the flows have changed since the lines were made."""
        self._lines = lines
        self._made: tuple[datetime, ConsoleDimensions] | None = None
        self._drawn: list[Text] = []

    def refresh(self) -> None:
        now, size = datetime.now(UTC), self.console.size
        made = now.replace(microsecond=0), size  # durations are in seconds
        with self._lock:  # a thread of rich calls it too
            if not self.is_stale and made == self._made:
                return
            self.is_stale, self._made = False, made
            # a full last row would scroll the terminal
            lines = [*self._lines(now, size.width, max(size.height - 1, 1))]
            if lines != self._drawn:
                self._drawn = lines
                self._put(lines)

    def _draw(self, lines: Sequence[Text]) -> None:
        self.update(Group(*lines))
        super().refresh()


class LiveDisplay(Display):
    """Flows at the bottom of a terminal, or where `put` shows them; the display disappears at the
    end if it is `transient`."""

    def __init__(self, console: Console, *, transient: bool, put: Put | None = None) -> None:
        self._live = _Redrawn(self.lines, console, transient=transient, put=put)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._live.stop()

    def refresh(self) -> None:
        """Draw the flows if their lines have changed; rich calls it several times a second."""
        self._live.refresh()

    @abstractmethod
    def lines(self, now: datetime, width: int, height: int) -> Iterable[Text]:
        """Return at most `height` lines for a terminal of this width."""


class LiveTrees(LiveDisplay):
    """The trees of all flows, with the steps of their child flows, in their order; if there are too
    many, those that have not finished."""

    shows_children = True

    def __init__(self, console: Console, *, items: bool = False, put: Put | None = None) -> None:
        super().__init__(console, transient=True, put=put)
        self._ascii = console.options.ascii_only
        self._items = items
        self._trees: dict[Key, Tree] = {}
        self._children: dict[Key, dict[str, JobFlow]] = {}
        """Child flows by name, by namespace and root label."""

    def show(self, flow: JobFlow) -> None:
        key = key_of(flow)
        if key in self._trees:
            self._trees[key].flow = flow
        else:  # a new dict, because another thread draws the old one
            children = self._family(flow)
            tree = Tree(flow, children, ascii_only=self._ascii, items=self._items)
            self._trees = {**self._trees, key: tree}
        self._live.is_stale = True

    def show_child(self, flow: JobFlow) -> None:
        self._family(flow)[flow.metadata.name] = flow
        self._live.is_stale = True

    def _family(self, flow: JobFlow) -> dict[str, JobFlow]:
        return self._children.setdefault((flow.metadata.namespace, root_label(flow)), {})

    def lines(self, now: datetime, width: int, height: int) -> Iterator[Text]:
        trees = list(self._trees.values())
        hidden = max(len(trees) - (height - 1), 0) if len(trees) > height else 0
        if hidden:  # in their order, whichever are chosen
            open_first = sorted(range(len(trees)), key=lambda i: trees[i].flow.final)
            trees = [trees[i] for i in sorted(open_first[: len(trees) - hidden])]
        free = height - (1 if hidden else 0)
        whole = [tree.lines(now, width, free) for tree in trees]
        shares = [0] * len(trees)
        ranked = sorted(range(len(trees)), key=lambda i: trees[i].flow.final)
        # lines that a small tree does not need are for those behind it
        for left, i in zip(range(len(trees), 0, -1), ranked, strict=True):
            shares[i] = min(len(whole[i]), max(free // left, 1))
            free -= shares[i]
        for tree, lines, share in zip(trees, whole, shares, strict=True):
            # a tree chooses its lines for its height, so it is not cut
            yield from lines if share == len(lines) else tree.lines(now, width, share)
        if hidden:
            yield Text(f"… {hidden} more flows", style="dim")


class LiveTable(LiveDisplay):
    """A table of the flows that are `wanted` as they are now; its last state stays. Rows keep their
    order; if there are too many, those that have not finished come first, then the newest."""

    def __init__(self, console: Console, table: FlowTable, wanted: Wanted) -> None:
        super().__init__(console, transient=False)
        self._table = table
        self._wanted = wanted
        self._flows: dict[Key, JobFlow] = {}

    def show(self, flow: JobFlow) -> None:
        key = key_of(flow)
        if self._wanted(flow):
            self._flows[key] = flow
        else:  # it has left the phase that was asked for
            self._flows.pop(key, None)
        self._live.is_stale = True

    def remove(self, flow: JobFlow) -> None:
        self._flows.pop(key_of(flow), None)
        self._live.is_stale = True

    def lines(self, now: datetime, width: int, height: int) -> Iterator[Text]:
        flows = list(self._flows.values())  # a copy, because another thread draws it
        height = max(height, 2)  # a header and a flow
        hidden = len(flows) - (height - 2) if len(flows) > height - 1 else 0
        if hidden:
            ages = [now - (flow.metadata.creation_timestamp or now) for flow in flows]
            ranked = sorted(range(len(flows)), key=lambda i: (flows[i].final, ages[i]))
            shown = sorted(ranked[: len(flows) - hidden])
            phases = Counter(phase_of(flows[i]) for i in ranked[len(flows) - hidden :])
            flows = [flows[i] for i in shown]
        self._table.width = width
        yield from self._table.lines(flows, now)
        if hidden:
            counts = ", ".join(f"{count:,} {phase}" for phase, count in phases.most_common())
            yield Text(f"… {counts} not shown", style="dim")


class TableLog(Display):
    """A table of the flows that are `wanted`, then a row for each change that a column shows, for
    logs and pipes; a flow that was deleted has the phase Deleted."""

    def __init__(self, console: Console, table: FlowTable, wanted: Wanted) -> None:
        self._console = console
        self._table = table
        self._wanted = wanted
        self._flows: dict[Key, JobFlow] = {}
        self._by_uid: dict[str, JobFlow] = {}
        """The flows that are wanted."""
        self._levels: dict[Key, int] = {}
        self._is_printing = False

    def __enter__(self) -> Self:
        flows = [flow for flow in self._flows.values() if self._wanted(flow)]
        for flow in flows:
            self._level(flow)
        for line in self._table.lines(flows, datetime.now(UTC)):
            self._console.print(line, soft_wrap=True)
        self._is_printing = True
        return self

    def show(self, flow: JobFlow) -> None:
        key = key_of(flow)
        before, self._flows[key] = self._flows.get(key), flow
        if self._wanted(flow):
            self._by_uid[flow.metadata.uid] = flow
        else:
            self._by_uid.pop(flow.metadata.uid, None)
        # a watch also sends changes that no column shows
        if before is None or self._table.without_times(before) != self._table.without_times(flow):
            self._print(flow)

    def remove(self, flow: JobFlow) -> None:
        key = key_of(flow)
        del self._flows[key]
        self._print(flow, phase="Deleted")
        self._by_uid.pop(flow.metadata.uid, None)
        self._levels.pop(key, None)

    def _print(self, flow: JobFlow, phase: str = "") -> None:
        if self._is_printing and self._wanted(flow):
            level = self._level(flow)
            line = self._table.row(flow, datetime.now(UTC), phase=phase, level=level)
            self._console.print(line, soft_wrap=True)

    def _level(self, flow: JobFlow) -> int:
        key = key_of(flow)
        # it keeps its level if a flow above it is deleted first
        self._levels[key] = max(self._levels.get(key, 0), level_of(flow, self._by_uid))
        return self._levels[key]


class ChangeLog(Display):
    """One line per change of a phase, for logs and pipes. The time is that of the change by the
    status, or else the present one, except for a flow that is shown for the first time."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._phases: dict[Key, Mapping[str, str]] = {}

    def show(self, flow: JobFlow) -> None:
        key, name = key_of(flow), flow.metadata.name
        before, rows, status = self._phases.get(key), step_rows(flow), flow.status
        phases = before or {}
        # a flow that is shown for the first time may have changed long ago
        state, otherwise = status.state, None if before is None else datetime.now(UTC)
        self._phases[key] = {_FLOW: state.phase} | {row.step: row.phase for row in rows}
        changes = []
        for row in rows:
            if phases.get(row.step, StepPhase.WAITING) != row.phase:
                time = row.condition.last_transition_time or otherwise
                why = "" if row.is_completed else row.with_reason
                changes.append(_Change(time, f"{name}/{row.step}", row.phase, why))
        # a status that was read late has several changes
        changes.sort(key=lambda change: change.time or datetime.min.replace(tzinfo=UTC))
        if state.phase and phases.get(_FLOW) != state.phase:
            time = status.completion_time if flow.final else status.start_time
            why = printable(with_reason(state.reason, state.message))
            change = _Change(time or otherwise, name, state.phase, why)
            # a flow begins before its steps and ends after them
            changes.insert(len(changes) if flow.final else 0, change)
        for each in changes:
            clock = f"{each.time.astimezone():%H:%M:%S}" if each.time else " " * 8
            line = Text.assemble(f"{clock}  {each.subject}  ", (each.phase, style_of(each.phase)))
            line.append(f"  {each.why}" if each.why else "")
            self._console.print(line, soft_wrap=True)


class _Change(NamedTuple):
    time: datetime | None
    subject: str
    phase: str
    why: str


def tree_display(console: Console, *, items: bool = False) -> Display:
    """Return live trees on a terminal, a line for each change elsewhere."""
    return LiveTrees(console, items=items) if console.is_terminal else ChangeLog(console)
