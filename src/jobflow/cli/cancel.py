"""`jobflow cancel`: asks for a flow's end by a Command, as vcctl does for vcjobs. Decides nothing:
the controller does, and refuses what comes too late."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from jobflow.api.command import Action, Command, encoded
from jobflow.api.flow_status import CANCELLED
from jobflow.api.jobflow import JobFlow
from jobflow.api.meta import Object, ObjectMeta, OwnerReference
from jobflow.api.resources import COMMANDS, JOBFLOWS
from jobflow.cli.complaint import complain
from jobflow.cli.interrupts import interruption, unless
from jobflow.cli.lookup import Stopped, ended, found_flow
from jobflow.cli.outcome import FAULTY, FINE, INTERRUPTED
from jobflow.kube.cache import Cache
from jobflow.kube.client import ApiError, Client, decoder
from jobflow.kube.reflector import Reflector

PATIENCE_SECONDS = 10.0
"""How long `--wait` waits for a controller before it says that there may be none."""


@dataclass(frozen=True, slots=True)
class Order:
    """What the user asks for."""

    flow: str
    namespace: str | None
    kubeconfig: str | None
    wait: bool
    as_json: bool


def cancel(order: Order) -> int:
    """Cancel a flow: 0; 1 where that is refused or too late, 2 where there is no such flow or no
    cluster."""
    return ended("cancel", _cancel(order))


async def _cancel(order: Order) -> int:
    async with await Client.from_kubeconfig(order.kubeconfig) as client:
        namespace = order.namespace or client.namespace
        flow = await found_flow(client, namespace, order.flow)
        if flow.final:
            raise Stopped(FAULTY, f"JobFlow {order.flow} is over already: {_state(flow)}")
        if flow.metadata.deletion_timestamp is not None:
            raise Stopped(FAULTY, f"JobFlow {order.flow} is being deleted")
        command = await _send(client, flow)
        if not order.as_json:
            print(f"JobFlow {order.flow}: asked to cancel (Command {command})", flush=True)
        if order.wait:
            with interruption() as stop:
                async with _following(client, flow, quiet=order.as_json) as follower:
                    if not await unless(stop, follower.until_over()):
                        return INTERRUPTED
                    flow = follower.flow
        if order.as_json:
            print(json.dumps(_answer(flow, command), indent=2, ensure_ascii=False))
        return FINE


async def _send(client: Client, flow: JobFlow) -> str:
    """Make the Command; returns its name. Raises Stopped.

    Its owner is the flow, so that a Command that nobody carries out goes with it.
    """
    meta = flow.metadata
    target = OwnerReference(
        api_version=JOBFLOWS.api_version, kind=JOBFLOWS.kind, name=meta.name, uid=meta.uid
    )
    command = Command(
        metadata=ObjectMeta(
            generate_name=f"{meta.name}-{Action.TERMINATE_JOB.lower()}-",
            namespace=meta.namespace,
            owner_references=[target],
        ),
        action=Action.TERMINATE_JOB,
        target=target,
    )
    try:
        made = await client.create(COMMANDS, meta.namespace, encoded(command))
    except ApiError as error:
        raise Stopped(FAULTY, _why_not(error, meta.namespace)) from None
    return decoder(Object).decode(made).metadata.name


def _why_not(error: ApiError, namespace: str) -> str:
    if error.not_found and not error.namespace_gone:
        return (
            f"this cluster serves no Commands ({COMMANDS.api_version}), which Volcano brings: "
            "without them a flow cannot be cancelled"
        )
    if error.code == 403 and not error.namespace_gone:
        return (
            f"cancelling takes the right to create commands.{COMMANDS.group} in the namespace "
            f'"{namespace}": {error.message}'
        )
    return error.message


# ------------------------------------------------------------------------------ waiting


class Follower:
    """Follows one flow to its end and tells of each step on the way."""

    def __init__(self, client: Client, flow: JobFlow, *, quiet: bool) -> None:
        self.flow = flow
        """As it was last seen."""
        self._quiet = quiet
        self._said = ""
        self._moved = asyncio.Event()
        self._cache: Cache[JobFlow] = Cache(self._changed)
        self._cache.on_state = self._moved.set
        meta = flow.metadata
        self.reflector = Reflector(
            client,
            JOBFLOWS,
            JobFlow,
            self._cache,
            namespace=meta.namespace,
            query=[("fieldSelector", f"metadata.name={meta.name}")],
        )

    async def until_over(self) -> None:
        """Return once the flow has been cancelled and has ended. Raises Stopped where it ended
        otherwise, is gone, or cannot be followed."""
        name = self.flow.metadata.name
        reminder = asyncio.get_running_loop().call_later(PATIENCE_SECONDS, self._remind)
        try:
            while not self.flow.final:
                await self._moved.wait()
                self._moved.clear()
                self._look()
        finally:
            reminder.cancel()
        if not self._taken_up:
            raise Stopped(FAULTY, f"JobFlow {name} was over before that: {_state(self.flow)}")

    @property
    def _taken_up(self) -> bool:
        return self.flow.status.state.reason == CANCELLED

    def _changed(self, old: JobFlow | None, new: JobFlow | None) -> None:
        if new is not None and new.metadata.uid == self.flow.metadata.uid:
            self.flow = new
            self._tell()
        self._moved.set()

    def _look(self) -> None:
        """Raises Stopped where there is nothing to follow any more."""
        meta = self.flow.metadata
        if self._cache.served is False:
            what = "that takes the rights to list and watch JobFlows"
            raise Stopped(FAULTY, f"JobFlow {meta.name} cannot be waited for: {what}")
        there = self._cache.get(meta.namespace, meta.name)
        if self._cache.synced and (there is None or there.metadata.uid != meta.uid):
            raise Stopped(FAULTY, f"JobFlow {meta.name} was deleted meanwhile")

    def _tell(self) -> None:
        text = f"JobFlow {self.flow.metadata.name}: {_state(self.flow)}"
        if text != self._said and not self._quiet and (self._taken_up or self.flow.final):
            print(text, flush=True)
            self._said = text

    def _remind(self) -> None:
        if not self._taken_up:
            complain("cancel", "nobody has taken it up yet; does `jobflow serve` run?")


@asynccontextmanager
async def _following(client: Client, flow: JobFlow, *, quiet: bool) -> AsyncIterator[Follower]:
    follower = Follower(client, flow, quiet=quiet)
    task = asyncio.create_task(follower.reflector.run())
    try:
        yield follower
    finally:
        task.cancel()
        await asyncio.wait([task])


def _state(flow: JobFlow) -> str:
    """`Running, 2/5 steps over (Cancelled): the flow was cancelled`."""
    status = flow.status
    text = status.state.phase or "Pending"
    if status.progress:
        text += f", {status.progress} steps over"
    if status.state.reason:
        text += f" ({status.state.reason})"
    return f"{text}: {status.state.message}" if status.state.message else text


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
