"""Concurrency groups: when a flow, or an attempt of a step, gets its places.

Places are taken by a write of the status, `startTime` of a flow and `places` of steps, before
anything is created that needs them. Two flows cannot take the last place at once, because the
controller notes who takes one before it plans another flow (`controller/places.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import takewhile
from typing import NamedTuple

import msgspec

from jobflow.api.flow.control import ConcurrencyPolicy
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import ENDED_STEP_PHASES, StepPhase, StepPlace
from jobflow.api.flow.step import Step
from jobflow.core.planning.actions import COMMAND_AGAIN, CancelFlow
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.decision import Continuation, Draft, StepDecision
from jobflow.core.planning.lifecycle import Lifecycle
from jobflow.core.planning.observed.view import View
from jobflow.core.reasons import FlowReason
from jobflow.core.spec.concurrency import (
    NO_GROUP,
    Group,
    get_group,
    get_limit,
    get_needed,
    get_policy,
)
from jobflow.core.text import format_count, join_names
from jobflow.core.timestamps import add
from jobflow.core.violations import quote

_RESTING = frozenset({"", StepPhase.WAITING, *ENDED_STEP_PHASES})
"""Phases of a run without a job that has not ended."""


def with_place(ctx: PlanContext, lifecycle: Lifecycle) -> Lifecycle:
    """Return the lifecycle with the place that the flow gets now, or ended if it may not wait."""
    if not _is_in_line(ctx, lifecycle):
        return lifecycle
    flow, group = ctx.flow, _group(ctx.flow, ctx.view)
    # the line is kept: a flow does not overtake one that waits longer
    if group.has_room(get_limit(flow.spec.concurrency)):
        return lifecycle.placed()
    # a flow that was retried waits in any case
    forbids = get_policy(flow) is ConcurrencyPolicy.FORBID and flow.status.queued_time is None
    if forbids and not group.moves:
        return lifecycle.forbidden(_taken(flow, ctx.view))
    return lifecycle


class Replaced(NamedTuple):
    """The flows that a flow replaces."""

    cancels: tuple[CancelFlow, ...] = ()
    again_at: datetime | None = None
    """When the next Command is sent to one that has not reacted to one."""


def replace_others(ctx: PlanContext) -> Replaced:
    """Return how a flow that replaces others cancels them, once it is stored that it waits."""
    flow, now = ctx.flow, ctx.now
    if flow.spec.concurrency is None or get_policy(flow) is not ConcurrencyPolicy.REPLACE:
        return Replaced()
    group = _group(flow, ctx.view)
    stored = flow.status.state.reason == FlowReason.CONCURRENCY
    # while the first of those that wait can start, the flow may find a place behind it
    if not stored or group.moves or not _is_in_line(ctx, ctx.facts.lifecycle):
        return Replaced()
    # one that ends already frees its place by itself
    others = [each for each in (*group.holders, *group.before) if not each.ending]
    asked = {uid: add(at, COMMAND_AGAIN) for uid, at in ctx.view.cancels.items()}
    message = f"replaced by the JobFlow {flow.metadata.name}"
    return Replaced(
        tuple(
            CancelFlow(each.name, each.uid, message)
            for each in others
            if each.uid not in asked or asked[each.uid] <= now
        ),
        min((asked[each.uid] for each in others if each.uid in asked), default=None),
    )


def refuses_retry(flow: JobFlow, view: View) -> str:
    """Return why a failed flow cannot be retried now, or "": it may not wait for a place, and a
    flow that has succeeded because there was none could not be retried later."""
    if flow.spec.concurrency is None or get_policy(flow) is not ConcurrencyPolicy.FORBID:
        return ""
    if _group(flow, view).has_room(get_limit(flow.spec.concurrency)):
        return ""
    return f"there is {_taken(flow, view)}, and its policy is Forbid"


def _is_in_line(ctx: PlanContext, lifecycle: Lifecycle) -> bool:
    passed_over = lifecycle.suspended_at is not None or lifecycle.ending_reason
    return bool(lifecycle.waits) and not passed_over and not ctx.terminating


def _group(flow: JobFlow, view: View) -> Group:
    return view.groups.get((False, get_group(flow, flow.spec.concurrency)), NO_GROUP)


def _taken(flow: JobFlow, view: View) -> str:
    group = _group(flow, view)
    names = join_names([member.name for member in (*group.holders, *group.before)])
    name = quote(get_group(flow, flow.spec.concurrency))
    return f"no place in the concurrency group {name} because of {names}"


class StepPlaces:
    """The places of the steps of a flow in one plan, which gives them out in start order. An
    attempt holds its places by the name of its job."""

    def __init__(self, ctx: PlanContext, decisions: Sequence[StepDecision]) -> None:
        self._flow = ctx.flow
        self.seen = ctx.view.groups
        self.own = Counter[str]()
        """The places that the flow itself holds, by group."""
        self.waiting: dict[str, StepPlace] = {}
        """The first step that waits, by group."""
        self.reserved: dict[str, StepPlace] = {}
        """What is held for jobs that do not exist yet, by their names. They have room too."""
        self.held: dict[str, StepPlace] = {}
        """What is held once this plan is stored, by the name of the job."""
        stored = {each.job: each for each in ctx.flow.status.places or () if each.job}
        for position in sorted(ctx.layout.sharing):
            decision = decisions[position]
            if (places := self.of(ctx.layout.steps[position])) is None:
                continue
            for run in decision.condition.runs or (decision.condition,):
                if run.job and run.phase not in _RESTING:
                    places.hold(run.job)
            for draft in decision.drafts:
                if (place := stored.get(draft.name)) is not None:
                    self.reserved[draft.name] = place
                    self.own[place.group] += place.slots

    def of(self, step: Step) -> PlacesOfStep | None:
        """Return the places of a step, or None if it needs none."""
        needed = get_needed(self._flow, step)
        return None if needed is None else PlacesOfStep(self, needed)

    @property
    def all(self) -> list[StepPlace] | None:
        """What the steps have of their groups by this plan."""
        return [*self.held.values(), *self.waiting.values()] or None


class PlacesOfStep(NamedTuple):
    """The places of one step."""

    of_flow: StepPlaces
    needed: StepPlace
    """What each run of the step waits for."""

    def is_reserved(self, draft: Draft | Continuation) -> bool:
        """Return whether the places of a job are stored, so that it may be created."""
        return draft.name in self.of_flow.reserved

    def reserved_first(
        self, drafts: Iterable[Draft | Continuation]
    ) -> Sequence[Draft | Continuation]:
        """Return drafts that may be created now, first those whose places are stored."""
        found = sorted(drafts, key=self.is_reserved, reverse=True)
        for draft in takewhile(self.is_reserved, found):
            self.of_flow.held[draft.name] = self.of_flow.reserved[draft.name]
        return found

    def hold(self, job: str) -> None:
        self.of_flow.held[job] = msgspec.structs.replace(self.needed, job=job, limit=0)
        self.of_flow.own[self.needed.group] += self.needed.slots

    def take(self, draft: Draft | Continuation) -> bool:
        """Take the places of a job, if they are free and nobody waits for any before it."""
        places, needed, group = self.of_flow, self.needed, self.needed.group
        seen, own = places.seen.get((True, group), NO_GROUP), places.own[group]
        if group in places.waiting or not seen.has_room(needed.limit, needed.slots, own):
            places.waiting.setdefault(group, needed)
            return False
        self.hold(draft.name)
        return True

    @property
    def why(self) -> str:
        """What the step waits for if it does not get its places, as a clause."""
        needed = self.needed
        places = "a place" if needed.slots == 1 else format_count(needed.slots, "place")
        group = f"the concurrency group {quote(needed.group)}"
        return f"waits for {places} in {group}: at most {needed.limit:,} at once"
