"""`spec.parallelism`: the most vcjobs of a flow that exist at once, and who takes a free place.

A full quota or a missing right refuses every vcjob of the flow, so only a few are tried (`Held`):
first those that were never tried, in their start order (that of `spec.flows`, then of `finally`),
then those that were refused longest ago. Every vcjob gets its turn, and a smaller one can be
created even if another cannot.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

import msgspec

from jobflow.api.flow.status import ENDED_STEP_PHASES, StepCondition, StepPhase
from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.planning.actions import CommandFlow, CreateClaim, CreateJob
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.decision import Continuation, CreateFault, Draft, StepDecision, postpone
from jobflow.core.planning.flow.concurrency import PlacesOfStep, StepPlaces
from jobflow.core.planning.flow.volume_claims import Claims, ClaimWait
from jobflow.core.planning.observed.view import Held
from jobflow.core.reasons import StepReason
from jobflow.core.spec.items import get_parallelism
from jobflow.core.text import format_count, shorten
from jobflow.core.timestamps import ceil_to_second

_HELD = frozenset({StepReason.CREATE_REFUSED, StepReason.NAME_IN_USE})


class Made(NamedTuple):
    """The decisions after their drafts were built."""

    decisions: list[StepDecision]
    """Without drafts: each is an action, waits for room, or could not be built."""
    faults: Mapping[str, CreateFault]
    """The drafts that can never be created, by the vcjob's name. Their steps fail when they are
    decided again, in this plan or the next."""


def in_room(
    ctx: PlanContext, decisions: Sequence[StepDecision], among: Iterable[int] | None = None
) -> Made:
    """Return the decisions with as many creates as there is room for. `among`: the positions that
    may have drafts; default: all."""
    most, held = get_parallelism(ctx.flow), ctx.view.held
    places = StepPlaces(ctx, decisions) if ctx.layout.sharing else None
    room = None
    if most is not None and most >= 1:
        jobs, deleted = ctx.view.jobs, ctx.view.deleted
        # also objects that no run needs: they take room in the cluster
        alive = sum(not job.ended and name not in deleted for name, job in jobs.items())
        alive += 0 if places is None else len(places.reserved)
        room = max(most - alive, 0)
    positions = range(len(decisions)) if among is None else among
    order = sorted(each for each in positions if decisions[each].drafts)
    turn = None
    if held is not None and room != 0:
        turn = Turn(held, [decisions[position] for position in order], ctx.now, room)
    found, faults = list(decisions), dict[str, CreateFault]()
    claims = Claims(ctx) if ctx.flow.spec.volume_claims else None
    for position in order:
        decision, stored = decisions[position], ctx.observed[position].stored
        drafts = decision.drafts
        tried = drafts if turn is None else turn.select(drafts)
        own = None if places is None else places.of(ctx.layout.steps[position])
        built = _build(ctx, tried, room, claims, own, was_held=stored.reason in _HELD)
        faults |= built.faults
        if room is not None:
            room -= built.room
        wake_ups = [decision.wake_at, built.wait.retry_at if built.wait else None]
        if built.is_late:
            wake_ups.append(ctx.later)
        # the retry of a child flow has its place, also one that was sent a moment ago
        sent = (
            create
            for create in built.creates
            if isinstance(create, CreateJob) or ctx.command_again(create.key) is None
        )
        made = msgspec.structs.replace(
            decision,
            actions=(*decision.actions, *built.claims, *sent),
            drafts=(),
            wake_at=min((at for at in wake_ups if at is not None), default=None),
            urgent=decision.urgent or bool(built.faults) or built.placed,
        )
        if turn is not None and not built.faults:
            made = turn.hold_back(made, drafts)
        elif built.no_place and _is_under_way(decision.condition):
            condition = _with_next(made.condition, built.no_place)
            made = msgspec.structs.replace(made, condition=condition)
        elif not (
            built.faults or built.creates or built.placed or _is_under_way(decision.condition)
        ):
            made = _without_create(made, stored, built, most or 0)
        found[position] = made
    if places is not None:
        ctx.progress.places = places.all
    return Made(found, faults)


@dataclass(slots=True)
class _Built:
    """The drafts of a step that were built."""

    creates: list[CreateJob | CommandFlow] = field(default_factory=list)
    claims: list[CreateClaim] = field(default_factory=list)
    """The claims that they need and that are to be created first."""
    faults: dict[str, CreateFault] = field(default_factory=dict)
    wait: ClaimWait | None = None
    """Why the first of those that wait for a volume claim does."""
    is_late: bool = False
    """Whether this plan may not build the others, or not evaluate their vars."""
    room: int = 0
    """How many take room: those that are created, now or once their claims or places are."""
    placed: bool = False
    """Whether some get places of a concurrency group now, and are created once that is stored."""
    no_place: str = ""
    """What the first of those waits for that have not got a place, as a clause."""


def _build(
    ctx: PlanContext,
    drafts: Iterable[Draft | Continuation],
    room: int | None,
    claims: Claims | None,
    places: PlacesOfStep | None,
    *,
    was_held: bool,
) -> _Built:
    """Build drafts, for which there is this room. `places`: those of the step, if it needs any;
    `was_held`: by the status, the step waits for a volume claim, or its create was refused."""
    built, budget = _Built(), ctx.progress.creates
    compared = ctx.progress.reusing.built
    for draft in drafts if places is None else places.reserved_first(drafts):
        # one whose places are stored has room too
        is_reserved = places is not None and places.is_reserved(draft)
        # the others are not even built: a wide flow may have a thousand of them waiting
        if not is_reserved and built.room == room:
            break
        has_vars = isinstance(draft, Draft) and draft.step.vars
        if budget.is_spent(for_waiting=was_held) or (has_vars and ctx.progress.allowance.spent):
            built.is_late = True
            break
        create: CreateJob | CommandFlow | EvaluationFailure | None
        create = compared.get(draft.name) if compared else None
        if create is None:
            create = draft.build(ctx.flow, ctx.progress.allowance)
            budget.take(draft, create)
        if isinstance(create, EvaluationFailure):
            built.faults[draft.name] = CreateFault(StepReason.EXPRESSION_ERROR, create.message)
            continue
        waits = None
        if claims is not None and isinstance(create, CreateJob):
            waits = claims.wait_of(create.manifest)
        match waits:
            case None:
                if places is None or is_reserved:
                    built.creates.append(create)
                elif places.take(draft):
                    built.placed = True
                else:
                    built.no_place = places.why
                    break
                built.room += not is_reserved
            case CreateFault() as fault:
                built.faults[draft.name] = fault
            case ClaimWait():
                built.wait = built.wait or waits
                built.room += waits.keeps_place
    built.claims = [] if claims is None else claims.take_actions()
    return built


def _with_next(condition: StepCondition, waits: str) -> StepCondition:
    """Return the condition of a forEach with items under way, with what the next one waits for."""
    message = shorten(f"{condition.message}; the next {waits}")
    return msgspec.structs.replace(condition, message=message)


def _without_create(
    decision: StepDecision, stored: StepCondition, built: _Built, most: int
) -> StepDecision:
    """Let a step wait for a volume claim, for the next plan or for room."""
    condition = decision.condition
    if built.wait is not None:
        reason, message, until = built.wait.reason, shorten(built.wait.message), None
        if built.wait.retry_at is not None and not condition.attempts:
            until = ceil_to_second(built.wait.retry_at)
    elif built.no_place:
        reason, message, until = StepReason.CONCURRENCY, built.no_place, None
    elif not built.is_late:
        reason, until = StepReason.PARALLELISM, None
        message = f"waits for room: the flow has at most {format_count(most, 'job')} at once"
    elif stored.reason in _HELD:
        reason, message, until = stored.reason, stored.message, stored.next_attempt_time
    else:
        return decision
    condition = postpone(condition, reason=reason, message=message, next_attempt_time=until)
    return msgspec.structs.replace(decision, condition=condition)


class Turn:
    """The vcjobs whose turn it is to be tried."""

    def __init__(
        self, held: Held, decisions: Iterable[StepDecision], now: datetime, most: int | None
    ) -> None:
        """`most`: the number of vcjobs that the flow has room for; None: any number."""
        self._held = held
        self._is_due = held.is_due(now)
        refused = {name: place for place, name in enumerate(held.tried)}
        names = [draft.name for decision in decisions for draft in decision.drafts]
        names.sort(key=lambda name: refused.get(name, -1))
        self._names = frozenset(names[: held.room][:most])

    def select(self, drafts: Iterable[Draft | Continuation]) -> list[Draft | Continuation]:
        """Return those that are tried now."""
        return [draft for draft in drafts if self._is_due and draft.name in self._names]

    def hold_back(
        self, decision: StepDecision, drafts: Iterable[Draft | Continuation]
    ) -> StepDecision:
        """Return the decision with the reason why its step waits. `drafts`: its vcjobs, tried or
        not, so that a try alone does not change the condition."""
        condition, why, retry_at = decision.condition, self._held.message, self._held.retry_at
        if retry_at is not None:
            why = f"{why}; the flow's jobs are tried in turn"
        if _is_under_way(condition):  # a forEach that has other items
            condition = _with_next(condition, f"waits: {why}")
        else:
            # the time of the next try is that of the jobs whose turn it is
            is_next = any(draft.name in self._names for draft in drafts)
            until = ceil_to_second(retry_at) if retry_at is not None and is_next else None
            condition = postpone(
                condition,
                reason=StepReason.CREATE_REFUSED,
                message=shorten(why),
                next_attempt_time=None if condition.attempts else until,
            )
        made = msgspec.structs.replace(decision, condition=condition)
        if retry_at is None or self._is_due:
            return made
        wake_at = min(decision.wake_at or retry_at, retry_at)
        return msgspec.structs.replace(made, wake_at=wake_at)


def _is_under_way(condition: StepCondition) -> bool:
    """Whether the step, or any of its runs, has a vcjob that has not ended."""
    runs = condition.runs or (condition,)
    return any(run.phase not in (StepPhase.WAITING, *ENDED_STEP_PHASES) for run in runs)
