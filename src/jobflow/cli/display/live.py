"""Shows flows while they run: a live tree on a terminal, a line a change elsewhere. It decides
nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Protocol

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from jobflow.api.flow_status import StepPhase
from jobflow.api.jobflow import JobFlow
from jobflow.cli.display.step_rows import rows, told
from jobflow.cli.display.tree import Tree, style_of

FlowKey = tuple[str, str]
"""Namespace and name of a flow."""
_WHOLE = ""
"""Stands for the flow itself beside its steps."""


class Display(Protocol):
    """Somewhere to follow flows on; a context manager for as long as they run."""

    def __enter__(self) -> Display: ...

    def __exit__(self, *exc: object) -> None: ...

    def show(self, flow: JobFlow) -> None:
        """A flow as it now stands."""


class Nothing:
    """Shows nothing: the answer comes at the end."""

    def __enter__(self) -> Nothing:
        return self

    def __exit__(self, *exc: object) -> None:
        return None

    def show(self, flow: JobFlow) -> None:
        return None


class LiveTrees:
    """The trees of all flows, drawn again and again at the foot of a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._trees: dict[FlowKey, Tree] = {}
        self._live = Live(
            self, console=console, refresh_per_second=10, transient=True, auto_refresh=True
        )

    def __enter__(self) -> LiveTrees:
        self._live.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._live.__exit__(None, None, None)

    def show(self, flow: JobFlow) -> None:
        key = (flow.metadata.namespace, flow.metadata.name)
        if key in self._trees:
            self._trees[key].flow = flow
        else:
            tree = Tree(flow, ascii_only=self._console.options.ascii_only)
            self._trees = {**self._trees, key: tree}

    def refresh(self) -> None:
        """Draw now, and not when it is time again."""
        self._live.refresh()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self.lines(datetime.now(UTC), options.max_width, max(options.size.height - 1, 1))

    def lines(self, now: datetime, width: int, height: int) -> Iterator[Text]:
        """The trees within `height` lines; flows that have not ended are the first to be shown."""
        trees = sorted(self._trees.values(), key=lambda tree: tree.flow.final)
        hidden = 0
        if len(trees) > height:
            hidden = len(trees) - (height - 1)
            trees = trees[: height - 1]
        room = height - (1 if hidden else 0)
        for heights_left, tree in zip(range(len(trees), 0, -1), trees, strict=True):
            share = min(len(tree), max(room // heights_left, 1))
            room -= share
            yield from tree.lines(now, width, share)
        if hidden:
            yield Text(f"… {hidden} more flows", style="dim")


class ChangeLog:
    """One line a change of a step's or a flow's phase, for logs and pipes: no escape codes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._seen: dict[FlowKey, Mapping[str, str]] = {}

    def __enter__(self) -> ChangeLog:
        return self

    def __exit__(self, *exc: object) -> None:
        return None

    def show(self, flow: JobFlow) -> None:
        key = (flow.metadata.namespace, flow.metadata.name)
        seen = self._seen.get(key, {})
        standing = {row.step: row for row in rows(flow)}
        state = flow.status.state
        changed = bool(state.phase) and seen.get(_WHOLE) != state.phase
        if changed and not flow.final:
            self._line(flow.metadata.name, state.phase, told(state.reason, state.message))
        for step, row in standing.items():
            if seen.get(step, StepPhase.WAITING) != row.phase:
                why = "" if row.phase == StepPhase.COMPLETED else row.told
                self._line(f"{flow.metadata.name}/{step}", row.phase, why)
        if changed and flow.final:
            self._line(flow.metadata.name, state.phase, told(state.reason, state.message))
        self._seen[key] = {_WHOLE: state.phase} | {s: row.phase for s, row in standing.items()}

    def _line(self, what: str, phase: str, why: str) -> None:
        clock = datetime.now().astimezone().strftime("%H:%M:%S")
        line = Text.assemble(f"{clock}  {what}  ", (phase, style_of(phase)))
        self._console.print(line.append(f"  {why}" if why else ""), soft_wrap=True)
