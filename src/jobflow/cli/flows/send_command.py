"""Commands about a flow, sent as vcctl sends them for vcjobs; the controller handles them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from jobflow.api.command import Action, Command, encoded
from jobflow.api.jobflow import JobFlow
from jobflow.api.meta import Object, ObjectMeta, OwnerReference
from jobflow.api.resources import COMMANDS, JOBFLOWS
from jobflow.cli.errors import FAILED, INTERRUPTED, SUCCESS, CommandError
from jobflow.cli.flags import ClusterOptions
from jobflow.cli.flows.find_flow import find_flow, run_command
from jobflow.cli.flows.wait import Goal, waiter
from jobflow.cli.signals import interruption, run_unless
from jobflow.kube.client import ApiError, Client, decoder


@dataclass(frozen=True, slots=True)
class Verb:
    """`jobflow cancel`, `suspend`, `resume` or `retry`: its Command, refusal and goal."""

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


def send(verb: Verb, name: str, options: ClusterOptions, *, wait: bool = False) -> int:
    """Send the Command, wait if asked to, and return the exit code."""
    return run_command(send_and_wait(verb, name, options, wait=wait))


async def send_and_wait(verb: Verb, name: str, options: ClusterOptions, *, wait: bool) -> int:
    """Send the Command, wait if asked to, and return the exit code. Raises CommandError."""
    async with await Client.from_kubeconfig(options.kubeconfig) as client:
        flow = await find_flow(client, options.namespace or client.namespace, name)
        deleted = flow.metadata.deletion_timestamp is not None
        if why := "is being deleted" if deleted else verb.refusal(flow):
            raise CommandError(FAILED, f"JobFlow {name} {why}")
        command = await _create(client, flow, verb)
        if not options.as_json:
            print(f"JobFlow {name}: {verb.name} requested (Command {command})", flush=True)
        code = SUCCESS
        if wait:
            with interruption() as stop:
                async with waiter(client, flow, verb.goal, quiet=options.as_json) as waiting:
                    if not await run_unless(stop, waiting.until_reached()):
                        return INTERRUPTED
                    flow = waiting.flow
            code = verb.exit_code(flow)
        if options.as_json:
            print(json.dumps(_summary(flow, command), indent=2, ensure_ascii=False))
        return code


async def _create(client: Client, flow: JobFlow, verb: Verb) -> str:
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
        ),
        action=verb.action,
        target=target,
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


def _summary(flow: JobFlow, command: str) -> dict[str, str]:
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
