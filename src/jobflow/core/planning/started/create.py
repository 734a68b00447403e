"""Creation of the next object of a run that may start, except for room.

The answer to an earlier create (refused, or the name in use) and a missing template decide.
"""

from datetime import timedelta
from itertools import count

import msgspec

from jobflow.api.flow.status import RunCondition, StepPhase
from jobflow.core.cel.scope import AttemptFacts
from jobflow.core.manifests.job import Attempt
from jobflow.core.names import format_attempt_name
from jobflow.core.planning.actions import Guard
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.decision import Draft, RunDecision
from jobflow.core.planning.observed.steps import ObservedRun
from jobflow.core.planning.observed.view import Refusal
from jobflow.core.planning.target_ends import ends_of_targets
from jobflow.core.planning.waiting import wait
from jobflow.core.planning.work.kinds import OBJECT_WORK
from jobflow.core.reasons import StepReason
from jobflow.core.text import shorten
from jobflow.core.timestamps import add, ceil_to_second
from jobflow.core.work import may_run_steps

UNPROCESSABLE = 422
"""HTTP status of a create that is refused for good."""
NAME_AGAIN = timedelta(seconds=5)
"""Time until a name in use is tried again if the answer does not say when."""


def next_attempt(run: ObservedRun, ctx: PlanContext) -> RunDecision:
    """Create the next attempt of a run whose latest attempt has ended or is gone.

    Its name is the next `-r<n>` that was never used.
    """
    work = OBJECT_WORK[run.kind]
    if (resumed := work.resume(run, ctx)) is not None:
        return resumed
    room = work.longest_suffix(run, ctx)
    names = (format_attempt_name(run.key, again, room=room) for again in count(run.attempts))
    name = next(name for name in names if name not in ctx.taken)
    is_last_known = run.job is not None and not run.gone
    gone = "" if is_last_known or not run.started else run.job_name
    return create(run, ctx, name, run.attempts + 1, Guard(ctx.flow.metadata.uid, gone))


def refused_for_good(run: ObservedRun, ctx: PlanContext) -> RunDecision | None:
    """Return the failure of a run that has not begun if its create was refused for good or its name
    belongs to somebody else, else None."""
    refusal = ctx.view.refusals.get(run.key)
    if refusal is not None and refusal.code == UNPROCESSABLE:
        return _refused(run, refusal)
    holder = ctx.view.holders.get(run.key)
    if holder is None or not holder.owner_alive or holder.job.metadata.deletion_timestamp:
        return None
    owner = holder.job.metadata.controller
    whose = f"{owner.kind} {owner.name}" if owner is not None else "no flow"
    message = (
        f"a {run.work.noun} named {run.key} exists already and "
        f"belongs to {whose}: delete it, or give the flow or the step another name"
    )
    return _failed(run, StepReason.NAME_CONFLICT, message)


def create(
    run: ObservedRun, ctx: PlanContext, name: str, number: int, guard: Guard | None = None
) -> RunDecision:
    """Create an attempt of a run, except for room."""
    what = run.work.noun
    needed = run.step.template_for(run.case)
    template = ctx.view.templates.get(needed)
    if needed and template is None:
        message = f"waits for the JobTemplate {needed}"
        return RunDecision(wait(run, StepReason.WAITING_FOR_TEMPLATE, message))
    if (refusal := ctx.view.refusals.get(name)) is not None:
        retry_at = refusal.retry_at
        if refusal.code == UNPROCESSABLE or retry_at is None or ctx.now < retry_at:
            return _refused(run, refusal)
        condition = _create_refused(run, refusal)
    elif (holder := ctx.view.holders.get(name)) is not None:
        until = add(ctx.now, NAME_AGAIN) if holder.retry_at is None else holder.retry_at
        message = f"waits until the old {what} {holder.job.metadata.name} is gone"
        condition = wait(run, StepReason.NAME_IN_USE, message)
        if ctx.now < until:
            return RunDecision(condition, wake_at=until)
    elif run.attempts:
        condition = run.stored
    else:
        condition = wait(run, StepReason.STARTING, f"the {what} {name} is being created")
    if (fault := ctx.facts.faults.get(name)) is not None:
        return _failed(run, fault.reason, fault.message)
    facts = AttemptFacts(number, run.stored.failures, run.stored.failure, may_run_steps(run.step))
    planned = Attempt(
        name,
        number,
        index=run.index,
        case=run.case,
        avoid_nodes=run.stored.avoid_nodes or (),
        target_ends=ends_of_targets(run, ctx),
        retried=run.stored.failures > 0,
        seen=ctx.seen(run, attempt=facts),
    )
    draft = Draft(run.step, template, planned, OBJECT_WORK[run.kind].build, guard)
    return RunDecision(condition, drafts=(draft,))


def _refused(run: ObservedRun, refusal: Refusal) -> RunDecision:
    if refusal.code == UNPROCESSABLE:
        return _failed(run, StepReason.REFUSED, refusal.message)
    return RunDecision(_create_refused(run, refusal), wake_at=refusal.retry_at)


def _create_refused(run: ObservedRun, refusal: Refusal) -> RunCondition:
    until = None if refusal.retry_at is None else ceil_to_second(refusal.retry_at)
    return wait(run, StepReason.CREATE_REFUSED, refusal.message, until)


def _failed(run: ObservedRun, reason: str, message: str) -> RunDecision:
    condition = msgspec.structs.replace(
        run.stored,
        phase=StepPhase.FAILED,
        reason=reason,
        message=shorten(message),
        next_attempt_time=None,
    )
    return RunDecision(condition)
