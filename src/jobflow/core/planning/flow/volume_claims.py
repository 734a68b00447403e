"""`spec.volumeClaims`: a claim is created before the first vcjob that mounts it.

The vcjob is built first, which shows what its pods mount. So a branch that is not taken costs no
claim, and no second rule tells which step needs one. Claims are not watched: that would need the
right to list all claims of the cluster, for a change that nobody makes while a flow runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from jobflow.api.flow.status import ReusedFlow
from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.manifests.volume_claims import (
    build_claim,
    differing_names,
    mounted_claims,
    movable_claims,
)
from jobflow.core.names import claim_names
from jobflow.core.planning.actions import CreateClaim, Event, EventType, MoveClaim
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.decision import CreateFault
from jobflow.core.planning.observed.view import ClaimAnswer, ClaimHolder, CreateError, Refusal
from jobflow.core.reasons import StepReason

AGAIN = "what mounts it runs again, on a new claim"
_NOT_ASKED = Refusal(0, "", datetime.min.replace(tzinfo=UTC))
"""In place of the answer to a request that was not sent."""


@dataclass(frozen=True, slots=True)
class ClaimWait:
    """Why a vcjob waits for a claim."""

    reason: str
    message: str
    retry_at: datetime | None = None
    """When the claim may be created; None: it is being created, or never."""

    @property
    def keeps_place(self) -> bool:
        """Whether the vcjob starts at once, so that no other one may take its room."""
        return self.reason == StepReason.STARTING


class Claims:
    """The claims of one plan."""

    def __init__(self, ctx: PlanContext) -> None:
        self._ctx = ctx
        self._names = claim_names(ctx.flow)
        self._created = frozenset(created_claims(ctx) or ())
        self._asked: set[str] = set()
        """The names of those that this plan creates."""
        self._actions: list[CreateClaim] = []

    def take_actions(self) -> list[CreateClaim]:
        """Return the claims to create now that were asked for since the last call."""
        new, self._actions = self._actions, []
        return new

    def wait_of(self, manifest: Mapping[str, Any]) -> ClaimWait | CreateFault | None:
        """Return why this vcjob cannot be created yet, or never; None if its claims exist."""
        found: ClaimWait | None = None
        # a final fault of one claim counts before the wait for another
        for claim in mounted_claims(manifest["spec"], self._names):
            name = self._names[claim]
            # one that a user deletes later does not come back empty, except by a retry of the flow
            if name in self._created:
                continue
            answer, now = self._ctx.view.claims.get(name), self._ctx.now
            match answer:
                case Refusal(message=message, retry_at=retry_at) as refusal:
                    why = f"the volume claim {name} was refused: {message}"
                    if refusal.is_final:
                        return CreateFault(StepReason.REFUSED, why)
                    wait = ClaimWait(StepReason.CREATE_REFUSED, why, retry_at)
                case ClaimHolder(going=False, owner=owner):
                    whose = "no flow" if owner is None else f"{owner.kind} {owner.name}"
                    why = (
                        f"a PersistentVolumeClaim named {name} exists already and belongs to "
                        f"{whose}: delete it, or give the flow or the claim another name"
                    )
                    return CreateFault(StepReason.NAME_CONFLICT, why)
                # it is being deleted, or its owner is gone
                case ClaimHolder(retry_at=retry_at):
                    why = f"waits until the old volume claim {name} is gone"
                    wait = ClaimWait(StepReason.NAME_IN_USE, why, retry_at)
                case CreateError(message=message) as error if error.shown_at <= now:
                    why = f"the volume claim {name} cannot be created: {message}"
                    wait = ClaimWait(StepReason.CREATE_REFUSED, why)
                case _:
                    why = f"the volume claim {name} is being created"
                    wait = ClaimWait(StepReason.STARTING, why)
            # a create that failed by an error is sent again in the backoff of the flow
            is_open = wait.keeps_place or isinstance(answer, CreateError)
            is_due = wait.retry_at is not None and wait.retry_at <= now
            if (is_due or is_open) and name not in self._asked:
                built = build_claim(self._ctx.flow, claim)
                if isinstance(built, EvaluationFailure):
                    return CreateFault(StepReason.EXPRESSION_ERROR, built.message)
                self._asked.add(name)
                self._actions.append(CreateClaim(name, built))
            if found is None or found.keeps_place:
                found = wait
        return found


class ClaimMoves(NamedTuple):
    """The volume claims that move to a flow before anything starts."""

    actions: tuple[MoveClaim, ...] = ()
    reuse: ReusedFlow | None = None
    """The new `status.reuse`; not `movingClaims` any more once all have been decided."""
    names: dict[str, str] | None = None
    """The new `reusedClaims`."""
    retry_at: datetime | None = None
    """When a move that was refused is tried again."""
    are_under_way: bool = False
    """Whether the steps wait for the status that says that all have been decided."""
    events: tuple[Event, ...] = ()
    """Which claims do not move, and why."""


def moves(ctx: PlanContext) -> ClaimMoves:
    """Return the claims to move now from the flow that is reused. One that is gone or that another
    flow has does not move: the flow creates its own."""
    status, lifecycle, source = ctx.flow.status, ctx.facts.lifecycle, ctx.source
    reuse = status.reuse
    if reuse is None or not reuse.moving_claims:
        return ClaimMoves(reuse=reuse, names=status.reused_claims)
    wanted: Mapping[str, str] = {}
    if source is not None and not lifecycle.ending_reason:
        wanted = movable_claims(ctx.flow, source)
    moved, open_moves = dict(status.reused_claims or {}), dict[str, Refusal | CreateError]()
    for claim, name in wanted.items():
        answer = ctx.view.claims.get(name, _NOT_ASKED)
        if answer is None:
            moved[claim] = name
        elif isinstance(answer, Refusal | CreateError):
            open_moves[name] = answer
    if open_moves:
        refused = {n: each.retry_at for n, each in open_moves.items() if isinstance(each, Refusal)}
        times = [time for time in refused.values() if time is not None]
        may_move = not ctx.terminating and lifecycle.pause is None
        # a move that failed by an error is sent again in the backoff of the flow
        due = (n for n in open_moves if (time := refused.get(n, ctx.now)) and time <= ctx.now)
        actions = tuple(MoveClaim(name, reuse.uid) for name in due) if may_move else ()
        return ClaimMoves(actions, reuse, moved or None, min(times, default=None), True)
    names = differing_names(ctx.flow, moved, ctx.view.claim_takers, source)
    decided = msgspec.structs.replace(reuse, moving_claims=False)
    existed = (source and source.status.volume_claims) or ()
    stay = [name for name in wanted.values() if name in existed and name not in moved.values()]
    events = tuple(_stays(name, ctx.view.claims[name]) for name in stay)
    return ClaimMoves((), decided, names, are_under_way=True, events=events)


def _stays(name: str, answer: ClaimAnswer) -> Event:
    message = f"volume claim {name} {why_it_stays(answer)}, so {AGAIN}"
    return Event(EventType.WARNING, "VolumeClaimNotMoved", message)


def why_it_stays(answer: ClaimAnswer) -> str:
    """Return why a claim does not move, such as `is gone`."""
    if not isinstance(answer, ClaimHolder) or answer.going:
        return "is gone"
    owner = answer.owner
    return "belongs to " + ("no flow" if owner is None else f"{owner.kind} {owner.name}")


def created_claims(ctx: PlanContext) -> list[str] | None:
    """Return the names of the claims that exist, for the status; None if there are none."""
    made = [name for name, answer in ctx.view.claims.items() if answer is None]
    return sorted({*(ctx.flow.status.volume_claims or ()), *made}) or None
