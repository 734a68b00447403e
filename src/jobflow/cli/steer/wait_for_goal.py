"""`--wait`: waits until flows have reached a state, and prints their progress."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from jobflow.api.flow.jobflow import JobFlow
from jobflow.client.errors import print_error
from jobflow.client.flows.find_flow import state_of
from jobflow.client.flows.follow import following, following_children
from jobflow.client.verbs.command import Goal
from jobflow.kube.cache import key_of
from jobflow.kube.client import Client

PATIENCE_SECONDS = 10.0
"""Time to wait for a controller before the warning that there may be none."""


class Wait:
    """The wait for one flow. It prints a line for each change after the Command is handled."""

    def __init__(self, flow: JobFlow, goal: Goal, *, quiet: bool) -> None:
        self.flow = flow
        """The flow as last seen."""
        self.children: dict[str, JobFlow] = {}
        """The child flows below flows of its namespace, by name."""
        self.handled = goal.handled(flow, flow)
        self.is_deleted = False
        self._first = flow
        self._goal = goal
        self._quiet = quiet
        self._last_line = ""

    def see(self, flow: JobFlow) -> None:
        if flow is self._first:
            return
        self.flow = flow
        self.handled = self.handled or self._goal.handled(self._first, flow)
        line = f"JobFlow {flow.metadata.name}: {state_of(flow)}"
        if self.handled and not self._quiet and line != self._last_line:
            print(line, flush=True)
            self._last_line = line

    @property
    def is_reached(self) -> bool:
        return self.handled and self._goal.reached(self.flow, self.children)

    @property
    def is_ended(self) -> bool:
        return self.is_reached or bool(self.failure)

    @property
    def failure(self) -> str:
        """Why the goal cannot be reached, or ""."""
        if self.is_reached:
            return ""
        name = self.flow.metadata.name
        if self.is_deleted:
            return f"JobFlow {name} was deleted in the meantime"
        if not self.handled and self._goal.is_lost(self.flow):
            return f"JobFlow {name} finished first: {state_of(self.flow)}"
        return ""


class Waits:
    """The waits for several flows, and the result of each."""

    def __init__(self, flows: Sequence[JobFlow], goal: Goal, *, quiet: bool) -> None:
        self._waits = {key_of(flow): Wait(flow, goal, quiet=quiet) for flow in flows}

    def __iter__(self) -> Iterator[Wait]:
        return iter(self._waits.values())

    async def until_ended(self, client: Client) -> None:
        """Return once each flow has reached the goal or can no longer reach it. Raises
        CommandError if the flows cannot be watched."""
        flows = [wait.flow for wait in self]
        reminder = asyncio.get_running_loop().call_later(PATIENCE_SECONDS, self._remind)
        try:
            async with following(client, flows, self._see, self._note_deletion) as follower:

                def see_child(child: JobFlow) -> None:
                    self._see_child(child)
                    follower.look_again()

                async with following_children(client, flows, see_child):
                    await follower.until(lambda _: all(each.is_ended for each in self))
        finally:
            reminder.cancel()

    def _see(self, flow: JobFlow) -> None:
        self._waits[key_of(flow)].see(flow)

    def _see_child(self, child: JobFlow) -> None:
        for wait in self:
            if wait.flow.metadata.namespace == child.metadata.namespace:
                wait.children[child.metadata.name] = child

    def _note_deletion(self, flow: JobFlow) -> None:
        self._waits[key_of(flow)].is_deleted = True

    def _remind(self) -> None:
        if not all(wait.handled for wait in self):
            sentence = "no controller has handled the Command yet; is `jobflow serve` running?"
            print_error(sentence, severity="warning")
