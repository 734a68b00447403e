"""Decision about one run: to create its next attempt, ended, running, between attempts, or lost.

Dependencies do not matter to a run that has begun. A run that has ended by the stored status stays
ended.
"""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any

import msgspec

from jobflow.api.flow.control import Backoff
from jobflow.api.flow.jobflow import JobTemplate
from jobflow.api.flow.status import ENDED_STEP_PHASES, RequestedHours, RunCondition, StepPhase
from jobflow.core.cel.scope import AttemptFacts
from jobflow.core.manifests.job import Attempt
from jobflow.core.names import format_attempt_name
from jobflow.core.planning import reuse
from jobflow.core.planning.actions import Guard, ReadJob
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.decision import Draft, RunDecision, TargetEnd, wait
from jobflow.core.planning.observed.steps import ObservedRun
from jobflow.core.planning.started.retry import backoff, retry_or_end
from jobflow.core.planning.target_ends import ends_of_targets, recorded_end_message
from jobflow.core.planning.work.abort import aborted, being_aborted, ending_reason, intent
from jobflow.core.planning.work.end import ends_as, find_job_obstacle, running_as
from jobflow.core.planning.work.kinds import AT_ONCE, OBJECT_WORK, OWN_WORK, OwnWork
from jobflow.core.reasons import StepReason
from jobflow.core.text import shorten
from jobflow.core.timestamps import add, ceil_to_second
from jobflow.core.work import WORK, may_run_steps, work_of_object

NAME_AGAIN = timedelta(seconds=5)
"""Time until a name in use is tried again if the answer does not say when."""
FindEnd = Callable[[], TargetEnd | None]
"""Returns how a step ended according to its dependants (`target_ends`); called only if needed."""


def decide_run(run: ObservedRun, ctx: PlanContext, find_end: FindEnd) -> RunDecision | None:
    """Return the decision about a run, or None if it has not begun."""
    if run.stored.phase in ENDED_STEP_PHASES:
        return RunDecision(run.stored)
    if not run.started:
        return None
    if (own := OWN_WORK.get(run.kind)) is not None:
        return _by_status(run, own, ctx)
    if run.work.at_once:
        return None  # no attempt goes on
    job = run.job
    # an object that ended before it was deleted is settled as it was last seen
    if job is None or (run.gone and not job.ended):
        return _without_object(run, ctx, find_end)
    work = OBJECT_WORK[work_of_object(job).kind]
    if job.ended and run.between_attempts and run.stored.reason != StepReason.JOB_LOST:
        return next_attempt_when_due(run, ctx)  # its end is in the status
    if job.ended:
        return retry_or_end(run, work.settle(run, job, ctx), ctx)
    running, why = running_as(run, job, ctx), intent(run, ctx)
    until, over = running.deadline, StepReason.TIMEOUT
    if running.queue_deadline is not None and ctx.facts.lifecycle.suspended_at is None:
        until, over = running.queue_deadline, StepReason.QUEUE_TIMEOUT
    if not why and until is not None and until <= ctx.now:
        why = over
    if not why:
        obstacle = find_job_obstacle(run, job, ctx)
        wake_at = min(filter(None, (until, obstacle.shown_at)), default=None)
        return RunDecision(running, wake_at=wake_at, wants=obstacle.asked)
    condition = being_aborted(run, running, why, ctx)
    if run.stored.abort_time is None:  # nothing is asked to end before the reason is stored
        return RunDecision(condition, urgent=True)
    asked = work.abort(job, run.stored.abort_time, ctx)
    return RunDecision(condition, asked.actions, wake_at=asked.wake_at)


def start_run(run: ObservedRun, ctx: PlanContext) -> RunDecision:
    """Start a run that may start now, also after a retry of the flow."""
    kind = run.kind
    own = OWN_WORK.get(kind) or AT_ONCE.get(kind)
    if own is not None:
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
    if (own := OWN_WORK.get(run.kind)) is not None:
        return own.start(run, ctx)
    work = OBJECT_WORK[run.kind]
    if (resumed := work.resume(run, ctx)) is not None:
        return resumed
    # the next `-r<n>` that was never used
    room = work.longest_suffix(run, ctx)
    names = (format_attempt_name(run.key, again, room=room) for again in count(run.attempts))
    name = next(name for name in names if name not in ctx.taken)
    is_last_known = run.job is not None and not run.gone
    gone = "" if is_last_known or not run.started else run.job_name
    return create(run, ctx, name, run.attempts + 1, Guard(ctx.flow.metadata.uid, gone))


def _by_status(run: ObservedRun, own: OwnWork, ctx: PlanContext) -> RunDecision:
    """Decide about a run whose attempts have no objects. An answer to an approval is final: there
    is no further attempt, and its deadline is an answer too."""
    asks = run.work.asks
    if run.between_attempts and not asks:  # an approval that asks is Waiting too
        return next_attempt_when_due(run, ctx)
    end = own.settle(run, ctx)
    if end is None:
        why, deadline = ending_reason(run, ctx), run.stored.deadline
        if not (why or asks) and deadline is not None and deadline <= ctx.now:
            why = StepReason.TIMEOUT
        end = own.abort(run, why, ctx) if why else None
    if end is None:
        return own.wait(run, ctx)
    if asks:
        return end
    decided = retry_or_end(run, end, ctx)
    if decided.condition is run.stored:  # `retry.when` is left to the next plan, with the answer
        return msgspec.structs.replace(own.wait(run, ctx), wake_at=decided.wake_at)
    return msgspec.structs.replace(decided, urgent=True)  # dependants wait for the stored end


def _without_object(run: ObservedRun, ctx: PlanContext, find_end: FindEnd) -> RunDecision:
    """Decide about a run that has begun and whose latest object is gone or not in the View."""
    between, job = run.between_attempts, run.job
    last = run.stored if between or job is None else running_as(run, job, ctx)
    # a dependant has started, so that its end was stored or recorded once
    if (end := find_end()) is not None:
        message = recorded_end_message(run, run.job_name)
        return RunDecision(_ended(run, last, end.phase, end.reason, message, ctx))
    if between:
        return next_attempt_when_due(run, ctx)
    why, name = intent(run, ctx), run.job_name
    if ctx.terminating and not why:
        return RunDecision(last)
    work = ctx.work_named(run.step, name)
    if name not in ctx.view.deleted and name not in ctx.view.holders:
        # a watch may be behind: only a live read shows that the object is gone
        return RunDecision(last, (ReadJob(name, work.kind),))
    if why:
        return _aborted_without_object(run, last, why, ctx)
    pause = backoff(Backoff(), run.attempts - run.stored.past_attempts)
    until = ceil_to_second(add(ctx.now, pause))
    message = f"the {work.noun} {name} is gone and its end was not seen: it runs again"
    if name in ctx.view.holders:
        message = f"{message}; another {work.noun} has its name now"
    condition = msgspec.structs.replace(
        wait(run, StepReason.JOB_LOST, message, until), requested_hours=_requested_hours(run, ctx)
    )
    return RunDecision(condition, wake_at=until, urgent=True)


def _aborted_without_object(
    run: ObservedRun, last: RunCondition, why: str, ctx: PlanContext
) -> RunDecision:
    end = f"the {run.work.noun} has ended"
    if run.work.has_objects:
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
        queue_deadline=None,
        timeout="",
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
    return OBJECT_WORK[work_of_object(run.job).kind].hours(run, run.job, ctx)


def refused_for_good(run: ObservedRun, ctx: PlanContext) -> RunDecision | None:
    """Return the failure of a run that has not begun if its create was refused for good or its name
    belongs to somebody else, else None."""
    refusal = ctx.view.refusals.get(run.key)
    if refusal is not None and refusal.is_final:
        return failed(run, StepReason.REFUSED, refusal.message)
    holder = ctx.view.holders.get(run.key)
    if holder is None or not holder.owner_alive or holder.job.metadata.deletion_timestamp:
        return None
    owner = holder.job.metadata.controller
    whose = f"{owner.kind} {owner.name}" if owner is not None else "no flow"
    message = (
        f"a {run.work.noun} named {run.key} exists already and "
        f"belongs to {whose}: delete it, or give the flow or the step another name"
    )
    return failed(run, StepReason.NAME_CONFLICT, message)


def create(
    run: ObservedRun, ctx: PlanContext, name: str, number: int, guard: Guard | None = None
) -> RunDecision:
    """Create an attempt of a run, except for room."""
    step, case = run.step, run.case
    what = WORK[step.kind_of(case)].noun
    needed = step.template_for(case)
    template = None if needed is None else ctx.view.templates.get(needed)
    if needed is not None and template is None:
        message = f"waits for the JobTemplate {needed}"
        return RunDecision(wait(run, StepReason.WAITING_FOR_TEMPLATE, message))
    if guard is None and ctx.flow.status.reuse is not None:
        guard = reuse.guard_of(run, ctx)
    draft = _draft(run, ctx, template, name, number, guard)
    if ctx.source is not None and (taken := reuse.take(run, draft, ctx)) is not None:
        return taken
    if (refusal := ctx.view.refusals.get(name)) is not None:
        retry_at = refusal.retry_at
        if refusal.is_final:
            return failed(run, StepReason.REFUSED, refusal.message)
        until = None if retry_at is None else ceil_to_second(retry_at)
        condition = wait(run, StepReason.CREATE_REFUSED, refusal.message, until)
        if retry_at is None or ctx.now < retry_at:
            return RunDecision(condition, wake_at=retry_at)
    elif (holder := ctx.view.holders.get(name)) is not None:
        free_at = add(ctx.now, NAME_AGAIN) if holder.retry_at is None else holder.retry_at
        message = f"waits until the old {what} {holder.job.metadata.name} is gone"
        condition = wait(run, StepReason.NAME_IN_USE, message)
        if ctx.now < free_at:
            return RunDecision(condition, wake_at=free_at)
    elif run.attempts:
        condition = run.stored
    else:
        condition = wait(run, StepReason.STARTING, f"the {what} {name} is being created")
    wake_at, urgent = None, False
    if (error := ctx.view.create_errors.get(name)) is not None:
        if ctx.now >= error.shown_at:
            condition = wait(run, StepReason.CREATE_REFUSED, error.message)
            urgent = condition is not run.stored
        else:
            wake_at = error.shown_at
    # the build of this plan's round before has shown that it can never be created
    if (fault := ctx.facts.faults.get(name)) is not None:
        return failed(run, fault.reason, fault.message)
    return RunDecision(condition, drafts=(draft,), wake_at=wake_at, urgent=urgent)


def compared(run: ObservedRun, ctx: PlanContext) -> list[Any] | None:
    """Return the JSON of a run's fingerprint, as if it began now, or None if it has none."""
    needed = run.step.template_for(run.case)
    template = None if needed is None else ctx.view.templates.get(needed)
    if not run.work.has_objects or (needed is not None and template is None):
        return None
    draft = _draft(run, ctx, template, run.key, 1, None)
    return draft.compared(ctx.flow, ctx.progress.allowance)


def _draft(
    run: ObservedRun,
    ctx: PlanContext,
    template: JobTemplate | None,
    name: str,
    number: int,
    guard: Guard | None,
) -> Draft:
    step, case = run.step, run.case
    kind = step.kind_of(case)
    facts = AttemptFacts(number, run.stored.failures, run.stored.failure, may_run_steps(step))
    planned = Attempt(
        name,
        number,
        index=run.index,
        case=case,
        avoid_nodes=run.stored.avoid_nodes or (),
        target_ends=ends_of_targets(run, ctx),
        retried=run.stored.failures > 0,
        seen=ctx.seen(run, attempt=facts),
        reuse=reuse.counterpart(run, ctx) if WORK[kind].has_steps else None,
        log_as_message=step.name not in ctx.layout.outputs_needed,
    )
    is_compared = ctx.layout.graph.index[step.name] < ctx.layout.last_from
    is_further = step.repeat is not None and bool(run.index)
    return Draft(
        step,
        template,
        planned,
        kind,
        OBJECT_WORK[kind].build,
        guard,
        compares=partial(reuse.what_it_is_made_of, run, ctx)
        if is_compared and not (is_further and WORK[kind].has_pods)
        else None,
        names_jobs=step.name in ctx.layout.naming_jobs,
    )


def failed(run: ObservedRun, reason: str, message: str) -> RunDecision:
    """Return the failure of a run of which no attempt has begun."""
    end = {"phase": StepPhase.FAILED, "reason": reason, "message": shorten(message)}
    return RunDecision(msgspec.structs.replace(run.stored, **end, next_attempt_time=None))
