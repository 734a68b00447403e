"""`jobflow logs`: the logs of a flow's pods."""

import math
from dataclasses import replace

from jobflow.api.duration import parse_duration
from jobflow.cli.logs.printer import LogPrinter, OutputClosed
from jobflow.client.errors import FAILED, SUCCESS, UNUSABLE, CommandError
from jobflow.client.flows.find_flow import connect, find_flow
from jobflow.client.logs.read import read_logs, select_step
from jobflow.client.logs.selection import LogSelection
from jobflow.client.options import Connection


async def print_logs(
    name: str,
    connection: Connection,
    selection: LogSelection,
    *,
    step: str | None = None,
    follow: bool = False,
    since: str | None = None,
) -> int:
    """Print the logs. `step`: STEP or STEP/INDEX; of a child flow with the steps above it, as in
    train/0/fit. `since`: a duration."""
    try:
        # the API takes whole seconds, and refuses 0
        seconds = None if since is None else max(math.ceil(parse_duration(since)), 1)
    except ValueError as error:
        raise CommandError(UNUSABLE, f'--since "{since}" {error}') from None
    async with await connect(connection) as client:
        flow = await find_flow(client, name)
        selection = replace(selection, since_seconds=seconds)
        flow, selection = await select_step(client, flow, step, selection, follow=follow)
        try:
            if not follow:
                printer = LogPrinter([step.name for step in flow.all_steps])
                return SUCCESS if await read_logs(client, flow, selection, printer) else FAILED
            # only -f needs watches, whose import takes as long as a short log
            from jobflow.cli.logs.follow import follow_logs

            await follow_logs(client, flow, selection)
        except OutputClosed:
            pass  # as after `| head`: the reader has what it wanted
    return SUCCESS
