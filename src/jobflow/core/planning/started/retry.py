"""Retry of a failed run and its backoff: a step's `retry`.

A vcjob that was refused is not created again. A run that ends with its flow gets no further
attempt. A run that was aborted by a suspension gets one that does not count, and so does one that
the cluster disrupted, up to `retry.disruptions` of them.
"""

from datetime import timedelta

import msgspec

from jobflow.api.flow.control import Backoff, Retry, to_number
from jobflow.api.flow.status import ENDED_STEP_PHASES, RunCondition, StepFailure, StepPhase
from jobflow.api.volcano.command import Action
from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.cel.scope import AttemptFacts, evaluate_condition
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.decision import RunDecision, wait_between_attempts
from jobflow.core.planning.flow.restart import run_again
from jobflow.core.planning.observed.failed_attempts import with_failed_attempt
from jobflow.core.planning.observed.steps import ObservedRun
from jobflow.core.planning.work.abort import aborted, ending_reason
from jobflow.core.planning.work.end import duration, ended_by_hand, ends_as, not_judged
from jobflow.core.reasons import StepReason
from jobflow.core.text import shorten
from jobflow.core.timestamps import add, ceil_to_second
from jobflow.core.work import may_run_steps

DISRUPTIONS = 5
"""Disrupted attempts that do not count, if a step does not set them: evictions are common."""
DURATION = timedelta(seconds=1)
FACTOR = 2.0
LONGEST = timedelta(minutes=5)
"""The backoff of a lost job, and of a step that does not set one."""
_FOR_GOOD = frozenset({StepReason.CANCELLED, StepReason.FAILURE_POLICY})
"""Stored reasons after which no further attempt follows."""


def retry_or_end(run: ObservedRun, end: RunDecision, ctx: PlanContext) -> RunDecision:
    """Return the end of an attempt, or the wait for another attempt."""
    condition = end.condition
    order = ctx.order_for(run) if ctx.orders else None
    if order is not None and condition.phase in ENDED_STEP_PHASES:
        if order.action == Action.RETRY_STEPS:
            return RunDecision(run_again(run, condition), urgent=True)
        if order.action == Action.SKIP_STEP and condition.phase != StepPhase.COMPLETED:
            return _final(condition, **ended_by_hand(run, order, ctx))
    if condition.phase != StepPhase.FAILED:
        return end
    why = ending_reason(run, ctx)
    suspended = condition.reason == StepReason.SUSPENDED
    # a suspension is not a failure: its attempt does not count
    if suspended and why in ("", StepReason.SUSPENDED):
        message = "the flow was suspended: it runs again once the flow is resumed"
        condition = msgspec.structs.replace(condition, failure=run.stored.failure)
        waits = wait_between_attempts(run, condition, reason=StepReason.SUSPENDED, message=message)
        return RunDecision(waits, urgent=True)
    if suspended:
        what = f"the {run.work.noun} {condition.job}".rstrip()  # one without object has no name
        message = aborted(why, f"{what} has ended", run, ctx)
        return _final(condition, phase=ends_as(why), reason=why, message=message)
    if condition.reason in _FOR_GOOD or (why and why != StepReason.SUSPENDED):
        return _final(condition)
    if condition.reason in (StepReason.TIMEOUT, StepReason.QUEUE_TIMEOUT):
        failure = StepFailure(reason=condition.reason)
        condition = msgspec.structs.replace(condition, failure=failure)
    retry = run.step.retry
    return _final(condition) if retry is None else _retried(run, condition, retry, ctx)


def backoff(policy: Backoff, attempts: int) -> timedelta:
    """Return the pause after so many attempts. What admission would refuse counts as not set."""
    first = duration(policy.duration, DURATION)
    longest = duration(policy.max, LONGEST)
    factor = policy.factor if policy.factor is not None and policy.factor >= 1 else FACTOR
    try:
        seconds = first.total_seconds() * factor ** max(attempts - 1, 0)
    except OverflowError:  # a large factor to the power of many attempts
        return longest
    return timedelta(seconds=min(seconds, longest.total_seconds()))


def _retried(
    run: ObservedRun, condition: RunCondition, retry: Retry, ctx: PlanContext
) -> RunDecision:
    disruptions = run.stored.disruptions + 1
    most = DISRUPTIONS if retry.disruptions is None else retry.disruptions
    if condition.failure is not None and condition.failure.disruption and disruptions <= most:
        condition = msgspec.structs.replace(condition, disruptions=disruptions)
        count = f"disruption {disruptions} of {most}"
    else:
        # a disruption above `retry.disruptions` counts as a failure
        failures, limit = run.stored.failures + 1, to_number(retry.limit) or 0
        condition = msgspec.structs.replace(condition, failures=failures)
        if failures > limit:
            return _final(condition)
        count = f"{failures} of {limit}"
        if retry.when is not None:
            facts = AttemptFacts(
                condition.attempts, run.stored.failures, condition.failure, may_run_steps(run.step)
            )
            ended, when = condition, retry.when
            again = ctx.answer(
                run,
                "retry.when",
                # `seen` takes a share of the plan's budget, so only when it is evaluated
                lambda: evaluate_condition("retry.when", when, ctx.seen(run, ended, facts)),
            )
            if again is None:
                kept = RunDecision(run.stored) if run.job is None else not_judged(run, run.job, ctx)
                return msgspec.structs.replace(kept, wake_at=ctx.later)
            if isinstance(again, EvaluationFailure):
                why = shorten(f"{again.message}; {condition.message}")
                return _final(condition, reason=StepReason.EXPRESSION_ERROR, message=why)
            if not again:
                return _final(condition)
    pause = backoff(retry.backoff or Backoff(), condition.failures + condition.disruptions)
    until = ceil_to_second(add(ctx.now, pause))
    ctx.progress.failed_again = True
    waits = wait_between_attempts(
        run,
        condition,
        reason=StepReason.RETRYING,
        message=shorten(f"runs again ({count}): {condition.message}"),
        next_attempt_time=until,
        failed_attempts=with_failed_attempt(condition),
    )
    return RunDecision(waits, wake_at=until, urgent=True)


def _final(condition: RunCondition, **changes: object) -> RunDecision:
    # no further attempt avoids nodes
    return RunDecision(msgspec.structs.replace(condition, avoid_nodes=None, **changes))
