"""`jobflow cancel FLOW --step` and similar: what a Command on steps touches, and the Command."""

from collections.abc import Sequence

import msgspec

from jobflow.cli.flags import ClusterOptions, StepOptions
from jobflow.cli.steer.send_command import summarize
from jobflow.client.errors import SUCCESS
from jobflow.client.flows.find_flow import connect, find_flow
from jobflow.client.verbs.by_hand import StepVerb, Touched, check_steps, send_steps
from jobflow.display.formats import print_json


async def steer_steps(
    name: str, verb: StepVerb, paths: Sequence[str], options: ClusterOptions, how: StepOptions
) -> int:
    """Print what the Command touches, and send it unless it is a dry run."""
    async with await connect(options) as client:
        flow = await find_flow(client, name)
        touched = await check_steps(client, flow, verb, paths)
        if not options.as_json:
            _print(flow.metadata.name, verb, touched)
        command = ""
        if how.dry_run is None:
            command = await send_steps(client, flow, verb, paths, how.message)
    if not options.as_json:
        if command:
            requested = f"{verb.verb.name} of {', '.join(paths)} requested (Command {command})"
            print(f"JobFlow {flow.metadata.name}: {requested}", flush=True)
        return SUCCESS
    steps = {verb.key: msgspec.to_builtins(touched)}
    meta = flow.metadata
    place = {"namespace": meta.namespace, "name": meta.name}
    print_json({**(summarize(flow, command) if command else place), **steps})
    return SUCCESS


def _print(name: str, verb: StepVerb, touched: Sequence[Touched]) -> None:
    places = [f"{each.step} ({each.count})" if each.count else each.step for each in touched]
    width = max(map(len, places))
    print(f"JobFlow {name}: {verb.touches}")
    for each, place in zip(touched, places, strict=True):
        print(f"  {place:<{width}}  {each.phase}", flush=True)
