"""Concurrency groups, whose places the flows of a namespace share: of flows, and of steps.

With `spec.concurrency`, a flow holds a place from `status.startTime` to its end, and waits until it
starts. One that is suspended, cancelled or deleted before keeps no others waiting. With
`flows[].concurrency`, what its steps hold and wait for is in `status.places`. Flows wait in the
order of creation or of the last retry.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from jobflow.api.flow.control import Concurrency, ConcurrencyPolicy, StepConcurrency
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import HALTS, StepPlace
from jobflow.api.flow.step import Step
from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.cel.scope import EvaluationScope, resolve_references

_FIRST = datetime.min.replace(tzinfo=UTC)
_POLICIES = {str(policy): policy for policy in ConcurrencyPolicy}

Order = tuple[datetime, str, datetime, str]
"""The position of a flow among those that wait: creation or last retry of its outermost flow and
the name of that, then its own."""

GroupName = tuple[bool, str]
"""Whether it is a group of steps, and its name."""


class Share(NamedTuple):
    """What a flow has of a group."""

    holds: int = 0
    """The places that it, or its steps, hold."""
    waits: bool = False
    slots: int = 1
    """The places for which it waits, with `waits`."""
    limit: int = 1
    """The most places of the group that may be taken once it has them."""

    def fits(self, taken: int) -> bool:
        """Return whether it gets the places for which it waits if so many are taken."""
        return taken + self.slots <= self.limit


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A flow of a group, as other flows of the group see it."""

    name: str
    uid: str
    ending: bool = False
    """Whether it is already being cancelled or deleted, or has exceeded its timeout."""
    slots: int = 1
    """The places that it holds."""


@dataclass(frozen=True, slots=True)
class Group:
    """The other flows of a group, as one of its flows sees them."""

    holders: tuple[GroupMember, ...] = ()
    """The flows that hold places, by name."""
    before: tuple[GroupMember, ...] = ()
    """The flows that wait before it, in their order."""
    moves: bool = False
    """Whether the first of `before` can start now, so that the group is about to change."""

    @property
    def taken(self) -> int:
        """The places that the others hold."""
        return sum(member.slots for member in self.holders)

    def has_room(self, limit: int, slots: int = 1, own: int = 0) -> bool:
        """Return whether a flow that has `own` places, or a step of it, may take places."""
        # the line is kept: nobody overtakes one that waits longer
        return not self.before and self.taken + own + slots <= limit


NO_GROUP = Group()
NO_GROUPS: Mapping[GroupName, Group] = {}


def resolve_group(flow: JobFlow, concurrency: Concurrency | StepConcurrency) -> Any:
    """Return a group with the values of its references, or a Failure."""
    return resolve_references(concurrency.group, EvaluationScope(flow, lambda name: None))


def get_group(flow: JobFlow, concurrency: Concurrency | StepConcurrency | None) -> str:
    """Return the name of a group; "" if there is none, or one that admission refuses."""
    if concurrency is None:
        return ""
    found = resolve_group(flow, concurrency)
    if isinstance(found, str):
        return found
    return "" if isinstance(found, EvaluationFailure) else msgspec.json.encode(found).decode()


def get_limit(concurrency: Concurrency | StepConcurrency | None) -> int:
    """Return how many places of the group may be taken, with those of the flow; at least 1."""
    limit = concurrency.limit if concurrency is not None else None
    return 1 if limit is None else max(1, limit)


def get_limits(flow: JobFlow) -> Iterator[tuple[GroupName, int]]:
    """Yield the groups of a flow and of its steps, each with the limit that it has there."""
    of_steps = [step.concurrency for step in flow.all_steps if step.concurrency is not None]
    for place, each in enumerate((flow.spec.concurrency, *of_steps)):
        if group := get_group(flow, each):
            yield (place > 0, group), get_limit(each)


def get_needed(flow: JobFlow, step: Step) -> StepPlace | None:
    """Return the places for which a run of a step waits; None if it needs none."""
    each = step.concurrency
    if each is None or not (group := get_group(flow, each)):
        return None
    slots = 1 if each.slots is None else max(1, each.slots)
    return StepPlace(group=group, step=step.name, slots=slots, limit=get_limit(each))


def get_policy(flow: JobFlow) -> ConcurrencyPolicy:
    """Return what the flow does without a place; the default for a value that admission refuses."""
    policy = flow.spec.concurrency.policy if flow.spec.concurrency is not None else None
    return _POLICIES.get(policy or "", ConcurrencyPolicy.WAIT)


def needs_place(flow: JobFlow) -> bool:
    return (
        flow.spec.concurrency is not None
        and flow.status.start_time is None
        and not flow.final
        and bool(get_group(flow, flow.spec.concurrency))
    )


def holds_place(flow: JobFlow) -> bool:
    return flow.status.start_time is not None and not flow.final


def is_ending(flow: JobFlow) -> bool:
    ending = flow.status.state.reason in HALTS
    return ending or flow.metadata.deletion_timestamp is not None


def is_waiting(flow: JobFlow) -> bool:
    """Return whether the flow waits for a place, so that later flows wait behind it."""
    return needs_place(flow) and not _is_passed_over(flow)


def _is_passed_over(flow: JobFlow) -> bool:
    status = flow.status
    # without a phase, the first plan has not read spec.suspend yet
    suspended = status.suspended_at is not None or (flow.spec.suspend and not status.state.phase)
    return bool(suspended) or is_ending(flow)


def get_order(flow: JobFlow, outermost: JobFlow) -> Order:
    """Return the position of a flow. `outermost`: the flow itself unless it is a child flow."""
    times = [(_queued(each), each.metadata.name) for each in (outermost, flow)]
    return times[0] + times[1]


def _queued(flow: JobFlow) -> datetime:
    return flow.status.queued_time or flow.metadata.creation_timestamp or _FIRST


def may_share(flow: JobFlow) -> bool:
    """Return whether a flow may have a share of a group: quickly, because most have none."""
    is_new = not flow.status.state.phase
    return bool(flow.spec.concurrency or flow.status.places) or (
        is_new and any(step.concurrency is not None for step in flow.steps)
    )


def get_shares(flow: JobFlow) -> dict[GroupName, Share]:
    """Return what a flow has of each of its groups. One of flows is there also before and after the
    flow matters to it."""
    found: dict[GroupName, Share] = {}
    if group := get_group(flow, flow.spec.concurrency):
        limit = get_limit(flow.spec.concurrency)
        found[False, group] = Share(int(holds_place(flow)), is_waiting(flow), limit=limit)
    places = [*(() if flow.final else flow.status.places or ())]
    if not flow.status.state.phase and not _is_passed_over(flow):
        # its first plan, which may come late, asks for places: first those of the first step
        needed = [get_needed(flow, step) for step in flow.steps if not step.targets]
        places += filter(None, reversed(needed))
    for place in places:
        share = found.get((True, place.group), Share())
        if place.job:
            share = share._replace(holds=share.holds + place.slots)
        else:
            share = share._replace(waits=True, slots=place.slots, limit=place.limit)
        found[True, place.group] = share
    return found
