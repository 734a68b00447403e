"""Steps by hand: Commands that name single steps and items by their paths from the outermost flow.

What a Command says about a step of this flow is stored in `byHand`, and decides about the step from
the next plan on. For a step of a child flow it is stored in `handedDown`, until the child flow,
which reads it there as it reads a suspension, has stored it itself. So each acts once, wherever a
process stops.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import msgspec

from jobflow.api.flow import status as api
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.volcano.command import Command
from jobflow.core.limits import MAX_RUNS
from jobflow.core.planning.actions import Event, EventType
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.observed.children import may_take_over
from jobflow.core.planning.observed.steps import has_begun
from jobflow.core.spec.approvals import ApprovalKey, parse_key, sender_of
from jobflow.core.spec.items import get_items
from jobflow.core.text import join_names, shorten
from jobflow.core.work import is_asked, may_run_steps

MOST = 500
"""Most steps and items of a flow for which its status has a Command."""
MAX_COMMENT = 128
_WAITING = api.StepCondition(phase=api.StepPhase.WAITING)
_DONE: Mapping[str, tuple[str, str]] = {"CancelStep": ("StepCancelled", "cancelled")}
"""The reason and the verb of the Event of each action."""
ConditionOf = Callable[[str], api.StepCondition | None]
"""Returns the condition of a step by its name."""


@dataclass(frozen=True, slots=True)
class StepCommand:
    """A Command on steps, read."""

    action: str
    paths: tuple[str, ...]
    by: str
    """The user, or "" if nobody vouches for the name."""
    comment: str = ""

    @property
    def event(self) -> Event:
        reason, verb = _DONE[self.action]
        by = f" by {self.by}" if self.by else ""
        comment = f": {self.comment}" if self.comment else ""
        steps = f"step{'' if len(self.paths) == 1 else 's'} {join_names(self.paths)}"
        return Event(EventType.NORMAL, reason, f"{steps}: {verb}{by}{comment}")


class Place(NamedTuple):
    """A step or an item of a flow, or a step below it."""

    key: ApprovalKey
    below: str = ""
    """The path from the child flow of the step or item; "" for itself."""


def parse_step_command(command: Command) -> StepCommand | str:
    """Return what a Command whose action is in BY_HAND says, or why it says nothing."""
    names, _, comment = command.message.strip().partition(" ")
    paths = tuple(dict.fromkeys(name for name in names.split(",") if name))
    if not paths:
        return (
            "its message names no step: write paths such as train, sweep/3 or samples/3/qc, "
            "joined by commas, then a space and a comment"
        )
    if len(paths) > MOST:
        return f"its message names {len(paths)} steps, and at most {MOST} are possible"
    comment = shorten(comment.strip(), MAX_COMMENT)
    return StepCommand(command.action, paths, sender_of(command), comment)


def find_place(flow: JobFlow, path: str) -> Place | str:
    """Return the place of a path that begins in this flow, or why there is none."""
    name, _, rest = path.partition("/")
    step = next((each for each in flow.all_steps if each.name == name), None)
    if step is None:
        return f'the flow has no step "{name}"'
    index = None
    if rest and (step.fan_out is not None or step.repeat is not None):
        digits, _, rest = rest.partition("/")
        index = parse_key(f"{name}/{digits}").index
        if index is None or index >= MAX_RUNS:
            return f'step {name} has no item "{digits}": write its index, such as {name}/0'
    if rest and not may_run_steps(step):
        has = "has no items" if index is None else "runs no flow"
        return f'step {name} {has}, so there is no "{path}": write {name}'
    return Place(ApprovalKey(name, index), rest)


def refuse_flow(flow: JobFlow, action: str) -> str:
    """Return why no step of the flow can be the subject of a Command, or ""."""
    return f"the flow has ended ({flow.status.state.phase})" if flow.final else ""


def why_it_ends(flow: JobFlow) -> str:
    """Return why the flow is being ended, by its status, or ""."""
    state = flow.status.state
    return state.message if state.reason in api.HALTS else ""


def is_settled(run: api.RunCondition, action: str) -> bool:
    """Return whether an item stays as it is if a Command names its whole step."""
    return run.phase in api.ENDED_STEP_PHASES


def refuse(flow: JobFlow, action: str, place: Place, find: ConditionOf, *, ends: str = "") -> str:
    """Return why a Command makes no sense for a place in the flow as it is now, or "". `ends`: why
    the flow is being ended, or ""."""
    key = place.key
    step = next(each for each in flow.all_steps if each.name == key.step)
    if ends and step not in (flow.spec.finally_ or ()):
        return f"the flow ends already, because {ends}"
    condition = find(step.name) or _WAITING
    run: api.RunCondition = condition
    if key.index is not None and step.repeat is not None:
        return f"the runs of step {step.name} belong together: write {step.name}"
    if key.index is not None:
        items = get_items(step, condition.decisions)
        if items is None or key.index >= len(items):
            count = "no items yet" if items is None else f"{len(items)} items, from 0"
            return f"there is no {key}: step {step.name} has {count}"
        known = (run for run in condition.runs or () if run.index == key.index)
        run = next(known, api.RunCondition(phase=api.StepPhase.WAITING))
    if place.below:
        return _refuse_below(place, run, has_items=step.fan_out is not None)
    if is_asked(step):
        return f"step {key} asks for approval: approve or reject it"
    if run.phase in api.ENDED_STEP_PHASES:
        return f"step {key} has ended already: it is {run.phase}"
    return ""


def _refuse_below(place: Place, run: api.RunCondition, *, has_items: bool) -> str:
    key = place.key
    if has_items and key.index is None:
        return f"step {key} has items: name one of them, such as {key}/0/{place.below}"
    if not has_begun(run):
        return f"step {key} has not started, so it has no flow with {place.below}"
    if run.phase in api.ENDED_STEP_PHASES:
        return f"the flow of step {key} has ended already: it is {run.phase}"
    return ""


def carried_out(
    flow: JobFlow, said: StepCommand, places: Sequence[Place], find: ConditionOf, now: datetime
) -> api.JobFlowStatus | str:
    """Return the status that has what a Command says, or why there is no room for it."""
    stored = flow.status
    orders = {each.step: each for each in stored.by_hand or ()}
    below: dict[str, list[str]] = {}
    for place in places:
        key = str(place.key)
        if not place.below:
            orders[key] = api.ByHand(
                step=key, action=said.action, by=said.by, time=now, comment=said.comment
            )
            continue
        condition = find(place.key.step) or _WAITING
        runs = condition.runs or (condition,)
        run = next(run for run in runs if run.index == place.key.index)
        below.setdefault(run.flow or run.job, []).append(place.below)
    if len(orders) > MOST:
        return f"users have ended {MOST} steps and items of the flow already: name whole steps"
    number, handed = stored.handed_down_count, list(stored.handed_down or ())
    for child, paths in below.items():
        number += 1
        message = f"{','.join(paths)} {said.comment}"
        handed.append(
            api.HandedDown(
                number=number, flow=child, action=said.action, message=message, by=said.by
            )
        )
    return msgspec.structs.replace(
        stored,
        by_hand=list(orders.values()) or None,
        handed_down=handed or None,
        handed_down_count=number,
    )


def handed_down_to(flow: JobFlow, parent: JobFlow | None) -> Iterator[api.HandedDown]:
    """Yield the Commands on steps that a child flow has to take over from its parent."""
    for entry in (parent.status.handed_down if parent is not None else None) or ():
        if entry.flow == flow.metadata.name and entry.number > flow.status.taken_over:
            yield entry


def left_to_take_over(ctx: PlanContext) -> list[api.HandedDown] | None:
    """Return the entries of `handedDown` that their child flows have not taken over."""
    entries, jobs = ctx.flow.status.handed_down or (), ctx.view.jobs
    return [each for each in entries if may_take_over(jobs.get(each.flow), each.number)] or None
