"""`jobflow get`: flows as a table, as trees, or as objects for programs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import FlowPhase
from jobflow.cli.flags import GetOptions
from jobflow.client.errors import UNUSABLE, CommandError, Errors
from jobflow.client.flows import find_flow
from jobflow.client.flows.find_cron import means_crons
from jobflow.client.options import Connection, Selection
from jobflow.core.suggest import Suggester, did_you_mean
from jobflow.display.console import columns_of, make_console, print_lines
from jobflow.display.flow_table import FlowTable, phase_of
from jobflow.display.formats import GetOutput
from jobflow.display.objects import full_name, print_raw
from jobflow.kube.cache import key_of


async def get_flows(
    names: Sequence[str], connection: Connection, selection: Selection, options: GetOptions
) -> int:
    # with a flag that only flows have, `checked` refuses cjf
    if means_crons(names) and options.phase is None and not (options.items or options.step):
        from jobflow.cli.show.crons import get_crons

        async with await find_flow.connect(connection) as client:
            return await get_crons(client, names, selection, options.output)
    names, options = checked(names, selection, options)
    async with await find_flow.connect(connection) as client:
        errors = Errors()
        found: list[find_flow.FoundFlow] = []
        if names:
            found = await find_flow.find_named(client, names, errors)
        else:
            for each in await find_flow.read_flows(client, selection):
                try:  # one flow that a foreign definition let through hides no other
                    found.append(find_flow.FoundFlow(find_flow.to_flow(each), each))
                except CommandError as error:
                    errors.add(error)
            # as kubectl lists them
            found.sort(key=lambda each: key_of(each.flow))
        if not found and not names and not errors.code:
            # an empty list is the same for a namespace that does not exist
            await find_flow.check_namespace(client, selection)
        place = find_flow.describe_place(client, selection)
        children: Mapping[str, JobFlow] = {}
        if options.output is GetOutput.TREE:
            from jobflow.client.flows.children import read_children  # a tree alone shows them

            children = await read_children(client, (each.flow for each in found))
    found = [each for each in found if is_wanted(options, each.flow)]
    if options.output in (GetOutput.JSON, GetOutput.YAML):
        if found or len(names) != 1:
            print_raw([each.raw for each in found], options.output, single=len(names) == 1)
    elif not found and not errors.code:
        selected = options.phase is not None or selection.selector is not None
        print(f"no JobFlow {place}{' matches' if selected else ''}", file=sys.stderr)
    elif found:
        print_flows([each.flow for each in found], selection, options, children)
    return errors.code


def checked(
    names: Sequence[str], selection: Selection, options: GetOptions
) -> tuple[Sequence[str], GetOptions]:
    """Return each FLOW once, and the options with the format and the phase in the case of the API.
    Raises CommandError if they contradict each other."""
    if means_crons(names):
        raise CommandError(UNUSABLE, "--phase, --watch, --items and --step are for flows")
    find_flow.check_exclusive(names, selection)
    names, wanted, phase = find_flow.unique_names(names), options.phase, None
    if wanted is not None:
        phase = next((each for each in FlowPhase if each.lower() == wanted.lower()), None)
        if phase is None:
            guess = did_you_mean(Suggester([*FlowPhase]).nearest(wanted))
            phases = ", ".join(FlowPhase)
            sentence = f'"{wanted}" is not a phase of a flow: use one of {phases}{guess}'
            raise CommandError(UNUSABLE, sentence)
    if options.step is not None and (len(names) != 1 or options.watch):
        why = "leave out --watch" if options.watch else "name one"
        raise CommandError(UNUSABLE, f"--step shows a part of the tree of one FLOW: {why}")
    is_tree = len(names) == 1 or options.items
    output = options.output or (GetOutput.TREE if is_tree else GetOutput.TABLE)
    if options.items and output is not GetOutput.TREE:
        raise CommandError(UNUSABLE, f"--items lists items in a tree: leave out -o {output}")
    if options.step is not None and output is not GetOutput.TREE:
        outputs = f"`jobflow outputs {names[0]} {options.step} -o json`"
        why = f"--step shows a part of a tree: leave out -o {output}; {outputs} prints its outputs"
        raise CommandError(UNUSABLE, why)
    return names, replace(options, phase=phase, output=output)


def is_wanted(options: GetOptions, flow: JobFlow) -> bool:
    return options.phase is None or phase_of(flow) == options.phase


def print_flows(
    flows: Sequence[JobFlow],
    selection: Selection,
    options: GetOptions,
    children: Mapping[str, JobFlow],
) -> None:
    if options.output is GetOutput.NAME:
        print("\n".join(map(full_name, flows)))
        return
    console = make_console()
    if options.output is GetOutput.TREE:
        from jobflow.display.tree import Tree, print_trees  # a table needs none of these

        if options.step is not None:
            # an item is in no tree without items
            items, ascii_only = options.items or "/" in options.step, console.options.ascii_only
            tree = Tree(flows[0], children, ascii_only=ascii_only, items=items)
            if not (lines := tree.part(options.step, datetime.now(UTC), columns_of(console))):
                find_flow.find_item(tree.flow, options.step)
                why = f'JobFlow {tree.flow.metadata.name} has no "{options.step}" yet'
                raise CommandError(UNUSABLE, why)
            print_lines(console, lines)
            return
        print_trees(console, flows, children, items=options.items)
        return
    table = make_table(selection, options, columns_of(console))
    print_lines(console, table.lines(flows, datetime.now(UTC)))


def make_table(selection: Selection, options: GetOptions, width: int | None) -> FlowTable:
    wide = options.output is GetOutput.WIDE
    return FlowTable(width, namespaces=selection.all_namespaces, wide=wide)
