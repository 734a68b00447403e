"""Displays of running flows: live trees on a terminal, one line per change elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Self

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from jobflow.api.flow_status import StepPhase
from jobflow.api.jobflow import JobFlow
from jobflow.cli.display.step_rows import step_rows, with_reason
from jobflow.cli.display.tree import Tree, style_of

FlowKey = tuple[str, str]
"""Namespace and name of a flow."""
_FLOW = ""
"""The flow's own phase among the phases of its steps."""


class Display(AbstractContextManager["Display"]):
    """Shows nothing; its subclasses show flows. A context manager while the flows run."""

    def __exit__(self, *exc: object) -> None:
        return None

    def show(self, flow: JobFlow) -> None:
        """Show the flow as it is now."""


class LiveTrees(Display):
    """The trees of all flows, redrawn at the bottom of a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._trees: dict[FlowKey, Tree] = {}
        self._live = Live(self, console=console, refresh_per_second=10, transient=True)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._live.__exit__(None, None, None)

    def show(self, flow: JobFlow) -> None:
        key = (flow.metadata.namespace, flow.metadata.name)
        if key in self._trees:
            self._trees[key].flow = flow
        else:  # a new dict, because another thread draws the old one
            tree = Tree(flow, ascii_only=self._console.options.ascii_only)
            self._trees = {**self._trees, key: tree}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self.lines(datetime.now(UTC), options.max_width, max(options.size.height - 1, 1))

    def lines(self, now: datetime, width: int, height: int) -> Iterator[Text]:
        """Return at most `height` lines; flows that have not finished come first."""
        trees = sorted(self._trees.values(), key=lambda tree: tree.flow.final)
        hidden = max(len(trees) - (height - 1), 0) if len(trees) > height else 0
        trees = trees[: len(trees) - hidden]
        free = height - (1 if hidden else 0)
        for trees_left, tree in zip(range(len(trees), 0, -1), trees, strict=True):
            share = min(len(tree), max(free // trees_left, 1))
            free -= share
            yield from tree.lines(now, width, share)
        if hidden:
            yield Text(f"… {hidden} more flows", style="dim")


class ChangeLog(Display):
    """One line per change of a phase, for logs and pipes: no escape codes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._phases: dict[FlowKey, Mapping[str, str]] = {}

    def show(self, flow: JobFlow) -> None:
        key, name = (flow.metadata.namespace, flow.metadata.name), flow.metadata.name
        before = self._phases.get(key, {})
        rows, state = step_rows(flow), flow.status.state
        self._phases[key] = {_FLOW: state.phase} | {row.step: row.phase for row in rows}
        changes = [
            (f"{name}/{row.step}", row.phase, "" if row.is_completed else row.with_reason)
            for row in rows
            if before.get(row.step, StepPhase.WAITING) != row.phase
        ]
        if state.phase and before.get(_FLOW) != state.phase:
            change = (name, state.phase, with_reason(state.reason, state.message))
            changes.insert(len(changes) if flow.final else 0, change)
        clock = datetime.now().astimezone().strftime("%H:%M:%S")
        for subject, phase, why in changes:
            line = Text.assemble(f"{clock}  {subject}  ", (phase, style_of(phase)))
            self._console.print(line.append(f"  {why}" if why else ""), soft_wrap=True)
