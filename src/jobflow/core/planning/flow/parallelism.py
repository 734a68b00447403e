"""`spec.parallelism`: the most vcjobs of a flow that are alive at once, in the order of its steps.

Which vcjobs are to be made is decided before, for steps that have begun (their next items and
attempts) as for any others; here those that there is room for are built, and no others, for what
waits in a wide flow is a thousand manifests a plan. A vcjob's end has the flow planned again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from jobflow.core.cel.expression import Failure
from jobflow.core.planning.actions import CreateJob
from jobflow.core.planning.context import Draft, PlanContext, StepDecision
from jobflow.core.planning.flow.held_creates import Turn, under_way, waits_instead
from jobflow.core.planning.view import View
from jobflow.core.reasons import StepReason
from jobflow.core.text import counted


class Made(NamedTuple):
    """What the drafts of all decisions have come to."""

    decisions: list[StepDecision]
    """Without drafts: each is an action, waits for room, or could not be built."""
    faults: Mapping[str, Failure]
    """Why, by the vcjob's name. Its step is as it was, and fails in the next judgement: of this
    plan, or of the plan that follows as soon as the status is written."""


def in_room(ctx: PlanContext, decisions: Sequence[StepDecision]) -> Made:
    """The decisions with as many creates as there is room for; `spec.flows` first, then
    `finally`. While a quota or missing rights refuse creates, only those whose turn it is are
    made."""
    most, held = ctx.flow.spec.parallelism, ctx.view.held
    room = None if most is None or most < 1 else max(most - _alive(ctx.view), 0)
    order = in_place_order(ctx, range(len(decisions)))
    turn = None
    if held is not None and room != 0:
        turn = Turn(held, [decisions[position] for position in order], ctx.now, room)
    found, faults = list(decisions), dict[str, Failure]()
    for position in order:
        decision = decisions[position]
        if not (drafts := decision.drafts):
            continue
        tried = drafts if turn is None else turn.let_through(drafts)
        creates, wrong = _built(ctx, tried, room)
        faults |= wrong
        if room is not None:
            room -= len(creates)
        made = msgspec.structs.replace(
            decision,
            actions=(*decision.actions, *creates),
            drafts=(),
            urgent=decision.urgent or bool(wrong),
        )
        if wrong:
            found[position] = made
        elif turn is not None:
            found[position] = turn.held_back(made, drafts)
        else:
            found[position] = made if creates else _without_room(made, most or 0)
    return Made(found, faults)


def in_place_order(ctx: PlanContext, positions: Iterable[int]) -> list[int]:
    """Return these steps in the order in which they take free places: the order of `spec.flows`,
    then that of `finally`."""
    return sorted(positions)


def _built(
    ctx: PlanContext, drafts: Iterable[Draft], room: int | None
) -> tuple[list[CreateJob], dict[str, Failure]]:
    """No more creates than that, and what could not be built on the way, which takes no room."""
    creates: list[CreateJob] = []
    wrong: dict[str, Failure] = {}
    for draft in drafts:
        if len(creates) == room:
            break
        create = draft.build(ctx.flow)
        if isinstance(create, Failure):
            wrong[draft.name] = create
        else:
            creates.append(create)
    return creates, wrong


def _alive(view: View) -> int:
    return sum(not job.ended and name not in view.deleted for name, job in view.jobs.items())


def _without_room(decision: StepDecision, most: int) -> StepDecision:
    """What else it does, and when it wakes, stays: other runs of the step are under way."""
    condition = decision.condition
    if under_way(condition):
        return decision
    condition = waits_instead(
        condition,
        reason=StepReason.PARALLELISM,
        message=f"waits for room: the flow has at most {counted(most, 'job')} at once",
        next_attempt_time=None,
    )
    return msgspec.structs.replace(decision, condition=condition)
