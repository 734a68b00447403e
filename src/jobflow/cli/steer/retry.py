"""`jobflow retry`: what would run again, the question before long work is repeated, the Command."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from jobflow.cli.flags import ClusterOptions, RetryOptions
from jobflow.cli.run_command import run_command
from jobflow.cli.steer.send_command import send_to
from jobflow.client.errors import FAILED, SUCCESS, CommandError, Errors
from jobflow.client.flows.find_flow import connect, find_each
from jobflow.client.options import Selection
from jobflow.client.verbs.command import refuse
from jobflow.client.verbs.lifecycle import RETRY, RETRY_TOLERATED


def retry(
    names: Sequence[str] | None, selection: Selection, options: ClusterOptions, how: RetryOptions
) -> int:
    """Retry each flow, or print what that would run again, and return the worst exit code."""
    return run_command(retry_flows(names or (), selection, options, how))


async def retry_flows(
    names: Sequence[str], selection: Selection, options: ClusterOptions, how: RetryOptions
) -> int:
    """Retry each flow, or print what that would run again. A flow that is refused does not stop the
    others. Raises CommandError if no flow can be found at all."""
    verb = RETRY_TOLERATED if how.tolerated else RETRY
    errors = Errors()
    async with await connect(options) as client:
        flows = await find_each(client, names, selection, errors)
        if how.dry_run:
            from jobflow.cli.steer.retry_preview import make_previews, print_previews

            for flow in flows:
                if why := refuse(flow, verb):
                    errors.add(CommandError(FAILED, why))
            possible = [flow for flow in flows if not refuse(flow, verb)]
            found = await make_previews(client, possible, how)
            print_previews(found, options, single=len(names) == 1)
            return errors.code
        if not how.yes and sys.stdin.isatty():
            from jobflow.cli.steer.retry_preview import ask, make_previews

            possible = [flow for flow in flows if not refuse(flow, verb)]
            code = await ask(await make_previews(client, possible, how))
            if code != SUCCESS:
                return code
        return await send_to(client, flows, verb, options, errors, len(names), wait=how.wait)
