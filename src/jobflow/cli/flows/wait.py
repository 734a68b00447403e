"""Follows one flow on a cluster until what was asked for has come, telling how it goes. It asks for
nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from jobflow.api.flow_status import FlowPhase
from jobflow.api.jobflow import JobFlow
from jobflow.api.resources import JOBFLOWS
from jobflow.cli.exit_codes import FAULTY, complain
from jobflow.cli.flows.find_flow import Stopped
from jobflow.kube.cache import Cache
from jobflow.kube.client import Client
from jobflow.kube.reflector import Reflector

PATIENCE_SECONDS = 10.0
"""How long to wait for a controller before saying that there may be none."""


@dataclass(frozen=True, slots=True)
class Until:
    """What is waited for."""

    command: str
    """The command that waits."""
    taken_up: Callable[[JobFlow, JobFlow], bool]
    """Whether a controller has done what was asked for, by the flow before and now. Stays so."""
    done: Callable[[JobFlow], bool]
    """Whether that has had its effect, once it was taken up."""
    too_late: Callable[[JobFlow], bool] = lambda flow: flow.final
    """Whether the flow cannot be brought to it any more, where it was not taken up."""


class Follower:
    """Follows one flow and tells of each step on the way."""

    def __init__(self, client: Client, flow: JobFlow, until: Until, *, quiet: bool) -> None:
        self.flow = flow
        """As it was last seen."""
        self._before = flow
        self._until = until
        self._taken_up = until.taken_up(flow, flow)
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

    async def until_done(self) -> None:
        """Return once it has come. Raises Stopped where it cannot, where the flow is gone, or
        cannot be followed."""
        reminder = asyncio.get_running_loop().call_later(PATIENCE_SECONDS, self._remind)
        try:
            while not (self._taken_up and self._until.done(self.flow)):
                await self._moved.wait()
                self._moved.clear()
                self._look()
        finally:
            reminder.cancel()

    def _changed(self, old: JobFlow | None, new: JobFlow | None) -> None:
        if new is not None and new.metadata.uid == self.flow.metadata.uid:
            self.flow = new
            self._taken_up = self._taken_up or self._until.taken_up(self._before, new)
            self._tell()
        self._moved.set()

    def _look(self) -> None:
        """Raises Stopped where there is nothing to wait for any more."""
        meta = self.flow.metadata
        if self._cache.served is False:
            what = "that takes the rights to list and watch JobFlows"
            raise Stopped(FAULTY, f"JobFlow {meta.name} cannot be waited for: {what}")
        there = self._cache.get(meta.namespace, meta.name)
        if self._cache.synced and (there is None or there.metadata.uid != meta.uid):
            raise Stopped(FAULTY, f"JobFlow {meta.name} was deleted meanwhile")
        if not self._taken_up and self._until.too_late(self.flow):
            said = f"JobFlow {meta.name} was over before that: {state_of(self.flow)}"
            raise Stopped(FAULTY, said)

    def _tell(self) -> None:
        text = f"JobFlow {self.flow.metadata.name}: {state_of(self.flow)}"
        if self._taken_up and not self._quiet and text != self._said:
            print(text, flush=True)
            self._said = text

    def _remind(self) -> None:
        if not self._taken_up:
            what = "nobody has taken it up yet; does `jobflow serve` run?"
            complain(self._until.command, what)


@asynccontextmanager
async def following(
    client: Client, flow: JobFlow, until: Until, *, quiet: bool
) -> AsyncIterator[Follower]:
    """A follower of the flow as long as the body runs."""
    follower = Follower(client, flow, until, quiet=quiet)
    task = asyncio.create_task(follower.reflector.run())
    try:
        yield follower
    finally:
        task.cancel()
        await asyncio.wait([task])


def state_of(flow: JobFlow) -> str:
    """`Running, 2/5 steps over (Cancelled): the flow was cancelled`."""
    status = flow.status
    text = status.state.phase or FlowPhase.PENDING.value
    if status.progress:
        text += f", {status.progress} steps over"
    if status.state.reason:
        text += f" ({status.state.reason})"
    return f"{text}: {status.state.message}" if status.state.message else text
