"""Flows as names, trees or a table."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import FLOW_GROUP
from jobflow.cli.flags import GetOutput
from jobflow.client.options import Selection
from jobflow.display.console import columns_of, make_console, print_lines
from jobflow.display.flow_table import FlowTable, phase_of


@dataclass(frozen=True, slots=True)
class GetOptions:
    """Flags of `jobflow get` beside those of a connection and a selection."""

    output: GetOutput | None = None
    """None: a tree of one named flow, else a table."""
    phase: str | None = None
    watch: bool = False
    items: bool = False

    def includes(self, flow: JobFlow) -> bool:
        """Return whether a flow is in the phase that was asked for."""
        return self.phase is None or phase_of(flow) == self.phase

    def output_of(self, names: Collection[str]) -> GetOutput:
        """Return the format for these FLOWs."""
        is_tree = len(names) == 1 or self.items
        return self.output or (GetOutput.TREE if is_tree else GetOutput.TABLE)


def print_flows(
    flows: Sequence[JobFlow],
    output: GetOutput,
    selection: Selection,
    options: GetOptions,
    children: Mapping[str, JobFlow],
) -> None:
    """Print flows as names, trees or a table."""
    if output is GetOutput.NAME:
        print("\n".join(map(full_name, flows)))
        return
    console, now = make_console(), datetime.now(UTC)
    width = columns_of(console)
    if output is GetOutput.TREE:
        from jobflow.display.tree import Tree

        for flow in flows:
            ascii_only = console.options.ascii_only
            tree = Tree(flow, children, ascii_only=ascii_only, items=options.items)
            print_lines(console, tree.lines(now, width))
        return
    table = flow_table(selection, output, width)
    print_lines(console, table.lines(flows, now))


def flow_table(selection: Selection, output: GetOutput, width: int | None) -> FlowTable:
    """Return an empty table with the columns that were asked for."""
    wide = output is GetOutput.WIDE
    return FlowTable(width, namespaces=selection.all_namespaces, wide=wide)


def full_name(flow: JobFlow) -> str:
    """Return `jobflow.flow.volcano.sh/train`, as `kubectl get -o name` prints it."""
    return f"jobflow.{FLOW_GROUP}/{flow.metadata.name}"
