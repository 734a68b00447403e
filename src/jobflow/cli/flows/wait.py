"""`--wait`: waits until a flow has reached a state, and prints its progress."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from jobflow.api.flow_status import FlowPhase
from jobflow.api.jobflow import JobFlow
from jobflow.api.resources import JOBFLOWS
from jobflow.cli.errors import FAILED, CommandError, print_error
from jobflow.kube.cache import Cache
from jobflow.kube.client import Client
from jobflow.kube.reflector import Reflector

PATIENCE_SECONDS = 10.0
"""Time to wait for a controller before the warning that there may be none."""


@dataclass(frozen=True, slots=True)
class Goal:
    """The state to wait for: a controller has handled the Command, and that has had its effect."""

    handled: Callable[[JobFlow, JobFlow], bool]
    """Compares the flow at the start and now; once true, it stays true."""
    reached: Callable[[JobFlow], bool]
    """Whether the effect has come, once the Command is handled."""
    is_lost: Callable[[JobFlow], bool] = lambda flow: flow.final
    """Whether a flow whose Command is not handled can no longer reach the goal."""


class FlowWaiter:
    """Watches one flow and prints a line for each change after the Command is handled."""

    def __init__(self, client: Client, flow: JobFlow, goal: Goal, *, quiet: bool) -> None:
        self.flow = flow
        """The flow as last seen."""
        self._first = flow
        self._goal = goal
        self._handled = goal.handled(flow, flow)
        self._quiet = quiet
        self._last_line = ""
        self._changed = asyncio.Event()
        self._cache: Cache[JobFlow] = Cache(self._update)
        self._cache.on_state = self._changed.set
        meta = flow.metadata
        query = [("fieldSelector", f"metadata.name={meta.name}")]
        self.reflector = Reflector(
            client, JOBFLOWS, JobFlow, self._cache, namespace=meta.namespace, query=query
        )

    async def until_reached(self) -> None:
        """Return once the goal is reached. Raises CommandError if it cannot be."""
        reminder = asyncio.get_running_loop().call_later(PATIENCE_SECONDS, self._remind)
        try:
            while not (self._handled and self._goal.reached(self.flow)):
                await self._changed.wait()
                self._changed.clear()
                if why := self._why_never():
                    raise CommandError(FAILED, f"JobFlow {self.flow.metadata.name} {why}")
        finally:
            reminder.cancel()

    def _update(self, old: JobFlow | None, new: JobFlow | None) -> None:
        if new is not None and new.metadata.uid == self.flow.metadata.uid:
            self.flow = new
            self._handled = self._handled or self._goal.handled(self._first, new)
            self._print_progress()
        self._changed.set()

    def _why_never(self) -> str:
        """Return why the goal cannot be reached, or ""."""
        meta = self.flow.metadata
        if self._cache.served is False:
            return "cannot be waited for: that needs the rights to list and watch JobFlows"
        current = self._cache.get(meta.namespace, meta.name)
        if self._cache.synced and (current is None or current.metadata.uid != meta.uid):
            return "was deleted in the meantime"
        if not self._handled and self._goal.is_lost(self.flow):
            return f"finished first: {state_of(self.flow)}"
        return ""

    def _print_progress(self) -> None:
        line = f"JobFlow {self.flow.metadata.name}: {state_of(self.flow)}"
        if self._handled and not self._quiet and line != self._last_line:
            print(line, flush=True)
            self._last_line = line

    def _remind(self) -> None:
        if not self._handled:
            sentence = "no controller has handled the Command yet; is `jobflow serve` running?"
            print_error(sentence, severity="warning")


@asynccontextmanager
async def waiter(
    client: Client, flow: JobFlow, goal: Goal, *, quiet: bool
) -> AsyncIterator[FlowWaiter]:
    """Watch the flow while the body runs."""
    made = FlowWaiter(client, flow, goal, quiet=quiet)
    task = asyncio.create_task(made.reflector.run())
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.wait([task])


def state_of(flow: JobFlow) -> str:
    """`Running, 2/5 steps finished (Cancelled): the flow was cancelled`."""
    status = flow.status
    text = status.state.phase or FlowPhase.PENDING.value
    if status.progress:
        text += f", {status.progress} steps finished"
    if status.state.reason:
        text += f" ({status.state.reason})"
    return f"{text}: {status.state.message}" if status.state.message else text
