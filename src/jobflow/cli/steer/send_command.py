"""Commands about a flow, sent as vcctl sends them for vcjobs; the controller handles them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.meta import Object, ObjectMeta, OwnerReference
from jobflow.api.resources import COMMANDS, JOBFLOWS
from jobflow.api.volcano.command import Action, Command, encoded
from jobflow.cli.errors import FAILED, INTERRUPTED, SUCCESS, CommandError, Errors
from jobflow.cli.flags import ClusterOptions, Selection
from jobflow.cli.flows.find_flow import connect, find_each, run_command
from jobflow.cli.flows.wait import Goal, Waits
from jobflow.cli.signals import interruption, run_unless
from jobflow.kube.client import ApiError, Client, decoder


@dataclass(frozen=True, slots=True)
class Verb:
    """`jobflow cancel`, `suspend` and similar: their Command, refusal and goal."""

    name: str
    """`cancel`, also in `cancel requested`."""
    gerund: str
    """`cancelling`."""
    action: Action
    refusal: Callable[[JobFlow], str]
    """Returns why it makes no sense for the flow as it is now, or ""."""
    goal: Goal
    exit_code: Callable[[JobFlow], int] = lambda flow: SUCCESS
    """The exit code of `--wait` by the flow that has reached the goal."""


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


def refuse(flow: JobFlow, verb: Verb) -> str:
    """Return why the Command would have no effect on the flow as it is now, or ""."""
    deleted = flow.metadata.deletion_timestamp is not None
    why = "is being deleted" if deleted else verb.refusal(flow)
    return f"JobFlow {flow.metadata.name} {why}" if why else ""


async def send_verb(client: Client, flow: JobFlow, verb: Verb) -> str:
    """Send the Command and return its name. Raises CommandError if it would have no effect."""
    if why := refuse(flow, verb):
        raise CommandError(FAILED, why)
    return await create_command(client, flow, verb)


async def create_command(
    client: Client,
    flow: JobFlow,
    verb: Verb,
    *,
    message: str = "",
    annotations: dict[str, str] | None = None,
) -> str:
    """Create the Command, owned by the flow so that both are deleted together; return its name."""
    meta = flow.metadata
    target = OwnerReference(
        api_version=JOBFLOWS.api_version, kind=JOBFLOWS.kind, name=meta.name, uid=meta.uid
    )
    command = Command(
        metadata=ObjectMeta(
            generate_name=f"{meta.name}-{verb.action.lower()}-",
            namespace=meta.namespace,
            owner_references=[target],
            annotations=annotations,
        ),
        action=verb.action,
        target=target,
        message=message,
    )
    try:
        created = await client.create(COMMANDS, meta.namespace, encoded(command))
    except ApiError as error:
        raise CommandError(FAILED, _explained(error, verb, meta.namespace)) from None
    return decoder(Object).decode(created).metadata.name


def _explained(error: ApiError, verb: Verb, namespace: str) -> str:
    if error.namespace_gone or error.code not in (403, 404):
        return error.message
    if error.code == 403:
        return (
            f"{verb.gerund} needs the right to create commands.{COMMANDS.group} in namespace "
            f'"{namespace}": {error.message}'
        )
    return (
        f"this cluster has no Commands ({COMMANDS.api_version}), which {verb.gerund} needs: "
        "install Volcano"
    )


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
