"""Flows that are run on this machine: how they are shown while they run and at the end."""

from __future__ import annotations

from datetime import UTC, datetime

from rich.console import Console
from rich.text import Text

from jobflow.client.flows.follow import Display
from jobflow.client.sandbox import RunResult
from jobflow.display.console import columns_of, print_lines
from jobflow.display.failed_logs import failed_logs
from jobflow.display.live import ChangeLog, LiveTrees
from jobflow.display.tree import Tree, table


def display_on(console: Console) -> Display:
    """Return a live tree on a terminal, a line for each change elsewhere."""
    return LiveTrees(console) if console.is_terminal else ChangeLog(console)


def print_tables(result: RunResult, console: Console) -> None:
    """Print for each flow the tree (its first line if this is no terminal), failed logs, table."""
    now, ascii_only = datetime.now(UTC), console.options.ascii_only
    width = columns_of(console)
    for flow in result.flows:
        tree = Tree(flow, result.children, ascii_only=ascii_only)
        lines = (
            *(tree.lines(now, width) if width else tree.header(now)),
            *failed_logs(
                flow,
                result.failed_runs,
                width,
                children=result.children,
                ascii_only=ascii_only,
            ),
            Text(),
            *table(flow, now, width),
        )
        print_lines(console, lines)
        if flow is not result.flows[-1]:
            console.print()
    if result.logs is not None:
        console.print(Text(f"\nLogs: {result.logs}", style="dim"), soft_wrap=True)
