"""`jobflow get`: a table of flows, one flow as a tree, or objects for programs."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import FlowPhase
from jobflow.api.resources import FLOW_GROUP
from jobflow.cli.console import columns_of, make_console, print_lines
from jobflow.cli.display.flow_table import FlowTable, phase_of
from jobflow.cli.errors import UNUSABLE, CommandError, Errors
from jobflow.cli.flags import Connection, GetOutput, Selection
from jobflow.cli.flows.find_cron import means_crons
from jobflow.cli.flows.find_flow import (
    FoundFlow,
    check_exclusive,
    check_namespace,
    connect,
    describe_place,
    find_named,
    read_flows,
    to_flow,
    unique_names,
)
from jobflow.cli.show.objects import print_objects
from jobflow.core.suggest import Suggester, did_you_mean
from jobflow.kube.cache import key_of
from jobflow.kube.client import Client


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


async def get_flows(
    names: Sequence[str], connection: Connection, selection: Selection, options: GetOptions
) -> int:
    """Print flows, or CronJobFlows, and return the exit code. Raises CommandError."""
    if means_crons(names):
        return await _get_crons(names, connection, selection, options)
    check_exclusive(names, selection)
    names, options = unique_names(names), _checked(options)
    output = options.output_of(names)
    if options.items and output is not GetOutput.TREE:
        raise CommandError(UNUSABLE, f"--items lists items in a tree: leave out -o {output}")
    async with await connect(connection) as client:
        if options.watch:
            from jobflow.cli.show.watch import watch_flows

            return await watch_flows(client, names, selection, options)
        errors = Errors()
        found = await _find(client, names, selection, errors)
        if not found and not names and not errors.code:
            await check_namespace(client, selection)
        place = describe_place(client, selection)
        children: Mapping[str, JobFlow] = {}
        if output is GetOutput.TREE:
            from jobflow.cli.flows.children import read_children

            children = await read_children(client, (each.flow for each in found))
    found = [each for each in found if options.includes(each.flow)]
    if output in (GetOutput.JSON, GetOutput.YAML):
        if found or len(names) != 1:
            print_objects([each.raw for each in found], output, single=len(names) == 1)
    elif not found and not errors.code:
        selected = options.phase is not None or selection.selector is not None
        print(f"no JobFlow {place}{' matches' if selected else ''}", file=sys.stderr)
    elif found:
        print_flows([each.flow for each in found], output, selection, options, children)
    return errors.code


async def _get_crons(
    names: Sequence[str], connection: Connection, selection: Selection, options: GetOptions
) -> int:
    from jobflow.cli.show.crons import get_crons

    if options.phase is not None or options.watch or options.items:
        raise CommandError(UNUSABLE, "--phase, --watch and --items are for flows")
    async with await connect(connection) as client:
        return await get_crons(client, names, selection, options.output)


def _checked(options: GetOptions) -> GetOptions:
    """Return the options with the phase in the case of the API. Raises CommandError if there is no
    such phase."""
    wanted = options.phase
    if wanted is None:
        return options
    for phase in FlowPhase:
        if phase.lower() == wanted.lower():
            return replace(options, phase=phase)
    guess = did_you_mean(Suggester([*FlowPhase]).nearest(wanted))
    phases = ", ".join(FlowPhase)
    sentence = f'"{wanted}" is not a phase of a flow: use one of {phases}{guess}'
    raise CommandError(UNUSABLE, sentence)


async def _find(
    client: Client, names: Sequence[str], selection: Selection, errors: Errors
) -> list[FoundFlow]:
    if names:
        return await find_named(client, names, errors)
    found: list[FoundFlow] = []
    for each in await read_flows(client, selection):
        try:
            found.append(FoundFlow(to_flow(each), each))
        except CommandError as error:
            errors.add(error)
    return sorted(found, key=lambda each: key_of(each.flow))


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
        from jobflow.cli.display.tree import Tree

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
