"""`spec.parallelism`: the most vcjobs of a flow that exist at once, and who takes a free place.

The drafts of all steps are turned into creates as long as there is room. The others are not even
built, because a wide flow may have a thousand of them waiting.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.planning.actions import CreateJob
from jobflow.core.planning.context import Draft, PlanContext, StepDecision
from jobflow.core.planning.flow.held_creates import Turn, under_way
from jobflow.core.planning.waiting import postpone
from jobflow.core.reasons import StepReason
from jobflow.core.text import format_count


class Made(NamedTuple):
    """The decisions after their drafts were built."""

    decisions: list[StepDecision]
    """Without drafts: each is an action, waits for room, or could not be built."""
    faults: Mapping[str, EvaluationFailure]
    """The drafts that could not be built, by the vcjob's name. Their steps fail when they are
    decided again, in this plan or the next."""


def in_room(ctx: PlanContext, decisions: Sequence[StepDecision]) -> Made:
    """Return the decisions with as many creates as there is room for. While a quota or missing
    rights refuse creates, only those whose turn it is are tried."""
    most, held = ctx.flow.spec.parallelism, ctx.view.held
    room = None
    if most is not None and most >= 1:
        jobs, deleted = ctx.view.jobs, ctx.view.deleted
        alive = sum(not job.ended and name not in deleted for name, job in jobs.items())
        room = max(most - alive, 0)
    order = in_start_order(ctx, range(len(decisions)))
    turn = None
    if held is not None and room != 0:
        turn = Turn(held, [decisions[position] for position in order], ctx.now, room)
    found, faults = list(decisions), dict[str, EvaluationFailure]()
    for position in order:
        decision = decisions[position]
        if not (drafts := decision.drafts):
            continue
        tried = drafts if turn is None else turn.let_through(drafts)
        creates, unbuilt = _built(ctx, tried, room)
        faults |= unbuilt
        if room is not None:
            room -= len(creates)
        made = msgspec.structs.replace(
            decision,
            actions=(*decision.actions, *creates),
            drafts=(),
            urgent=decision.urgent or bool(unbuilt),
        )
        if unbuilt:
            found[position] = made
        elif turn is not None:
            found[position] = turn.held_back(made, drafts)
        else:
            found[position] = made if creates else _without_room(made, most or 0)
    return Made(found, faults)


def in_start_order(ctx: PlanContext, positions: Iterable[int]) -> list[int]:
    """Return these steps in the order in which they start: that of `spec.flows`, then that of
    `finally`. It decides who gets room, the order of a plan's actions, and `nextJobs`."""
    return sorted(positions)


def _built(
    ctx: PlanContext, drafts: Iterable[Draft], room: int | None
) -> tuple[list[CreateJob], dict[str, EvaluationFailure]]:
    """Return at most `room` creates, and the drafts that could not be built."""
    creates: list[CreateJob] = []
    unbuilt: dict[str, EvaluationFailure] = {}
    for draft in drafts:
        if len(creates) == room:
            break
        create = draft.build(ctx.flow)
        if isinstance(create, EvaluationFailure):
            unbuilt[draft.name] = create
        else:
            creates.append(create)
    return creates, unbuilt


def _without_room(decision: StepDecision, most: int) -> StepDecision:
    condition = decision.condition
    if under_way(condition):
        return decision
    condition = postpone(
        condition,
        reason=StepReason.PARALLELISM,
        message=f"waits for room: the flow has at most {format_count(most, 'job')} at once",
        next_attempt_time=None,
    )
    return msgspec.structs.replace(decision, condition=condition)
