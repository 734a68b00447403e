"""`jobflow logs`: the logs of a flow's pods."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from jobflow.api.duration import parse_duration
from jobflow.api.flow.jobflow import JobFlow
from jobflow.cli.logs.read import read_logs
from jobflow.client.errors import FAILED, SUCCESS, UNUSABLE, CommandError
from jobflow.client.flows.find_flow import connect, find_flow
from jobflow.client.logs.selection import LogSelection, child_on_path, choose_step
from jobflow.client.options import Connection
from jobflow.display.log_lines import OutputClosed
from jobflow.kube.client import Client


@dataclass(frozen=True, slots=True)
class LogsOptions:
    """Flags of `jobflow logs` beside those of a connection."""

    step: str | None = None
    """`STEP` or `STEP/INDEX`; of a child flow with the steps above it: `train/0/fit`."""
    follow: bool = False
    since: str | None = None
    selection: LogSelection = LogSelection()


async def print_logs(name: str, connection: Connection, options: LogsOptions) -> int:
    """Print the logs and return the exit code. Raises CommandError."""
    selection = replace(options.selection, since_seconds=_seconds(options.since))
    complete = True
    async with await connect(connection) as client:
        flow, above, text = await _locate(client, await find_flow(client, name), options.step)
        step, index = choose_step(flow, text, follow=options.follow)
        selection = replace(selection, step=step, index=index, above=above)
        try:
            if options.follow:
                from jobflow.cli.logs.follow import follow_logs

                await follow_logs(client, flow, selection)
            else:
                complete = await read_logs(client, flow, selection)
        except OutputClosed:
            return SUCCESS
    return SUCCESS if complete else FAILED


async def _locate(
    client: Client, flow: JobFlow, text: str | None
) -> tuple[JobFlow, tuple[str, ...], str | None]:
    """Return for `train/0/fit` the child flow of `train/0`, the path to it, and `fit`. Raises
    CommandError."""
    above: tuple[str, ...] = ()
    while text is not None and (found := child_on_path(flow, text)) is not None:
        step, child, text = found
        if not child:
            why = f'step "{"/".join((*above, step))}" has not started, so it has no flow yet'
            raise CommandError(UNUSABLE, why)
        flow, above = await find_flow(client, child), (*above, step)
    return flow, above, text


def _seconds(since: str | None) -> int | None:
    """Return whole seconds, at least 1. Raises CommandError."""
    if since is None:
        return None
    try:
        return max(math.ceil(parse_duration(since)), 1)
    except ValueError as error:
        raise CommandError(UNUSABLE, f'--since "{since}" {error}') from None
