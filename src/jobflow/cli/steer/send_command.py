"""Commands about a flow, sent as vcctl sends them for vcjobs; the controller handles them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from jobflow.api.flow.jobflow import JobFlow
from jobflow.cli.flags import ClusterOptions
from jobflow.cli.run_command import run_command
from jobflow.client.errors import FAILED, INTERRUPTED, CommandError, Errors
from jobflow.client.flows.find_flow import connect, find_each
from jobflow.client.options import Selection
from jobflow.client.signals import interruption, run_unless
from jobflow.client.verbs.command import Verb, send_verb
from jobflow.kube.client import Client

if TYPE_CHECKING:  # it is imported if somebody waits
    from jobflow.cli.steer.wait_for_goal import Waits


def send(
    verb: Verb,
    names: Sequence[str] | None,
    selection: Selection,
    options: ClusterOptions,
    *,
    wait: bool = False,
) -> int:
    """Send the Command to each flow, wait if asked to, and return the worst exit code."""
    return run_command(send_and_wait(verb, names or (), selection, options, wait=wait))


async def send_and_wait(
    verb: Verb,
    names: Sequence[str],
    selection: Selection,
    options: ClusterOptions,
    *,
    wait: bool,
) -> int:
    """Send the Command to each flow, wait if asked to, and return the worst exit code. A flow that
    refuses it does not stop the others. Raises CommandError if no flow can be found at all."""
    errors = Errors()
    async with await connect(options) as client:
        flows = await find_each(client, names, selection, errors)
        return await send_to(client, flows, verb, options, errors, len(names), wait=wait)


async def send_to(
    client: Client,
    flows: Sequence[JobFlow],
    verb: Verb,
    options: ClusterOptions,
    errors: Errors,
    named: int,
    *,
    wait: bool,
) -> int:
    """Send the Command to flows that were found, wait if asked to, and return the worst exit code.
    `errors`: those so far; `named`: how many flows the command names."""
    sent: list[tuple[JobFlow, str]] = []
    for flow in flows:
        try:
            command = await send_verb(client, flow, verb)
        except CommandError as error:
            errors.add(error)
            continue
        sent.append((flow, command))
        if not options.as_json:
            requested = f"{verb.name} requested (Command {command})"
            print(f"JobFlow {flow.metadata.name}: {requested}", flush=True)
    if wait and sent:
        from jobflow.cli.steer.wait_for_goal import Waits

        waits = Waits([flow for flow, _ in sent], verb.goal, quiet=options.as_json)
        with interruption() as stop:
            if not await run_unless(stop, waits.until_ended(client)):
                return INTERRUPTED
        commands = [command for _, command in sent]
        sent = list(_results(verb, waits, commands, errors))
    if options.as_json:
        _print_summaries(sent, single=named == 1)
    return errors.code


def _results(
    verb: Verb, waits: Waits, commands: Sequence[str], errors: Errors
) -> Iterator[tuple[JobFlow, str]]:
    """Yield the flows that reached the goal, and add the errors of the others."""
    for each, command in zip(waits, commands, strict=True):
        if each.failure:
            errors.add(CommandError(FAILED, each.failure))
        else:
            errors.add_code(verb.exit_code(each.flow))
            yield each.flow, command


def _print_summaries(sent: Sequence[tuple[JobFlow, str]], *, single: bool) -> None:
    """Print an object for a single flow that was named, if it was not refused, else a list."""
    summaries = [summarize(flow, command) for flow, command in sent]
    if single and not summaries:
        return
    print(json.dumps(summaries[0] if single else summaries, indent=2, ensure_ascii=False))


def summarize(flow: JobFlow, command: str) -> dict[str, str]:
    """Return the JSON about a flow that a Command was sent to."""
    meta, status = flow.metadata, flow.status
    return {
        "namespace": meta.namespace,
        "name": meta.name,
        "command": command,
        "phase": status.state.phase,
        "reason": status.state.reason,
        "message": status.state.message,
        "progress": status.progress,
    }
