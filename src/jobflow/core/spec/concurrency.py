"""`spec.concurrency`: a flow holds a place in its group, within its namespace, from
`status.startTime` to its end. Until it starts it waits, in the order of creation or of the last
retry. One that is suspended, cancelled or deleted before keeps no others waiting."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from jobflow.api.flow.control import ConcurrencyPolicy
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import HALTS
from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.cel.scope import EvaluationScope, resolve_references

_FIRST = datetime.min.replace(tzinfo=UTC)
_POLICIES = {str(policy): policy for policy in ConcurrencyPolicy}

Order = tuple[datetime, str]
"""The position of a flow among those that wait: creation or last retry, then name."""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A flow of a group, as other flows of the group see it."""

    name: str
    uid: str
    ending: bool = False
    """Whether it is already being cancelled or deleted, or has exceeded its timeout."""


@dataclass(frozen=True, slots=True)
class Group:
    """The other flows of a flow's group."""

    holders: tuple[GroupMember, ...] = ()
    """The flows that hold a place, by name."""
    before: tuple[GroupMember, ...] = ()
    """The flows that wait before it, in their order."""
    moves: bool = False
    """Whether the first of `before` can start now, so that the group is about to change."""


NO_GROUP = Group()


def resolve_group(flow: JobFlow) -> Any:
    """Return the group with the values of its references, or a Failure; None without a group."""
    concurrency = flow.spec.concurrency
    if concurrency is None:
        return None
    return resolve_references(concurrency.group, EvaluationScope(flow, lambda name: None))


def get_group(flow: JobFlow) -> str:
    """Return the name of the flow's group; "" if it has none, or one that admission refuses."""
    found = resolve_group(flow)
    if found is None or isinstance(found, str):
        return found or ""
    return "" if isinstance(found, EvaluationFailure) else msgspec.json.encode(found).decode()


def get_limit(flow: JobFlow) -> int:
    """Return how many flows of the group may hold a place for this one to start; at least 1."""
    limit = flow.spec.concurrency.limit if flow.spec.concurrency is not None else None
    return 1 if limit is None else max(1, limit)


def get_policy(flow: JobFlow) -> ConcurrencyPolicy:
    """Return what the flow does without a place; the default for a value that admission refuses."""
    policy = flow.spec.concurrency.policy if flow.spec.concurrency is not None else None
    return _POLICIES.get(policy or "", ConcurrencyPolicy.WAIT)


def needs_place(flow: JobFlow) -> bool:
    return (
        flow.spec.concurrency is not None
        and flow.status.start_time is None
        and not flow.final
        and bool(get_group(flow))
    )


def holds_place(flow: JobFlow) -> bool:
    return flow.status.start_time is not None and not flow.final


def is_ending(flow: JobFlow) -> bool:
    ending = flow.status.state.reason in HALTS
    return ending or flow.metadata.deletion_timestamp is not None


def is_waiting(flow: JobFlow) -> bool:
    """Return whether the flow waits for a place, so that later flows wait behind it."""
    status = flow.status
    # without a phase, the first plan has not read spec.suspend yet
    suspended = status.suspended_at is not None or (flow.spec.suspend and not status.state.phase)
    return needs_place(flow) and not suspended and not is_ending(flow)


def get_order(flow: JobFlow) -> Order:
    meta = flow.metadata
    return flow.status.queued_time or meta.creation_timestamp or _FIRST, meta.name
