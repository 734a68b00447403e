"""Commands on a flow: which take effect, which are refused, which can be deleted.

The status that applies or refuses a Command records its UID in `handledCommands`, until it is gone,
so that it acts only once, wherever a process stops.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

import msgspec

from jobflow.api import labels
from jobflow.api.flow.by_hand import HandedDown
from jobflow.api.flow.control import ApprovalAnswer
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import FlowPhase, JobFlowStatus
from jobflow.api.resources import ObjectMeta, OwnerReference
from jobflow.api.volcano.command import BY_HAND, RETRIES, Action, Command
from jobflow.core.admission.changes import command_changes_reused
from jobflow.core.manifests.volume_claims import why_spent
from jobflow.core.names import stored_condition
from jobflow.core.planning.actions import DeleteCommand, Event, EventType
from jobflow.core.planning.flow import by_hand
from jobflow.core.planning.flow.concurrency import refuses_retry
from jobflow.core.planning.flow.restart import handed_down_to, is_retried_with
from jobflow.core.planning.lifecycle import Lifecycle
from jobflow.core.planning.observed.view import View
from jobflow.core.reasons import FlowReason
from jobflow.core.spec.param_values import with_param_values
from jobflow.core.spec.readiness import has_tolerated_failures
from jobflow.core.spec.step_commands import (
    ANSWERS,
    ApprovalKey,
    StepAnswer,
    find_place,
    parse_answer,
    parse_step_command,
)
from jobflow.core.work import is_asked

AT_ONCE = 20
"""Most handled Commands of a flow that are not deleted yet; bounds the size of the status."""
_ACTIONS = f"{', '.join(sorted(Action)[:-1])} and {max(Action)}"
_FIRST = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The effect of the Commands on a flow."""

    lifecycle: Lifecycle
    handled: list[str] | None = None
    """The new `handledCommands`."""
    retry: Action | None = None
    """The action that retries the flow, which has ended."""
    answers: Mapping[ApprovalKey, StepAnswer] = field(default_factory=dict)
    events: tuple[Event, ...] = ()
    status: JobFlowStatus | None = None
    """The status with what a Command on steps says, without `handled`; stored before all else."""
    deletes: tuple[DeleteCommand, ...] = ()
    urgent: bool = False
    """Whether the delete of a Command waits for the status."""


def read_commands(
    flow: JobFlow,
    view: View,
    lifecycle: Lifecycle,
    now: datetime,
    *,
    has_ended: Callable[[], bool],
    find_open: Callable[[], Collection[ApprovalKey]] = frozenset,
    find_condition: by_hand.ConditionOf | None = None,
) -> CommandResult:
    """Return the effect of the Commands in the View. `now`: whole seconds; `has_ended`: whether the
    flow ends without them; `find_open`: the approvals that may be answered; `find_condition`: the
    conditions of steps, by default the stored ones."""
    handled = flow.status.handled_commands or []
    find = find_condition or partial(stored_condition, flow)
    reader = _CommandReader(flow, view, lifecycle, now, has_ended, find_open, find)
    if view.parent is not None and reader.take_over():
        events, before = tuple(reader.events), flow.status.handled_commands
        return CommandResult(lifecycle, before, events=events, status=reader.status)
    if view.commands is None:
        return CommandResult(lifecycle, flow.status.handled_commands)
    if not view.commands and not handled:
        return CommandResult(lifecycle)
    known = frozenset(handled)
    ordered = sorted(
        view.commands.values(),
        key=lambda each: (each.metadata.creation_timestamp or _FIRST, each.metadata.name),
    )
    existing = {command.metadata.uid for command in ordered}
    # the UID of a Command that is gone is dropped, so that the status does not grow
    kept = [uid for uid in handled if uid in existing]
    new = [command for command in ordered if command.metadata.uid not in known]
    read = [command.metadata.uid for command in reader.read(new[: max(0, AT_ONCE - len(kept))])]
    return CommandResult(
        lifecycle=reader.lifecycle,
        handled=[*kept, *read] or None,
        retry=reader.retry,
        answers=reader.answers,
        status=reader.status,
        events=tuple(reader.events),
        # a Command is deleted once the stored status says that it was handled
        deletes=tuple(
            DeleteCommand(command.metadata.name, command.metadata.uid)
            for command in ordered
            if command.metadata.uid in known and command.metadata.deletion_timestamp is None
        ),
        urgent=bool(read),
    )


@dataclass(slots=True)
class _CommandReader:
    flow: JobFlow
    view: View
    lifecycle: Lifecycle
    now: datetime
    has_ended: Callable[[], bool]
    find_open: Callable[[], Collection[ApprovalKey]]
    find_condition: by_hand.ConditionOf
    retry: Action | None = None
    status: JobFlowStatus | None = None
    answers: dict[ApprovalKey, StepAnswer] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)

    def read(self, commands: Iterable[Command]) -> Iterator[Command]:
        """Yield the Commands up to the first retry, or to one on steps, which is alone in its plan;
        later ones wait for the next plan."""
        before = self.lifecycle
        for command in commands:
            has_effect = self.lifecycle is not before or bool(self.answers)
            if self.retry or self.status is not None or (command.action in BY_HAND and has_effect):
                return
            if command.action in BY_HAND and not self.flow.final and self.has_ended():
                return  # once its end is stored, it may go on
            why = command_changes_reused(self.flow, self.view.reused_by)
            if why := why or self._apply(command):
                text = f"Command {command.metadata.name} ({command.action}) was refused: {why}"
                self.events.append(Event(EventType.WARNING, "CommandRefused", text))
            yield command

    def _apply(self, command: Command) -> str:
        """Apply a Command; return why it is refused, or ""."""
        target, meta = command.target, self.flow.metadata
        if target is None or target.uid != meta.uid:
            return _name_other(target, meta.uid)
        if command.action not in set(Action):
            return f"JobFlow executes {_ACTIONS} on flows and no other action"
        if command.action in RETRIES:
            return self._retry(tolerated=command.action == Action.RETRY_TOLERATED)
        if command.action in BY_HAND:
            return self._steps(command)
        if self.flow.final:
            return f"the flow has ended ({self.flow.status.state.phase})"
        if meta.deletion_timestamp is not None:
            return "the flow is being deleted"
        if command.action in ANSWERS:
            return self._answer(command)
        if self.has_ended():
            return "the flow has ended"
        before = self.lifecycle
        match command.action:
            case Action.TERMINATE_JOB:
                self.lifecycle = before.cancelled(self.now, command.message)
            case Action.TERMINATE_NOW:
                self.lifecycle = before.cancelled(self.now, command.message, finally_too=True)
            case Action.RESUME_JOB if before.suspended_at is None:
                return "the flow is not suspended"
            case Action.RESUME_JOB if before.is_suspended_by_parent:
                return "its parent is suspended: resume that"
            case Action.RESUME_JOB:
                self.lifecycle = before.resumed(self.now)
            case _ if before.ending_reason:
                return f"the flow ends already, because {before.ending_message}"
            case _:
                self.lifecycle = before.suspended_for(command.action, self.now)
        return ""

    def take_over(self) -> bool:
        """Take over the next Command on steps from the parent; return whether there is one."""
        flow, parent = self.flow, self.view.parent
        entry = next(handed_down_to(flow, parent), None)
        if entry is None:
            return False
        if flow.final and is_retried_with(flow, parent):
            return False  # once its parent retries it, as soon as there is room
        self._take_over(entry)
        return True

    def _take_over(self, entry: HandedDown) -> None:
        annotations = {labels.BY: entry.by} if entry.by else {}
        if entry.outputs is not None:
            annotations[labels.OUTPUTS] = msgspec.json.encode(entry.outputs).decode()
        meta = ObjectMeta(annotations=annotations)
        why = self._steps(Command(metadata=meta, action=entry.action, message=entry.message))
        if why:
            text = f"{entry.action}, handed down by its parent, was refused: {why}"
            self.events.append(Event(EventType.WARNING, "CommandRefused", text))
        status = self.status or self.flow.status
        self.status = msgspec.structs.replace(status, taken_over=entry.number)

    def _steps(self, command: Command) -> str:
        """Carry out a Command on steps, if all that it names can be done."""
        flow = with_param_values(self.flow)
        if flow.is_child and command.target is not None:
            return "it is a child flow: name the path of the step from its outermost flow"
        if flow.metadata.deletion_timestamp is not None:
            return "the flow is being deleted"
        if flow.final and flow.is_child and not is_retried_with(flow, self.view.parent):
            return f"the flow has ended ({flow.status.state.phase})"
        why = by_hand.refuse_flow(flow, command.action) or (self._goes_on() if flow.final else "")
        said = why or parse_step_command(command)
        if isinstance(said, str):
            return said
        places = []
        ends = self.lifecycle.ending_message if self.lifecycle.ending_reason else ""
        for path in said.paths:
            place = find_place(flow, path, said.action)
            if isinstance(place, str):
                return place
            ends = "" if flow.final else ends
            if why := by_hand.refuse(flow, said, place, self.find_condition, ends=ends):
                return why
            places.append(place)
        status = by_hand.carried_out(flow, self.view, said, places, self.now)
        if isinstance(status, str):
            return status
        self.status = status
        self.events.append(by_hand.event_of(said))
        return ""

    def _goes_on(self) -> str:
        """Return why a flow that has ended cannot go on, or ""."""
        if why := refuses_retry(self.flow, self.view):
            return why
        if why := why_spent(self.flow, self.view.claim_takers):
            return f"the flow is spent, because {why}: retry that one, or resubmit this one"
        return ""

    def _answer(self, command: Command) -> str:
        given = parse_answer(command)
        if isinstance(given, str):
            return given
        key, lifecycle = given.key, self.lifecycle
        in_finally = any(step.name == key.step for step in self.flow.spec.finally_ or ())
        # an earlier Command of this plan may have ended the flow, before the step is answered
        ends = lifecycle.finally_too if in_finally else lifecycle.ending_reason
        if ends or key not in self.find_open():
            step = next((each for each in self.flow.all_steps if each.name == key.step), None)
            if step is None:
                return f'the flow has no step "{key.step}"'
            if not is_asked(step):
                return f"step {key.step} has no approval"
            if step.for_each is not None and key.index is None:
                return f"step {key.step} has items: name one of them, such as {key.step}/0"
            return f"step {key} does not wait for approval"
        if (before := self.answers.get(key)) is not None:
            verb = "rejected" if before.answer is ApprovalAnswer.REJECT else "approved"
            return f"step {key} has been {verb} already"
        self.answers[key] = given
        return ""

    def _retry(self, *, tolerated: bool) -> str:
        flow, state = self.flow, self.flow.status.state
        if flow.metadata.deletion_timestamp is not None:
            return "the flow is being deleted"
        if state.phase == FlowPhase.SUCCEED and tolerated:
            if not has_tolerated_failures(flow):
                return "the flow has succeeded without a failure that continueOnFailure tolerates"
        elif state.phase != FlowPhase.FAILED and not (
            flow.final and any(handed_down_to(flow, self.view.parent))
        ):
            found = "has ended" if tolerated else "has failed"
            phase = state.phase or FlowPhase.PENDING
            is_now = "suspended: resume it first" if self.lifecycle.suspended_at else phase
            return f"only a flow that {found} can be retried, and this one is {is_now}"
        if state.reason == FlowReason.INVALID:
            return "the flow is invalid: delete it, correct it and apply it again"
        if flow.is_child and not is_retried_with(flow, self.view.parent):
            return "it is a child flow: retry its outermost flow"
        if why := self._goes_on():
            return why
        if (entry := next(handed_down_to(flow, self.view.parent), None)) is not None:
            self._take_over(entry)
            return ""
        self.retry = Action.RETRY_TOLERATED if tolerated else Action.RESTART_JOB
        return ""


def _name_other(target: OwnerReference | None, uid: str) -> str:
    """Return that a Command is about another flow than that with this UID."""
    # it names a flow by its name too, which an earlier flow may have had
    which = "no flow in particular"
    if target is not None and target.uid:
        which = f"another flow of this name (uid {target.uid})"
    return f"it is about {which}; this one has the uid {uid}"
