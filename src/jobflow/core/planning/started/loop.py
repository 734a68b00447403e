"""Runs of a step with forEach or repeat: which continue, which start, and when the step ends.

Every run that has begun is decided by itself (`decide_run`). Then the next runs start: items in
their order, up to `forEach.parallelism`; a repeat when the one before has completed, its end is
stored, `until` does not hold, and `repeat.pause` is over.
"""

from collections.abc import Mapping
from functools import partial

import msgspec

from jobflow.api.flow.control import Repeat, to_number
from jobflow.api.flow.status import ENDED_STEP_PHASES, RunCondition, StepPhase
from jobflow.api.volcano.command import Action
from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.cel.scope import evaluate_condition
from jobflow.core.limits import MAX_RUNS
from jobflow.core.planning import target_ends
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.decision import RunDecision, TargetEnd
from jobflow.core.planning.observed.steps import ObservedRun, ObservedStep, fresh
from jobflow.core.planning.reuse import not_compared, rest_of_repeat
from jobflow.core.planning.started.matched_items import ItemStates
from jobflow.core.planning.started.run import (
    FindEnd,
    decide_run,
    failed,
    refused_for_good,
    start_run,
)
from jobflow.core.planning.started.runs import Loop, LoopEnd
from jobflow.core.planning.started.tolerance import until_not_reached
from jobflow.core.planning.work.abort import aborted, ending_reason
from jobflow.core.planning.work.end import duration, ended_by_hand
from jobflow.core.reasons import StepReason
from jobflow.core.spec.items import get_items, get_parallelism, read_bits
from jobflow.core.spec.readiness import SKIPS, is_bad_skip
from jobflow.core.text import format_count, shorten
from jobflow.core.timestamps import add, ceil_to_second

_NONE: frozenset[int] = frozenset()
_DELAYS = ("", StepReason.SUSPENDED)
"""Reasons that only delay items."""


def continue_loop(observed: ObservedStep, ctx: PlanContext, find_end: FindEnd) -> Loop | None:
    """Return the decisions about a step that has begun; None if it has not. If it ended after more
    attempts than are known (`find_end`), it ends so once the known runs have ended."""
    loop = _with_begun(observed, ctx, find_end)
    position = ctx.layout.graph.index[observed.step.name]
    has_to_decide = observed.decided is None and position in ctx.layout.deciding
    end = find_end()
    if end is not None and end.attempts > observed.attempts:
        if all(d.condition.phase in ENDED_STEP_PHASES for _, d in loop.decided.values()):
            # the runs that are not known any more have ended as the step has
            well = end.phase == StepPhase.COMPLETED or loop.failed
            message = target_ends.recorded_end_message(observed, "")
            loop.verdict = LoopEnd() if well else LoopEnd(end.reason, message)
    elif observed.started or any(
        # a first vcjob cannot be created; a tolerated failure is from before a retry of the flow,
        # and so is any failure of a step that has to decide again
        condition.phase == StepPhase.FAILED
        and not (
            (observed.step.continue_on_failure or observed.step.tolerates_items)
            and condition.attempts
        )
        and not has_to_decide
        for condition in loop.conditions
    ):
        _continue(loop, ctx, is_sure=end is not None and end.phase == StepPhase.COMPLETED)
    else:
        return None
    return loop


def begin(observed: ObservedStep, ctx: PlanContext) -> Loop:
    """Return the decisions about a step that starts now."""
    loop = _with_begun(observed, ctx, lambda: None)
    _continue(loop, ctx, is_sure=False)
    # the items that match one that has ended begin once this start is stored
    loop.stores_first |= loop.verdict is None and any(map(loop.has_ended, loop.decided))
    return loop


def _with_begun(observed: ObservedStep, ctx: PlanContext, find_end: FindEnd) -> Loop:
    step = observed.step
    total = len(get_items(step, observed.decided) or ())
    if step.for_each is None and step.repeat is not None:
        most = to_number(step.repeat.max)
        total = MAX_RUNS if most is None else min(max(most, 1), MAX_RUNS)
        known = {run.index for run in observed.runs}
        while total in known and total < MAX_RUNS:  # `max` was lowered past admission
            total += 1
    position = ctx.layout.graph.index[step.name]
    loop = Loop(observed, total, {run.index: run for run in observed.runs})
    if position in ctx.layout.matching:
        loop.states = ItemStates(position, ctx)
    ends = target_ends.recorded_item_ends(ctx).get(position, {})
    for run in observed.runs:
        decision = decide_run(run, ctx, partial(_find_end_of, run, find_end, ends))
        if decision is not None and run.index is not None:
            loop.decided[run.index] = run, decision
    for index, end in ends.items():
        if index not in loop.begun and index < total:
            run = loop.run(index, ctx)
            condition = target_ends.run_ended_as_recorded(end, run)
            loop.decided[index] = run, RunDecision(condition)
    # an answer to a create may be about a run that the status does not know
    for index in range(total) if ctx.view.refusals or ctx.view.holders else ():
        if index not in loop.decided:
            run = fresh(observed, ctx.flow.metadata.name, index)
            if (decision := refused_for_good(run, ctx)) is not None:
                loop.decided[index] = run, decision
    return loop


def _find_end_of(
    run: ObservedRun, find_end: FindEnd, ends: Mapping[int, TargetEnd]
) -> TargetEnd | None:
    """Return how a run ended according to its dependants, which may name its step or itself."""
    if (end := find_end()) is not None:
        return end
    end = ends.get(run.index or 0)
    return end if end is not None and end.attempts >= run.attempts else None


def _continue(loop: Loop, ctx: PlanContext, *, is_sure: bool) -> None:
    """Begin the next runs, or end the step. `is_sure`: a dependant shows that it completed."""
    if loop.observed.step.for_each is not None:
        _items(loop, ctx)
        return
    index = 0
    while index in loop.decided:
        run, decision = loop.decided[index]
        condition = decision.condition
        if condition.phase not in ENDED_STEP_PHASES:
            return
        index += 1
        # `until` was evaluated before the run that follows began
        if condition.phase != StepPhase.FAILED and index in loop.decided:
            continue
        if condition.phase == StepPhase.FAILED or is_sure:
            loop.verdict = LoopEnd()
            return
        if condition.phase != StepPhase.SKIPPED:
            _after_repeat(loop, run, condition, ctx)
        if loop.verdict is not None or loop.wake_at is not None:
            return
    if (order := ctx.order_for(loop.observed)) is not None:
        end = ended_by_hand(loop.observed, order, ctx)
        loop.verdict = LoopEnd(end["reason"], end["message"], end["phase"], end.get("outputs"))
        return
    if (why := ending_reason(loop.observed, ctx)) and why != StepReason.SUSPENDED:
        count = f"{index} of at most {loop.total} runs had ended"
        loop.verdict = LoopEnd(why, aborted(why, count, loop.observed, ctx))
        return
    if ctx.terminating or ctx.pause:
        return
    # `until` may read the outputs of the last run, which a crash would lose
    if index and loop.decided[index - 1][0].stored.phase not in ENDED_STEP_PHASES:
        loop.stores_first = True
    elif loop.next_at is not None:
        loop.wake_at = loop.next_at
    else:
        decision = loop.start(index, ctx)
        for condition in rest_of_repeat(loop.decided[index][0], ctx):  # taken as a whole
            further = loop.run(condition.index or 0, ctx)
            loop.decided[condition.index or 0] = further, RunDecision(condition)
        if loop.failed or decision.condition.reason == StepReason.REUSED:
            loop.verdict = LoopEnd()


def _items(loop: Loop, ctx: PlanContext) -> None:
    """Begin the next items, or end the step if all that have begun have ended and no other may."""
    why = ending_reason(loop.observed, ctx)
    # a suspension only delays items
    for_good = why not in _DELAYS
    loop.judge(ctx, ends=for_good)
    if loop.states is not None and not (why or loop.starts_no_more):
        for index in range(loop.total):
            state = loop.states.of(index)
            if index not in loop.decided and (skip := SKIPS.get(state)) is not None:
                names = loop.states.message(index)
                message = f"{names} did not end as required" if names else "no target was taken"
                message = shorten(message)
                reason = StepReason(skip)
                loop.settle(index, ctx, phase=StepPhase.SKIPPED, reason=reason, message=message)
    if ctx.orders:
        _settle_by_hand(loop, ctx)
    may_start = loop.judge(ctx, ends=for_good) and not (why or ctx.terminating or ctx.pause)
    if may_start:
        _take_results(loop, ctx)
        may_start = loop.judge(ctx, ends=for_good)
    by_hand = loop.begun_by_hand if loop.starts_no_more else _NONE
    if may_start or (by_hand and not (why or ctx.terminating or ctx.pause)):
        _start_items(loop, by_hand, ctx)
        loop.judge(ctx, ends=for_good)
    _leave_out(loop, by_hand, ctx)
    outcome = loop.outcome
    if outcome is not None and outcome.wake_at is not None:
        loop.wake_at = outcome.wake_at
        return
    ended = sum(condition.phase in ENDED_STEP_PHASES for condition in loop.conditions)
    if ended < len(loop.decided):
        # what has failed, or is not needed any more, is stored before anything is ended for it
        if outcome is not None and outcome.reason and not outcome.is_past:
            loop.stores_first |= outcome.reason != loop.observed.stored.reason
        return
    if not (ctx.terminating or by_hand.issubset(loop.decided)) and not for_good:
        return
    # its items were stopped with their targets
    stopped = next((c for c in loop.conditions if c.reason == StepReason.STOPPED), None)
    # the flow ends items beside those whose failure is tolerated
    is_skipped = why == StepReason.SKIPPED_BY_USER
    falls = for_good and outcome is None and not is_skipped and loop.observed.step.tolerates_items
    is_cut = loop.not_started > 0 or any(c.reason == why for c in loop.conditions)
    if stopped is not None and not loop.failed and outcome is None:
        loop.verdict = LoopEnd(stopped.reason, stopped.message, StepPhase.SKIPPED)
    elif (falls and is_cut) or (
        loop.not_started and for_good and not (loop.starts_no_more or loop.failed)
    ):
        count = f"{ended} of {loop.total} items had ended"
        loop.verdict = LoopEnd(why, aborted(why, count, loop.observed, ctx))
    elif not loop.not_started or loop.starts_no_more or (loop.failed and for_good):
        loop.verdict = _end_of_items(loop, is_skipped=is_skipped)


def _end_of_items(loop: Loop, *, is_skipped: bool) -> LoopEnd | None:
    """Return how a step ends whose items have ended as far as they ever start; None if it is not
    known yet whether those that were skipped are tolerated. `is_skipped`: a user has skipped the
    whole step."""
    outcome, states = loop.outcome, loop.states
    if outcome is not None:
        return LoopEnd(outcome.reason, outcome.message)
    message = until_not_reached(loop.observed.step, loop.total, [*loop.conditions])
    if message and not is_skipped:
        return LoopEnd(StepReason.UNTIL_NOT_REACHED, shorten(message))
    if states is not None:
        skipped = (i for i, (_, d) in loop.decided.items() if is_bad_skip(d.condition))
        if any(states.is_tolerated(index) is None for index in skipped):
            return None
    return LoopEnd()


def _start_items(loop: Loop, by_hand: frozenset[int], ctx: PlanContext) -> None:
    """Start the next items that have room. `by_hand`: if not empty, only those."""
    most = get_parallelism(ctx.flow, loop.observed.step)
    room = loop.total if most is None or most < 1 else most
    under_way = sum(condition.phase not in ENDED_STEP_PHASES for condition in loop.conditions)
    for index in range(loop.total):
        if under_way >= room:
            break
        if index in loop.decided or (by_hand and index not in by_hand) or not loop.is_met(index):
            continue
        if _is_taken(loop, index, ctx):
            loop.start(index, ctx)
        # one that is not taken, or whose create was refused, ends at once and takes no room
        if index not in loop.decided or not loop.has_ended(index):
            under_way += 1
        elif not (loop.judge(ctx, ends=False) or by_hand):
            break


def _leave_out(loop: Loop, by_hand: frozenset[int], ctx: PlanContext) -> None:
    """End the items that have no job if the step completes without them."""
    if loop.outcome is None or loop.outcome.reason != StepReason.NOT_NEEDED:
        return
    end = {"phase": StepPhase.SKIPPED, "reason": StepReason.NOT_NEEDED}
    for index in range(loop.total):
        if index not in loop.decided and index not in by_hand:
            loop.settle(index, ctx, **end, message="its step completes without it")
    for index, (run, decision) in loop.decided.items():
        if decision.drafts and not loop.outcome.is_past:  # no further attempt starts
            loop.decided[index] = run, msgspec.structs.replace(decision, drafts=())


def _settle_by_hand(loop: Loop, ctx: PlanContext) -> None:
    """End the items that have not begun and that a user has given up or skipped. If the whole step
    is given up, they never start."""
    whole = ctx.order_for(loop.observed)
    for index in range(loop.total):
        if index in loop.decided:
            continue
        order = ctx.order_for(run := loop.run(index, ctx))
        if order is None or order.action == Action.RETRY_STEPS:
            continue
        if order is not whole or order.action == Action.SKIP_STEP:
            loop.settle(index, ctx, **ended_by_hand(run, order, ctx))


def _is_taken(loop: Loop, index: int, ctx: PlanContext) -> bool:
    """Return whether an item whose turn it is may start: `forEach.when` holds, and this is stored.
    If it does not hold, end the item."""
    each = loop.observed.step.for_each
    if each is None or (when := each.when) is None:
        return True
    stored = loop.observed.stored.decisions
    if stored is not None and read_bits(stored.taken) >> index & 1:
        return True
    run = loop.run(index, ctx)
    holds = ctx.answer(
        run, "forEach.when", lambda: evaluate_condition("forEach.when", when, ctx.seen(run))
    )
    if holds is None:
        loop.wake_at = ctx.later
    elif isinstance(holds, EvaluationFailure):
        loop.decided[index] = run, failed(run, StepReason.EXPRESSION_ERROR, holds.message)
    elif holds:
        loop.taken |= 1 << index
        loop.stores_first = True
    else:
        end = {"phase": StepPhase.SKIPPED, "reason": StepReason.NOT_TAKEN}
        loop.settle(index, ctx, **end, message=shorten(f"`{when}` does not hold"))
    return False


def _take_results(loop: Loop, ctx: PlanContext) -> None:
    """End the items that take the result of an earlier flow, whatever room there is."""
    for index in not_compared(loop.observed, loop.total, ctx):
        if index in loop.decided or loop.run(index, ctx).attempts:
            continue
        if loop.is_met(index) and _is_taken(loop, index, ctx):
            run = loop.run(index, ctx)
            decision = start_run(run, ctx)
            if decision.condition.reason == StepReason.REUSED:
                loop.decided[index] = run, decision


def _after_repeat(loop: Loop, run: ObservedRun, ended: RunCondition, ctx: PlanContext) -> None:
    """End the step with this run, which has completed, if `until` holds or no run may follow; else
    note when the next one may start."""
    repeat = loop.observed.step.repeat or Repeat()
    if run.stored.phase not in ENDED_STEP_PHASES:
        if pause := duration(repeat.pause, None):
            loop.next_at = ceil_to_second(add(ctx.now, pause))
    else:  # the time is stored together with the end of the run
        at = loop.observed.stored.next_attempt_time
        loop.next_at = at if at is not None and ctx.now < at else None
    until = repeat.until
    if until is not None:
        done = ctx.answer(
            run, "until", lambda: evaluate_condition("repeat.until", until, ctx.seen(run, ended))
        )
        if done is None:
            loop.wake_at = ctx.later
            return
        if isinstance(done, EvaluationFailure):
            loop.verdict = LoopEnd(StepReason.EXPRESSION_ERROR, done.message)
            return
        if done:
            loop.verdict = LoopEnd()
            return
    if (run.index or 0) + 1 >= loop.total:
        message = f"`{until}` does not hold after {format_count(loop.total, 'run')}"
        loop.verdict = LoopEnd(StepReason.UNTIL_NOT_REACHED, message)
