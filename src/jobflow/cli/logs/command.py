"""`jobflow logs`: the logs of a flow's pods."""

import math
from dataclasses import replace

from jobflow.api.duration import parse_duration
from jobflow.cli.logs.read import OutputClosed, read_logs
from jobflow.client.errors import FAILED, SUCCESS, UNUSABLE, CommandError
from jobflow.client.flows.find_flow import connect, find_flow
from jobflow.client.logs.selection import LogSelection, child_on_path, choose_step
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
        above: tuple[str, ...] = ()
        while step is not None and (found := child_on_path(flow, step)) is not None:
            parent, child, step = found
            above = (*above, parent)
            if not child:
                why = f'step "{"/".join(above)}" has not started, so it has no flow yet'
                raise CommandError(UNUSABLE, why)
            flow = await find_flow(client, child)
        own, index = choose_step(flow, step, follow=follow)
        selection = replace(selection, since_seconds=seconds, step=own, index=index, above=above)
        try:
            if not follow:
                return SUCCESS if await read_logs(client, flow, selection) else FAILED
            # only -f needs watches, whose import takes as long as a short log
            from jobflow.cli.logs.follow import follow_logs

            await follow_logs(client, flow, selection)
        except OutputClosed:
            pass  # as after `| head`: the reader has what it wanted
    return SUCCESS
