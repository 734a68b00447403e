"""`jobflow get`: a table of flows, one flow as a tree, or objects for programs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import FlowPhase
from jobflow.cli.flags import GetOutput
from jobflow.cli.show.objects import print_objects
from jobflow.cli.show.print_flows import GetOptions, print_flows
from jobflow.client.errors import UNUSABLE, CommandError, Errors
from jobflow.client.flows.find_cron import means_crons
from jobflow.client.flows.find_flow import (
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
from jobflow.client.options import Connection, Selection
from jobflow.core.suggest import Suggester, did_you_mean
from jobflow.kube.cache import key_of
from jobflow.kube.client import Client


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
            from jobflow.client.flows.children import read_children

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
