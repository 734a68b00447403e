"""`jobflow cancel FLOW --step`, `skip` and `retry --step`: what a Command on steps touches, and the
Command."""

from collections.abc import Mapping, Sequence
from typing import Any

from jobflow.cli.flags import StepOptions
from jobflow.cli.steer.send_command import summarize
from jobflow.client.errors import SUCCESS
from jobflow.client.flows.find_flow import connect, find_flow
from jobflow.client.options import Connection
from jobflow.client.verbs.answer import outputs_annotation
from jobflow.client.verbs.by_hand import (
    SCALE_FLOW,
    StepVerb,
    Touched,
    check_scale,
    check_steps,
    read_command,
    send_steps,
)
from jobflow.core.text import format_duration
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
            _print(flow.metadata.name, verb, touched)
        command = "" if how.dry_run else await send_steps(client, flow, verb, asked)
    meta = flow.metadata
    if as_json:
        place = {"namespace": meta.namespace, "name": meta.name}
        whole: Mapping[str, Any] = summarize(flow, command) if command else place
        print_json({**whole, verb.key: [_to_json(each) for each in touched]})
    elif command:
        requested = f"{verb.verb.name} of {', '.join(paths)} requested (Command {command})"
        print(f"JobFlow {meta.name}: {requested}", flush=True)
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
    meta = flow.metadata
    if as_json:
        place = {"namespace": meta.namespace, "name": meta.name}
        whole: Mapping[str, Any] = summarize(flow, command) if command else place
        change = {"step": path, "parallelism": most, "before": before}
        print_json({**whole, "scales": [change]})
    elif command:
        print(f"JobFlow {meta.name}: scale requested (Command {command})", flush=True)
    return SUCCESS


def _print(name: str, verb: StepVerb, touched: Sequence[Touched]) -> None:
    places = [f"{each.step} ({each.count})" if each.count else each.step for each in touched]
    width = max(map(len, places))
    print(f"JobFlow {name}: {verb.touches}")
    for each, place in zip(touched, places, strict=True):
        ran = f"  its completed jobs ran for {format_duration(each.lost)}" if each.lost else ""
        print(f"  {place:<{width}}  {each.phase}{ran}", flush=True)


def _to_json(each: Touched) -> dict[str, Any]:
    found: dict[str, Any] = {"step": each.step, "phase": each.phase}
    if each.count:
        found["count"] = each.count
    if each.lost is not None:
        found["completedSeconds"] = int(each.lost.total_seconds())
    return found
