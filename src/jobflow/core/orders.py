"""What the Commands on a flow come to: which is carried out, which are refused, which can go.

A Command is recorded by its UID in `handledCommands` with the status that carries it out or refuses
it; it is deleted only once that status is stored, and forgotten when it is seen gone. So it acts
once, wherever a process stops. What cancelling means is `aborting`'s and `unstarted`'s business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from jobflow.api.command import Action, Command
from jobflow.api.jobflow import JobFlow
from jobflow.core.actions import DeleteCommand, Event, EventType, View

AT_ONCE = 20
"""Commands of one flow that may be handled and not yet gone, so that a status keeps its size."""
_FIRST = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Orders:
    """What Commands ask for."""

    handled: list[str] | None = None
    """`handledCommands` as it is to be."""
    cancel: Command | None = None
    """The Command by which the flow is cancelled now."""
    events: tuple[Event, ...] = ()
    deletes: tuple[DeleteCommand, ...] = ()
    urgent: bool = False
    """Whether a Command's delete waits for the status."""


def orders(flow: JobFlow, view: View, *, over: Callable[[], bool] = lambda: False) -> Orders:
    """Read the Commands of the View, by creationTimestamp and name. `over`: whether the flow ends
    in this very plan, were it not for a Command."""
    handled = flow.status.handled_commands or []
    if view.commands is None:
        return Orders(flow.status.handled_commands)
    if not view.commands and not handled:
        return Orders()
    known = frozenset(handled)
    there = {command.metadata.uid for command in view.commands.values()}
    kept = [uid for uid in handled if uid in there]
    ordered = sorted(view.commands.values(), key=_rank)
    new = [command for command in ordered if command.metadata.uid not in known]
    new = new[: max(0, AT_ONCE - len(kept))]
    cancel, events = _read(flow, new, over)
    return Orders(
        handled=[*kept, *(command.metadata.uid for command in new)] or None,
        cancel=cancel,
        events=tuple(events),
        deletes=_gone(command for command in ordered if command.metadata.uid in known),
        urgent=bool(new),
    )


def _rank(command: Command) -> tuple[datetime, str]:
    return command.metadata.creation_timestamp or _FIRST, command.metadata.name


def _gone(commands: Iterable[Command]) -> tuple[DeleteCommand, ...]:
    """Those that are stored as handled are deleted, where nobody has done that yet."""
    return tuple(
        DeleteCommand(command.metadata.name, command.metadata.uid)
        for command in commands
        if command.metadata.deletion_timestamp is None
    )


def _read(
    flow: JobFlow, new: Iterable[Command], over: Callable[[], bool]
) -> tuple[Command | None, list[Event]]:
    """The first that cancels, and a warning for each that is refused. One more cancel is none."""
    cancel: Command | None = None
    events = []
    for command in new:
        if why := _refused(flow, command) or _too_late(flow, over):
            text = f"Command {command.metadata.name} ({command.action}) was refused: {why}"
            events.append(Event(EventType.WARNING, "CommandRefused", text))
        else:
            cancel = cancel or command
    return cancel, events


def _refused(flow: JobFlow, command: Command) -> str:
    """What is wrong with the Command itself."""
    target, uid = command.target, flow.metadata.uid
    if target is None or target.uid != uid:
        other = f"another flow of this name (uid {target.uid})" if target and target.uid else ""
        return f"it is about {other or 'no flow in particular'}; this one has the uid {uid}"
    if command.action != Action.TERMINATE_JOB:
        return f"this version carries out {Action.TERMINATE_JOB} (cancel) and no other action"
    return ""


def _too_late(flow: JobFlow, over: Callable[[], bool]) -> str:
    if flow.final:
        return f"the flow is over ({flow.status.state.phase})"
    if flow.metadata.deletion_timestamp is not None:
        return "the flow is being deleted"
    return "the flow is over" if over() else ""
