"""Asks for something to be done with a flow, by a Command, as vcctl does for vcjobs. It decides
nothing: the controller does, and refuses what comes too late."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from jobflow.api.command import Action, Command, encoded
from jobflow.api.jobflow import JobFlow
from jobflow.api.meta import Object, ObjectMeta, OwnerReference
from jobflow.api.resources import COMMANDS, JOBFLOWS
from jobflow.cli.exit_codes import FAULTY, FINE, INTERRUPTED
from jobflow.cli.flows.find_flow import Stopped, ended, found_flow
from jobflow.cli.flows.wait import Until, following, state_of
from jobflow.cli.signals import interruption, unless
from jobflow.kube.client import ApiError, Client, decoder


@dataclass(frozen=True, slots=True)
class Order:
    """What the user asks for."""

    flow: str
    namespace: str | None
    kubeconfig: str | None
    wait: bool
    as_json: bool


@dataclass(frozen=True, slots=True)
class Verb:
    """What can be asked for."""

    name: str
    """Of the command line, also in `asked to …`."""
    doing: str
    """`cancelling`."""
    action: Action
    refused: Callable[[JobFlow], str]
    """Why it makes no sense for the flow as it stands; empty where it does."""
    until: Until
    """What is waited for."""
    code: Callable[[JobFlow], int] = lambda flow: FINE
    """The exit code once that has come, by how the flow then stands."""


def ask(verb: Verb, order: Order) -> int:
    """Ask for it: 0; 1 where that is refused or makes no sense, 2 where there is no such flow or no
    cluster."""
    return ended(verb.name, asked(verb, order))


async def asked(verb: Verb, order: Order) -> int:
    """The same within a loop. Raises Stopped."""
    async with await Client.from_kubeconfig(order.kubeconfig) as client:
        namespace = order.namespace or client.namespace
        flow = await found_flow(client, namespace, order.flow)
        if flow.metadata.deletion_timestamp is not None:
            raise Stopped(FAULTY, f"JobFlow {order.flow} is being deleted")
        if why := verb.refused(flow):
            raise Stopped(FAULTY, f"JobFlow {order.flow} {why}")
        command = await _send(client, flow, verb)
        if not order.as_json:
            print(f"JobFlow {order.flow}: asked to {verb.name} (Command {command})", flush=True)
        code = FINE
        if order.wait:
            with interruption() as stop:
                async with following(client, flow, verb.until, quiet=order.as_json) as follower:
                    if not await unless(stop, follower.until_done()):
                        return INTERRUPTED
                    flow = follower.flow
            code = verb.code(flow)
        if order.as_json:
            print(json.dumps(_answer(flow, command), indent=2, ensure_ascii=False))
        return code


async def _send(client: Client, flow: JobFlow, verb: Verb) -> str:
    """Make the Command; returns its name. Raises Stopped.

    Its owner is the flow, so that a Command that nobody carries out goes with it.
    """
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
        made = await client.create(COMMANDS, meta.namespace, encoded(command))
    except ApiError as error:
        raise Stopped(FAULTY, _why_not(error, verb, meta.namespace)) from None
    return decoder(Object).decode(made).metadata.name


def _why_not(error: ApiError, verb: Verb, namespace: str) -> str:
    if error.not_found and not error.namespace_gone:
        return (
            f"this cluster serves no Commands ({COMMANDS.api_version}), which Volcano brings: "
            f"there is no {verb.doing} a flow without them"
        )
    if error.code == 403 and not error.namespace_gone:
        return (
            f"{verb.doing} takes the right to create commands.{COMMANDS.group} in the namespace "
            f'"{namespace}": {error.message}'
        )
    return error.message


def over_already(flow: JobFlow) -> str:
    """That the flow has ended; empty where it has not."""
    return f"is over already: {state_of(flow)}" if flow.final else ""


def _answer(flow: JobFlow, command: str) -> dict[str, str]:
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
