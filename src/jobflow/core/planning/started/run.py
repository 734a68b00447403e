"""Decision about a run that has begun: ended, running, between attempts, or lost.

Dependencies do not matter to a run that has begun. A run that has ended by the stored status stays
ended. A kind of work without objects decides by itself (`work/kinds.py`).
"""

from collections.abc import Callable

import msgspec

from jobflow.api.flow.control import Backoff
from jobflow.api.flow.status import ENDED_STEP_PHASES, RequestedHours, RunCondition, StepPhase
from jobflow.api.volcano.job import Job
from jobflow.core.planning.actions import ReadJob
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.decision import RunDecision, TargetEnd
from jobflow.core.planning.observed.steps import ObservedRun
from jobflow.core.planning.started.create import create, next_attempt
from jobflow.core.planning.started.retry import backoff, retry_or_end
from jobflow.core.planning.target_ends import recorded_end_message
from jobflow.core.planning.waiting import wait
from jobflow.core.planning.work.abort import aborted, being_aborted, intent
from jobflow.core.planning.work.end import ends_as, running_as
from jobflow.core.planning.work.kinds import OWN_WORK, object_work_of
from jobflow.core.reasons import StepReason
from jobflow.core.timestamps import add, ceil_to_second

FindEnd = Callable[[], TargetEnd | None]
"""Returns how a step ended according to its dependants (`target_ends`); called only if needed."""


def decide_run(run: ObservedRun, ctx: PlanContext, find_end: FindEnd) -> RunDecision | None:
    """Return the decision about a run, or None if it has not begun."""
    if run.stored.phase in ENDED_STEP_PHASES:
        return RunDecision(run.stored)
    if not run.started:
        return None
    if (own := OWN_WORK.get(run.kind)) is not None:
        return own.decide(run, ctx)
    job = run.job
    if job is None or (run.gone and not job.ended):
        return _without_object(run, ctx, find_end)
    if not job.ended:
        return _running(run, job, ctx)
    if run.between_attempts and run.stored.reason != StepReason.JOB_LOST:
        return next_attempt_when_due(run, ctx)
    return retry_or_end(run, object_work_of(job).settle(run, job, ctx), ctx)


def start_run(run: ObservedRun, ctx: PlanContext) -> RunDecision:
    """Start a run that may start now, also after a retry of the flow."""
    if (own := OWN_WORK.get(run.kind)) is not None:
        return own.start(run, ctx)
    if run.attempts:
        return next_attempt_when_due(run, ctx)
    # the name of the first attempt follows from the spec, so that a second create changes nothing
    return create(run, ctx, run.key, 1)


def next_attempt_when_due(run: ObservedRun, ctx: PlanContext) -> RunDecision:
    """Decide about a run between two attempts, or retried with its flow."""
    stored = run.stored
    if (why := intent(run, ctx)) and why != StepReason.SUSPENDED:
        return _aborted_without_object(run, stored, why, ctx)
    if ctx.terminating or ctx.pause is not None:
        return RunDecision(stored)
    if stored.next_attempt_time is not None and ctx.now < stored.next_attempt_time:
        return RunDecision(stored, wake_at=stored.next_attempt_time)
    return next_attempt(run, ctx)


def _running(run: ObservedRun, job: Job, ctx: PlanContext) -> RunDecision:
    running = running_as(run, job, ctx)
    why = intent(run, ctx)
    if not why and running.deadline is not None and running.deadline <= ctx.now:
        why = StepReason.TIMEOUT
    if not why:
        return RunDecision(running, wake_at=running.deadline)
    condition = being_aborted(run, running, why, ctx)
    if run.stored.abort_time is None:  # nothing is asked to end before the reason is stored
        return RunDecision(condition, urgent=True)
    asked = object_work_of(job).abort(job, run.stored.abort_time, ctx)
    return RunDecision(condition, asked.actions, wake_at=asked.wake_at)


def _without_object(run: ObservedRun, ctx: PlanContext, find_end: FindEnd) -> RunDecision:
    """Decide about a run that has begun and whose latest object is gone or not in the View."""
    between, job = run.between_attempts, run.job
    last = run.stored if between or job is None else running_as(run, job, ctx)
    if (end := find_end()) is not None:
        message = recorded_end_message(run, run.job_name)
        return RunDecision(_ended(run, last, end.phase, end.reason, message, ctx))
    if between:
        return next_attempt_when_due(run, ctx)
    why, name = intent(run, ctx), run.job_name
    if ctx.terminating and not why:
        return RunDecision(last)
    if name not in ctx.view.deleted and name not in ctx.view.holders:
        return RunDecision(last, (ReadJob(name, ctx.work_named(run.step, name).kind),))
    return _aborted_without_object(run, last, why, ctx) if why else _lost(run, ctx)


def _aborted_without_object(
    run: ObservedRun, last: RunCondition, why: str, ctx: PlanContext
) -> RunDecision:
    there = run.job is not None and not run.gone
    noun = ctx.work_named(run.step, run.job_name).noun
    end = f"the {noun} {run.job_name} {'has ended' if there else 'is gone'}"
    phase, message = ends_as(why), aborted(why, end, run, ctx)
    avoided = last.avoid_nodes if phase == StepPhase.FAILED else None
    condition = _ended(run, last, phase, why, message, ctx, avoided)
    return retry_or_end(run, RunDecision(condition), ctx)


def _ended(
    run: ObservedRun,
    last: RunCondition,
    phase: str,
    reason: str,
    message: str,
    ctx: PlanContext,
    avoid_nodes: list[str] | None = None,
) -> RunCondition:
    """Return the end of a run without an object. `last`: its last known condition."""
    return msgspec.structs.replace(
        last,
        phase=phase,
        reason=reason,
        message=message,
        job=run.job_name,
        uid="",
        attempts=run.attempts,
        next_attempt_time=None,
        deadline=None,
        abort_time=None,
        avoid_nodes=avoid_nodes,
        failure=last.failure if run.between_attempts else None,  # that of an attempt before
        requested_hours=_requested_hours(run, ctx),
    )


def _requested_hours(run: ObservedRun, ctx: PlanContext) -> RequestedHours | None:
    """Return the requested hours of a run whose latest object is gone. The hours of an attempt are
    added once, at its end."""
    if run.job is None or run.between_attempts:
        return run.stored.requested_hours
    return object_work_of(run.job).hours(run, run.job, ctx)


def _lost(run: ObservedRun, ctx: PlanContext) -> RunDecision:
    pause = backoff(Backoff(), run.attempts - run.stored.past_attempts)
    until = ceil_to_second(add(ctx.now, pause))
    name = run.job_name
    noun = ctx.work_named(run.step, name).noun
    message = f"the {noun} {name} is gone and its end was not seen: it runs again"
    if name in ctx.view.holders:
        message = f"{message}; another {noun} has its name now"
    condition = msgspec.structs.replace(
        wait(run, StepReason.JOB_LOST, message, until), requested_hours=_requested_hours(run, ctx)
    )
    return RunDecision(condition, wake_at=until, urgent=True)
