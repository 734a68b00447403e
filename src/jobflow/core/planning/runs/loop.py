"""Runs of a step with forEach or repeat: which continue, which start, and when the step ends.

Every run that has begun is decided by itself (`decide_run`). Then the next runs start: items in
their order, up to `forEach.parallelism`; a repeat when the one before has completed, its end is
stored, and `until` does not hold. After an item has failed for good, no further item starts unless
the step runs every item (`runs_every_item`). A suspension or the end of the flow stops only runs
that have not begun. `summarize` makes one condition of all runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from jobflow.api.flow_status import ENDED_STEP_PHASES, RunCondition, StepPhase
from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.cel.scope import evaluate_condition
from jobflow.core.limits import MAX_RUNS
from jobflow.core.planning.context import PlanContext, RunDecision, TargetEnd
from jobflow.core.planning.flow.failure_policy import runs_every_item
from jobflow.core.planning.observed import ObservedRun, ObservedStep, fresh
from jobflow.core.planning.runs.abort import aborted, ending_reason
from jobflow.core.planning.runs.create import refused_for_good
from jobflow.core.planning.runs.run import FindEnd, decide_run, start_run
from jobflow.core.planning.target_ends import recorded_end_message
from jobflow.core.reasons import StepReason
from jobflow.core.spec.items import get_items
from jobflow.core.text import format_count


class LoopEnd(NamedTuple):
    """The end of a step, with a reason if it fails although no run has failed."""

    reason: str = ""
    message: str = ""


@dataclass(slots=True)
class Loop:
    """The decisions about the runs of one step."""

    observed: ObservedStep
    total: int
    """The most runs."""
    known: Mapping[int | None, ObservedRun]
    """The runs in the status or with a vcjob, by index."""
    every: bool = False
    """Whether every item starts (`runs_every_item`)."""
    decided: dict[int, tuple[ObservedRun, RunDecision]] = field(default_factory=dict)
    """Runs that have begun or start now, by index."""
    verdict: LoopEnd | None = None
    """None if the step has not ended."""
    stores_first: bool = False
    """Whether the next run waits until the end of the last is stored."""
    wake_at: datetime | None = None
    """When to plan again although no run needs it."""

    @property
    def runs(self) -> list[tuple[ObservedRun, RunDecision]]:
        """The decided runs, by index."""
        return [self.decided[index] for index in sorted(self.decided)]

    @property
    def failed(self) -> bool:
        return any(d.condition.phase == StepPhase.FAILED for _, d in self.decided.values())

    @property
    def not_started(self) -> int:
        """The number of runs that have not begun."""
        return self.total - sum(index < self.total for index in self.decided)

    @property
    def starts_no_more(self) -> bool:
        """Whether no further item starts because one has failed for good."""
        return self.failed and not self.every

    def start(self, index: int, ctx: PlanContext) -> RunDecision:
        run = self.known.get(index) or fresh(self.observed, ctx.flow.metadata.name, index)
        decision = start_run(run, ctx)
        self.decided[index] = run, decision
        return decision


def continue_loop(observed: ObservedStep, ctx: PlanContext, find_end: FindEnd) -> Loop | None:
    """Return the decisions about a step that has begun; None if it has not. If it ended after more
    attempts than are known (`find_end`), it ends so once the known runs have ended."""
    loop = _known(observed, ctx, find_end)
    end = find_end()
    if end is not None and end.attempts > observed.attempts:
        if all(d.condition.phase in ENDED_STEP_PHASES for _, d in loop.decided.values()):
            well = end.phase == StepPhase.COMPLETED or loop.failed
            loop.verdict = LoopEnd() if well else LoopEnd(end.reason, recorded_end_message(""))
    elif observed.started or loop.failed:
        _continue(loop, ctx, end)
    else:
        return None
    return loop


def begin(observed: ObservedStep, ctx: PlanContext) -> Loop:
    """Return the decisions about a step that starts now."""
    loop = _known(observed, ctx, lambda: None)
    _continue(loop, ctx, None)
    return loop


def _known(observed: ObservedStep, ctx: PlanContext, find_end: FindEnd) -> Loop:
    step = observed.step
    items = get_items(step, observed.decided)
    total = _most(observed) if step.for_each is None else len(items or ())
    every = runs_every_item(ctx.flow, step)
    loop = Loop(observed, total, {run.index: run for run in observed.runs}, every)
    for run in observed.runs:
        decision = decide_run(run, ctx, find_end)
        if decision is not None and run.index is not None:
            loop.decided[run.index] = run, decision
    if ctx.view.refusals or ctx.view.holders:
        _add_refused(loop, ctx)
    return loop


def _most(observed: ObservedStep) -> int:
    repeat = observed.step.repeat
    most = repeat.max if repeat is not None else None
    total = MAX_RUNS if most is None else min(max(most, 1), MAX_RUNS)
    known = {run.index for run in observed.runs}
    while total in known and total < MAX_RUNS:  # `max` was lowered past admission
        total += 1
    return total


def _add_refused(loop: Loop, ctx: PlanContext) -> None:
    for index in range(loop.total):
        if index not in loop.decided:
            run = fresh(loop.observed, ctx.flow.metadata.name, index)
            if (decision := refused_for_good(run, ctx)) is not None:
                loop.decided[index] = run, decision


def _continue(loop: Loop, ctx: PlanContext, end: TargetEnd | None) -> None:
    if loop.observed.step.for_each is not None:
        _items(loop, ctx)
    else:
        _repeats(loop, ctx, sure=end is not None and end.phase == StepPhase.COMPLETED)


def _items(loop: Loop, ctx: PlanContext) -> None:
    """Begin the next items, or end the step if all items that have begun have ended and no other
    may begin. A flow that is suspended or being deleted only delays items."""
    ended = sum(d.condition.phase in ENDED_STEP_PHASES for _, d in loop.decided.values())
    why = ending_reason(loop.observed, ctx)
    if not (why or ctx.terminating or ctx.suspended or loop.starts_no_more):
        ended += _next_items(loop, ctx, len(loop.decided) - ended)
    if ended < len(loop.decided):
        return
    for_good = why not in ("", StepReason.SUSPENDED)
    if not loop.not_started or loop.starts_no_more or (loop.failed and for_good):
        loop.verdict = LoopEnd()
    elif for_good:
        count = f"{ended} of {loop.total} items had ended"
        loop.verdict = LoopEnd(why, aborted(why, count, loop.observed, ctx))


def _next_items(loop: Loop, ctx: PlanContext, under_way: int) -> int:
    """Start as many items as there is room for. Return how many of them failed at once."""
    each = loop.observed.step.for_each
    most = each.parallelism if each is not None else None
    room = loop.total if most is None or most < 1 else most
    failed = 0
    for index in range(loop.total):
        if under_way >= room or (failed and not loop.every):
            break
        if index not in loop.decided:
            has_failed = loop.start(index, ctx).condition.phase == StepPhase.FAILED
            failed += has_failed
            under_way += not has_failed
    return failed


def _repeats(loop: Loop, ctx: PlanContext, *, sure: bool) -> None:
    """Start the next repeat, or end the step. `sure`: a dependant shows that it has completed."""
    for index in range(loop.total):
        if index not in loop.decided:
            _next_repeat(loop, index, ctx)
            return
        run, decision = loop.decided[index]
        condition = decision.condition
        if condition.phase not in ENDED_STEP_PHASES:
            return
        if condition.phase == StepPhase.FAILED:
            loop.verdict = LoopEnd()
            return
        if index + 1 in loop.decided:
            continue
        if sure:
            loop.verdict = LoopEnd()
            return
        _until(loop, run, condition, ctx)
        if loop.verdict is not None or loop.wake_at is not None:
            return


def _until(loop: Loop, run: ObservedRun, ended: RunCondition, ctx: PlanContext) -> None:
    """End the step with this run, which has completed, if `until` holds or no run may follow."""
    repeat = loop.observed.step.repeat
    until = repeat.until if repeat is not None else None
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


def _next_repeat(loop: Loop, index: int, ctx: PlanContext) -> None:
    if (why := ending_reason(loop.observed, ctx)) and why != StepReason.SUSPENDED:
        count = f"{index} of at most {loop.total} runs had ended"
        loop.verdict = LoopEnd(why, aborted(why, count, loop.observed, ctx))
        return
    if ctx.terminating or ctx.suspended:
        return
    if index and loop.decided[index - 1][0].stored.phase not in ENDED_STEP_PHASES:
        loop.stores_first = True
        return
    loop.start(index, ctx)
    if loop.failed:
        loop.verdict = LoopEnd()
