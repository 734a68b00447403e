"""`--wait`, `--watch` and `--log` of flows that were sent: until each has ended."""

import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import FlowPhase
from jobflow.cli.logs.follow import follow_logs
from jobflow.cli.logs.printer import OutputClosed
from jobflow.cli.steer.send_command import reminder
from jobflow.client.errors import FAILED, INTERRUPTED, SUCCESS, CommandError, print_error
from jobflow.client.flows.children import read_children
from jobflow.client.flows.find_flow import state_of
from jobflow.client.flows.follow import Display, following, following_children
from jobflow.client.signals import interruption, run_unless
from jobflow.core.text import format_command, printable
from jobflow.display.console import make_console
from jobflow.display.live import LiveTrees, tree_display
from jobflow.display.tree import print_trees
from jobflow.kube.client import Client
from jobflow.runtime.event_loop import all_of


class Progress(Display):
    """One line for each change of a flow's state."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}

    def show(self, flow: JobFlow) -> None:
        line = printable(f"JobFlow {flow.metadata.name}: {state_of(flow)}")
        # a flow without a phase has nothing to say
        if flow.status.state.phase and self._last.get(flow.metadata.uid) != line:
            self._last[flow.metadata.uid] = line
            print(line, flush=True)


@dataclass(slots=True)
class Followed:
    flows: list[JobFlow]
    """As last seen."""
    lost: list[JobFlow] = field(default_factory=list)
    """Flows that were deleted before they ended."""
    interrupted: bool = False

    @property
    def code(self) -> int:
        if self.interrupted:
            return INTERRUPTED
        succeeded = all(flow.status.state.phase == FlowPhase.SUCCEED for flow in self.flows)
        return SUCCESS if succeeded else FAILED


class View(Enum):
    NOTHING = auto()
    PROGRESS = auto()
    TREES = auto()
    LOGS = auto()


async def until_end(client: Client, flows: Sequence[JobFlow], view: View) -> Followed:
    """Show the flows until all have ended; say what a user should know about those that have not.
    Raises CommandError if they cannot be watched."""
    followed = await follow_to_end(client, flows, view)
    for flow in followed.lost:
        print_error(f"JobFlow {flow.metadata.name} was deleted before it ended")
    if followed.interrupted:
        for meta in (flow.metadata for flow in followed.flows if not flow.final):
            get, cancel = format_command("jobflow get", meta, " -w"), "jobflow cancel"
            goes_on = f"{get} shows it, {format_command(cancel, meta)} cancels it"
            print_error(f"JobFlow {meta.name} goes on: {goes_on}", severity="info")
    return followed


async def follow_to_end(
    client: Client,
    flows: Sequence[JobFlow],
    view: View,
    *,
    is_handled: Callable[[JobFlow], bool] = lambda flow: bool(flow.status.state.phase),
) -> Followed:
    """Show the flows until all have ended or are gone. Raises CommandError if they cannot be
    watched."""
    console = make_console()
    display = Progress() if view is View.PROGRESS else Display()
    if view is View.TREES:
        display = tree_display(console)
    shown = flows if display.shows_children else ()
    with interruption() as stop, display:
        async with (
            following_children(client, shown, display.show_child),
            following(client, flows, display.show) as follower,
        ):
            # a flow without a phase may wait for ever, and nothing else would say so
            with reminder("the flow", lambda: all(map(is_handled, follower.flows.values()))):
                ended = follower.until(lambda each: each.all_final)
                logs = flows if view is View.LOGS else ()
                done = await run_unless(stop, all_of(ended, *(_logs(client, one) for one in logs)))
    found = list(follower.flows.values())
    if done and isinstance(display, LiveTrees):  # it has wiped itself off the terminal
        print_trees(console, found, await read_children(client, found))
    if done and view is View.LOGS:  # logs do not say how a flow ended
        last = Progress()
        for flow in found:
            last.show(flow)
    lost = [flow for key, flow in follower.flows.items() if key in follower.deleted]
    return Followed(found, [flow for flow in lost if not flow.final], interrupted=not done)


async def _logs(client: Client, flow: JobFlow) -> None:
    try:
        await follow_logs(client, flow)
    except CommandError as error:  # without logs, the end is waited for all the same
        print_error(*str(error).splitlines(), severity="warning")
    except OutputClosed:
        # ends the wait for the other flows too, as any command whose reader is gone
        raise BrokenPipeError(errno.EPIPE, "nobody reads the logs any more") from None
