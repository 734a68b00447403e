"""Which items of a step may still start, and whether it is decided how the step ends.

`judge` is the one place that says so. Without a tolerance no further item starts after one has
failed for good, unless failurePolicy or continueOnFailure says otherwise. `forEach.maxFailed`,
`minSuccess` and `until` go by what all items have done. Their decision is the reason of the step
from then on: what ends an item for it reads the stored one.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from msgspec.structs import replace

from jobflow.api.flow.control import ForEach
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import ENDED_STEP_PHASES, RunCondition, StepCondition, StepPhase
from jobflow.api.flow.step import Step
from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.cel.scope import evaluate_condition
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.flow.failure_policy import runs_every_item
from jobflow.core.planning.observed.steps import ObservedStep
from jobflow.core.reasons import DECIDES_ITEMS, StepReason
from jobflow.core.spec.items import count_of, get_item
from jobflow.core.spec.readiness import is_flow_error
from jobflow.core.text import format_count


class Outcome(NamedTuple):
    """Why no further item starts."""

    reason: str = ""
    """NotNeeded, TooManyFailed or ExpressionError; "" if the step fails as one of its items."""
    message: str = ""
    is_final: bool = True
    """Whether it is decided. If not, further items only wait until it is."""
    is_past: bool = False
    """Whether it was decided before a user ran single items again, which it does not end."""
    wake_at: datetime | None = None
    """When to decide, if this plan may evaluate no more."""


WAITS = Outcome(is_final=False)


class _Counts(NamedTuple):
    base: int
    """The items that are not NotTaken."""
    completed: int
    failed: int
    skipped: int
    """Those that can no longer complete although they have not failed."""


def judge(
    observed: ObservedStep,
    total: int,
    conditions: Collection[RunCondition],
    ctx: PlanContext,
    *,
    unjudged: int = 0,
    completing: bool = False,
    ends: bool = False,
) -> Outcome | None:
    """Return why no further item of a step starts, or None if items may start. `conditions`: of the
    items that have begun or ended; `unjudged`: how many have failed for a reason that is still
    being read; `completing`: whether the outputs of one that has completed are; `ends`: whether
    something else ends the step."""
    step, each = observed.step, observed.step.for_each
    failed = [each for each in conditions if each.phase == StepPhase.FAILED]
    if each is None or not step.tolerates_items:
        if not (failed or unjudged) or runs_every_item(ctx.flow, step):
            return None
        return Outcome() if failed else WAITS
    stored = observed.stored
    if stored.reason in DECIDES_ITEMS and stored.phase not in ENDED_STEP_PHASES:
        return Outcome(stored.reason, stored.message)
    if any(each.reason == StepReason.NOT_NEEDED for each in conditions):
        return Outcome(StepReason.NOT_NEEDED, is_past=True)
    counts = _count(total, conditions)
    if not counts.base:
        return None
    # if the items that a retry has left were enough, it ends none that runs again
    left = [run for run in conditions if run.past_attempts == run.attempts > 0]
    found = _find_goal(observed, left, counts, ctx)
    if found is not None and found.reason == StepReason.NOT_NEEDED:
        return found._replace(is_past=True)
    if (found := _find_goal(observed, conditions, counts, ctx)) is not None:
        return found
    if any(map(is_flow_error, failed)):
        return Outcome()
    if ends:
        return None
    if _is_lost(each, counts):
        text = f"{counts.failed} of {format_count(counts.base, 'item')} failed"
        return Outcome(StepReason.TOO_MANY_FAILED, f"{text}; {say_limit(each)}")
    further = counts._replace(failed=counts.failed + unjudged)
    may_decide = completing and (each.until, each.min_success) != (None, None)
    return WAITS if may_decide or (unjudged and _is_lost(each, further)) else None


def _find_goal(
    observed: ObservedStep, runs: Collection[RunCondition], of: _Counts, ctx: PlanContext
) -> Outcome | None:
    """Return that these items are enough, or that it is not known; None if they are not."""
    each, completed = observed.step.for_each or ForEach(), _count(0, runs).completed
    if (least := _least(each, of)) is not None and completed >= least:
        text = f"{completed} of {format_count(of.base, 'item')} have completed"
        return Outcome(StepReason.NOT_NEEDED, f"{text}; {say_limit(each)}")
    return _ask_until(observed, each.until, runs, ctx) if each.until and completed else None


def starts_no_more(flow: JobFlow, step: Step, condition: StepCondition) -> bool:
    """Whether no further item starts, as far as the condition of the step shows it."""
    failed = [run for run in condition.runs or () if run.phase == StepPhase.FAILED]
    if step.tolerates_items:
        return condition.reason in DECIDES_ITEMS or any(map(is_flow_error, failed))
    return bool(failed) and not runs_every_item(flow, step)


def until_not_reached(step: Step, total: int, conditions: Iterable[RunCondition]) -> str:
    """Return why a step fails whose items have all ended, because `until` never held; "" if not."""
    each = step.for_each
    if each is None or each.until is None:
        return ""
    base = _count(total, list(conditions)).base
    text = f"`{each.until}` does not hold after {format_count(base, 'item')}"
    return text if base else ""


def say_limit(each: ForEach) -> str:
    """Return the tolerance of failed items, as it is written."""
    if each.max_failed is not None:
        return f"maxFailed is {each.max_failed}"
    return f"minSuccess is {each.min_success}"


def _count(total: int, conditions: Collection[RunCondition]) -> _Counts:
    not_taken = completed = failed = skipped = 0
    for each in conditions:
        if each.phase == StepPhase.COMPLETED or each.reason == StepReason.SKIPPED_BY_USER:
            completed += each.phase in ENDED_STEP_PHASES
        elif each.phase == StepPhase.FAILED:
            failed += 1
        elif each.phase == StepPhase.SKIPPED:
            not_taken += each.reason == StepReason.NOT_TAKEN
            skipped += each.reason != StepReason.NOT_TAKEN
    return _Counts(total - not_taken, completed, failed, skipped)


def _least(each: ForEach, counts: _Counts) -> int | None:
    """Return how many items must complete."""
    least = count_of(each.min_success, counts.base, up=True)
    return None if least is None else max(least, 1)


def _is_lost(each: ForEach, counts: _Counts) -> bool:
    most = count_of(each.max_failed, counts.base, up=False)
    too_many = most is not None and counts.failed > most
    least = _least(each, counts)
    return too_many or (least is not None and counts.base - counts.failed - counts.skipped < least)


def _ask_until(
    observed: ObservedStep, until: str, conditions: Collection[RunCondition], ctx: PlanContext
) -> Outcome | None:
    ended = [each for each in conditions if each.phase in ENDED_STEP_PHASES]
    # the items that have ended may be more in a later round of this plan
    holds = ctx.answer(
        observed,
        f"forEach.until {len(ended)}",
        lambda: evaluate_condition(
            "forEach.until", until, replace(ctx.seen(), items=_list_items(observed, ended))
        ),
    )
    if holds is None:
        return WAITS._replace(wake_at=ctx.later)
    if isinstance(holds, EvaluationFailure):
        return Outcome(StepReason.EXPRESSION_ERROR, holds.message)
    return Outcome(StepReason.NOT_NEEDED, f"`{until}` holds") if holds else None


def _list_items(observed: ObservedStep, ended: Sequence[RunCondition]) -> list[dict[str, Any]]:
    """Return the value of `items`: an entry for each item that has ended, by index."""
    return [
        {
            "index": run.index,
            "item": get_item(observed.step, observed.decided, run.index),
            "phase": str(run.phase),
            "outputs": run.outputs or {},
        }
        for run in sorted(ended, key=lambda run: run.index or 0)
    ]
