"""Runs of a step with forEach or repeat: which continue, which start, and when the step ends.

Every run that has begun is decided by itself (`decide_run`). Then the next runs start: items in
their order, up to `forEach.parallelism`; a repeat when the one before has completed, its end is
stored, `until` does not hold, and `repeat.pause` is over.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

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
from jobflow.core.planning.flow.failure_policy import is_last_failure, runs_every_item
from jobflow.core.planning.flow.restart import runs_again_by_hand
from jobflow.core.planning.observed.steps import ObservedRun, ObservedStep, fresh
from jobflow.core.planning.reuse import not_compared, rest_of_repeat
from jobflow.core.planning.started.matched_items import ItemStates
from jobflow.core.planning.started.run import FindEnd, decide_run, refused_for_good, start_run
from jobflow.core.planning.work.abort import aborted, ending_reason
from jobflow.core.planning.work.end import duration, ended_by_hand
from jobflow.core.reasons import StepReason
from jobflow.core.spec.items import get_items, get_parallelism
from jobflow.core.spec.readiness import SKIPS, TargetState
from jobflow.core.text import format_count, shorten
from jobflow.core.timestamps import add, ceil_to_second

_NONE: frozenset[int] = frozenset()
_DELAYS = ("", StepReason.SUSPENDED)
"""Reasons that only delay items."""


class LoopEnd(NamedTuple):
    """The end of a step, with a reason if it fails although no run has failed."""

    reason: str = ""
    message: str = ""
    phase: StepPhase = StepPhase.FAILED
    """The phase, if there is a reason."""
    outputs: dict[str, Any] | None = None


@dataclass(slots=True)
class Loop:
    """The decisions about the runs of one step."""

    observed: ObservedStep
    total: int
    """The most runs."""
    begun: Mapping[int | None, ObservedRun]
    """The runs in the status or with a vcjob, by index."""
    every: bool = False
    """Whether every item starts (`runs_every_item`)."""
    states: ItemStates | None = None
    """The states of the targets for each item, if the items depend on theirs."""
    decided: dict[int, tuple[ObservedRun, RunDecision]] = field(default_factory=dict)
    """Runs that have begun or start now, by index."""
    verdict: LoopEnd | None = None
    """None if the step has not ended."""
    stores_first: bool = False
    """Whether the next run waits until the end of the last is stored."""
    wake_at: datetime | None = None
    """When to plan again although no run needs it."""
    next_at: datetime | None = None
    """When the next repeat may start, while `repeat.pause` lasts."""

    @property
    def runs(self) -> list[tuple[ObservedRun, RunDecision]]:
        """The decided runs, by index."""
        return [self.decided[index] for index in sorted(self.decided)]

    @property
    def conditions(self) -> Iterator[RunCondition]:
        """The conditions of the decided runs."""
        return (decision.condition for _, decision in self.decided.values())

    @property
    def failed(self) -> bool:
        return any(condition.phase == StepPhase.FAILED for condition in self.conditions)

    @property
    def not_started(self) -> int:
        """The number of runs that have not begun."""
        return self.total - sum(index < self.total for index in self.decided)

    @property
    def first_waiting(self) -> int | None:
        """The first item that waits for an item of a target; None if there is none."""
        if self.states is None or self.starts_no_more:
            return None
        left = (index for index in range(self.total) if index not in self.decided)
        return next((i for i in left if self.states.of(i) is TargetState.NOT_YET), None)

    @property
    def starts_no_more(self) -> bool:
        """Whether no further item starts because one has failed for good."""
        return self.failed and not self.every

    @property
    def begun_by_hand(self) -> frozenset[int]:
        """The items that run again because a user wants them to, although another has failed."""
        runs = self.begun.items()
        return frozenset(index or 0 for index, run in runs if runs_again_by_hand(run.stored))

    def run(self, index: int, ctx: PlanContext) -> ObservedRun:
        """Return the run with an index, which may not have begun."""
        return self.begun.get(index) or fresh(self.observed, ctx.flow.metadata.name, index)

    def start(self, index: int, ctx: PlanContext) -> RunDecision:
        """Start a run now."""
        run = self.run(index, ctx)
        self.decided[index] = run, start_run(run, ctx)
        return self.decided[index][1]


def continue_loop(observed: ObservedStep, ctx: PlanContext, find_end: FindEnd) -> Loop | None:
    """Return the decisions about a step that has begun; None if it has not. If it ended after more
    attempts than are known (`find_end`), it ends so once the known runs have ended."""
    loop = _with_begun(observed, ctx, find_end)
    has_to_decide = observed.decided is None and (
        ctx.layout.graph.index[observed.step.name] in ctx.layout.deciding
    )
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
        and not (observed.step.continue_on_failure and condition.attempts)
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
    every = runs_every_item(ctx.flow, step)
    position = ctx.layout.graph.index[step.name]
    loop = Loop(observed, total, {run.index: run for run in observed.runs}, every)
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
    """Begin the next runs, or end the step. `is_sure`: a dependant shows that a repeat has
    completed."""
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
    if (states := loop.states) is not None and not (why or loop.starts_no_more):
        for index in range(loop.total):
            if index in loop.decided or (skip := SKIPS.get(states.of(index))) is None:
                continue
            run = loop.run(index, ctx)
            condition = msgspec.structs.replace(
                run.stored,
                phase=StepPhase.SKIPPED,
                reason=StepReason(skip),
                message=shorten(f"{states.message(index)} did not end as required"),
                next_attempt_time=None,
            )
            loop.decided[index] = run, RunDecision(condition)
    if ctx.orders:
        _settle_by_hand(loop, ctx)
    ended = sum(d.condition.phase in ENDED_STEP_PHASES for _, d in loop.decided.values())
    # no further item starts while the reason of a failure is being read
    runs = loop.decided.values()
    is_failing = not loop.every and any(d.unjudged and is_last_failure(run) for run, d in runs)
    by_hand = loop.begun_by_hand if loop.starts_no_more else _NONE
    stops = loop.starts_no_more and not by_hand
    if not (why or ctx.terminating or ctx.pause or stops or is_failing):
        ended += _take_results(loop, ctx)
        most = get_parallelism(ctx.flow, loop.observed.step)
        room = loop.total if most is None or most < 1 else most
        # one whose create was refused fails at once, and takes no room
        failed, under_way = 0, len(loop.decided) - ended
        for index in range(loop.total):
            if under_way >= room or (failed and not (loop.every or by_hand)):
                break
            if index in loop.decided or (by_hand and index not in by_hand):
                continue
            if states is None or states.of(index) is TargetState.MET:
                has_failed = loop.start(index, ctx).condition.phase == StepPhase.FAILED
                failed += has_failed
                under_way += not has_failed
        ended += failed
    if ended < len(loop.decided):
        return
    if not (ctx.terminating or by_hand.issubset(loop.decided)) and why in _DELAYS:
        return
    # a suspension only delays items
    for_good = why not in _DELAYS
    # its items were stopped with their targets
    stopped = next((c for c in loop.conditions if c.reason == StepReason.STOPPED), None)
    if stopped is not None and not loop.failed:
        loop.verdict = LoopEnd(stopped.reason, stopped.message, StepPhase.SKIPPED)
    elif not loop.not_started or loop.starts_no_more or (loop.failed and for_good):
        loop.verdict = LoopEnd()
    elif for_good:
        count = f"{ended} of {loop.total} items had ended"
        loop.verdict = LoopEnd(why, aborted(why, count, loop.observed, ctx))


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
            condition = msgspec.structs.replace(run.stored, **ended_by_hand(run, order, ctx))
            loop.decided[index] = run, RunDecision(condition)


def _take_results(loop: Loop, ctx: PlanContext) -> int:
    """End the items that take the result of an earlier flow, whatever room there is. Return how
    many they are."""
    taken = 0
    for index in not_compared(loop.observed, loop.total, ctx):
        if index in loop.decided or loop.run(index, ctx).attempts:
            continue
        if loop.states is None or loop.states.of(index) is TargetState.MET:
            run = loop.run(index, ctx)
            decision = start_run(run, ctx)
            if decision.condition.reason == StepReason.REUSED:
                loop.decided[index] = run, decision
                taken += 1
    return taken


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
