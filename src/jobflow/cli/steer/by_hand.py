"""`jobflow cancel FLOW --step`, `skip` and `retry --step`: what a Command on steps touches, and the
Command."""

from collections.abc import Sequence

from jobflow.api.flow.jobflow import JobFlow
from jobflow.cli.flags import StepOptions
from jobflow.cli.steer.retry_preview import lines_of, to_json
from jobflow.cli.steer.send_command import summarize
from jobflow.client.errors import SUCCESS
from jobflow.client.flows.find_flow import connect, find_flow
from jobflow.client.options import Connection
from jobflow.client.verbs.answer import outputs_annotation
from jobflow.client.verbs.by_hand import (
    SCALE_FLOW,
    StepVerb,
    check_scale,
    check_steps,
    read_command,
    send_steps,
)
from jobflow.display.formats import print_json


async def steer_steps(
    name: str,
    verb: StepVerb,
    paths: Sequence[str],
    connection: Connection,
    how: StepOptions,
    outputs: Sequence[str] = (),
    *,
    as_json: bool,
) -> int:
    """Print what the Command touches, and send it unless it is a dry run."""
    asked = read_command(verb, paths, how.message, outputs_annotation(outputs))
    async with await connect(connection) as client:
        flow = await find_flow(client, name)
        touched = await check_steps(client, flow, verb, asked)
        if not as_json:
            print(f"JobFlow {flow.metadata.name}: {verb.touches}")
            print("\n".join(lines_of(touched)), flush=True)
        command = "" if how.dry_run else await send_steps(client, flow, verb, asked)
    if as_json:
        print_json({**_summary(flow, command), verb.key: to_json(touched)})
    elif command:
        requested = f"{verb.verb.name} of {', '.join(paths)} requested (Command {command})"
        print(f"JobFlow {flow.metadata.name}: {requested}", flush=True)
    return SUCCESS


async def scale(
    name: str, path: str, most: int, connection: Connection, how: StepOptions, *, as_json: bool
) -> int:
    """Print how many jobs or items there may be at once, and send the Command unless it is a dry
    run."""
    message = f"{path}={most}".removeprefix("=")
    asked = read_command(SCALE_FLOW, [message], how.message)
    async with await connect(connection) as client:
        flow = await find_flow(client, name)
        before = await check_scale(client, flow, asked)
        if not as_json:
            what = f"{path}: at most" if path else "at most"
            rest = f"{most} at once, instead of {'any number' if before is None else before}"
            print(f"JobFlow {flow.metadata.name}: {what} {rest}", flush=True)
        command = "" if how.dry_run else await send_steps(client, flow, SCALE_FLOW, asked)
    if as_json:
        change = {"step": path, "parallelism": most, "before": before}
        print_json({**_summary(flow, command), "scales": [change]})
    elif command:
        print(f"JobFlow {flow.metadata.name}: scale requested (Command {command})", flush=True)
    return SUCCESS


def _summary(flow: JobFlow, command: str) -> dict[str, str]:
    """Return the flow and the Command as JSON; only the names of the flow without a Command."""
    meta = flow.metadata
    names = {"namespace": meta.namespace, "name": meta.name}
    return summarize(flow, command) if command else names
