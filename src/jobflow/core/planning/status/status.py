"""The status of a flow, put together from the decisions about its steps."""

import re
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from jobflow.api.flow import status as api
from jobflow.api.flow.step import Step
from jobflow.api.volcano.job import JobPhase
from jobflow.api.volcano.pod import PodPhase
from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.cel.scope import evaluate
from jobflow.core.limits import MAX_STEP_OUTPUTS
from jobflow.core.planning.context import PlanContext, with_job_as_child
from jobflow.core.planning.decision import StepDecision
from jobflow.core.planning.flow.by_hand import left_to_take_over, orders_left
from jobflow.core.planning.flow.volume_claims import ClaimMoves, created_claims
from jobflow.core.planning.lifecycle import IN_FINALLY
from jobflow.core.planning.observed.children import has_tolerated_children
from jobflow.core.planning.observed.failed_attempts import keep_newest
from jobflow.core.planning.status.job_records import job_lists, job_records
from jobflow.core.planning.status.size_limit import fitted
from jobflow.core.planning.work.end import name_cause
from jobflow.core.reasons import HELD_UP, FlowReason, StepReason
from jobflow.core.spec.items import drop_null_keys
from jobflow.core.spec.readiness import fails_flow
from jobflow.core.text import MAX_NAMES, format_go_duration, format_progress, join_names, shorten
from jobflow.core.violations import Violation
from jobflow.core.work import work_of_object

_COMPLETED = api.StepPhase.COMPLETED.value
_FAILED = re.compile(r"steps? (.+?) failed(?:: | \(|$)")
_NO_PODS: Mapping[str, int] = {}

Outputs = dict[str, Any]


def flow_status(
    ctx: PlanContext,
    decisions: Sequence[StepDecision],
    claims: ClaimMoves,
    next_jobs: list[str],
    handled: list[str] | None = None,
) -> api.JobFlowStatus:
    """Return the whole status; the stored object itself if only the duration would change."""
    stored = ctx.flow.status
    records = job_records(ctx, decisions)
    state = flow_state(ctx, decisions, records)
    lifecycle, outputs = ctx.facts.lifecycle, stored.outputs
    if state.phase in api.FINAL_PHASES:
        unfinished = api.FlowState(phase=stored.state.phase or api.FlowPhase.PENDING)
        state, outputs = end_with_outputs(ctx, state) or (unfinished, None)
    if state.phase in api.FINAL_PHASES:
        # the time of the suspension ends with the flow
        lifecycle = lifecycle.resumed(ctx.second)
    ended = stored.completion_time or ctx.second if state.phase in api.FINAL_PHASES else None
    conditions = list(map(attrgetter("condition"), decisions))
    tolerated = stored.tolerated_in_children
    if ctx.layout.has_children:
        conditions = [
            with_job_as_child(condition, step, ctx)
            for condition, step in zip(conditions, ctx.layout.steps, strict=True)
        ]
        tolerated = tolerated or has_tolerated_children(conditions, ctx.view.jobs)
    by_key = dict(zip(ctx.layout.keys, conditions, strict=True))
    has_started = not lifecycle.waits
    ran = (ended or ctx.second) - lifecycle.started
    duration = format_go_duration(ran) if has_started else ""
    # a status that differs in its duration alone is not written
    known = msgspec.structs.replace(stored, duration=duration)
    lists = job_lists(records, decisions, ctx)
    status = api.JobFlowStatus(
        state=state,
        progress=format_progress(conditions),
        queued_time=stored.queued_time,
        start_time=lifecycle.started if has_started else None,
        completion_time=ended,
        duration=duration,
        observed_generation=ctx.flow.metadata.generation,
        conditions=keep_newest(by_key) if ctx.progress.failed_again else by_key,
        outputs=outputs,
        places=ctx.progress.places,
        job_status_list=records or None,
        next_jobs=next_jobs or None,
        pod_failure_ratio=pod_failure_ratio(decisions),
        reuse=claims.reuse,
        volume_claims=created_claims(ctx) if ctx.view.claims else stored.volume_claims,
        reused_claims=claims.names,
        by_hand=orders_left(ctx, decisions) if stored.by_hand else None,
        handed_down=left_to_take_over(ctx) if stored.handed_down else None,
        handed_down_count=stored.handed_down_count,
        taken_over=stored.taken_over,
        handled_commands=handled,
        suspended_seconds=lifecycle.suspended_seconds,
        suspended_at=lifecycle.suspended_at,
        suspended_by=lifecycle.suspended_by,
        retries=stored.retries,
        tolerated_retried=stored.tolerated_retried,
        tolerated_in_children=tolerated,
        finally_cancelled=lifecycle.finally_too,
        **lists,
    )
    found = known if status == known else fitted(status, known, lambda: ctx.layout.named_failures)
    return stored if found is known else found


def invalid_status(ctx: PlanContext, violations: Iterable[Violation]) -> api.JobFlowStatus:
    """Return the Failed status of a flow that admission would have refused, with its message."""
    words = [str(violation) for violation in violations]
    more = f"; and {len(words) - MAX_NAMES} more" if len(words) > MAX_NAMES else ""
    return never_begun_status(ctx, FlowReason.INVALID, "; ".join(words[:MAX_NAMES]) + more)


def never_begun_status(ctx: PlanContext, reason: FlowReason, message: str) -> api.JobFlowStatus:
    """Return the Failed status of a flow of which nothing has begun."""
    return msgspec.structs.replace(
        ctx.flow.status,
        conditions=None,
        state=api.FlowState(phase=api.FlowPhase.FAILED, reason=reason, message=shorten(message)),
        progress=f"0/{len(ctx.layout.steps)}",
        start_time=ctx.second,
        completion_time=ctx.second,
        duration="0s",
        observed_generation=ctx.flow.metadata.generation,
    )


def flow_state(
    ctx: PlanContext, decisions: Sequence[StepDecision], records: Sequence[api.JobRecord]
) -> api.FlowState:
    """Return phase, reason and message of the flow."""
    failed: list[tuple[str, api.StepCondition]] = []
    held_up: list[tuple[Step, api.StepCondition]] = []
    is_over = not ctx.terminating
    for step, decision in zip(ctx.layout.steps, decisions, strict=True):
        condition = decision.condition
        if condition.phase not in api.ENDED_STEP_PHASES:
            is_over = False
            if condition.reason in HELD_UP and condition.phase == api.StepPhase.WAITING:
                held_up.append((step, condition))
        elif condition.phase != _COMPLETED and fails_flow(step, condition):
            failed.append((step.name, condition))
    is_over = is_over and not _alive(ctx)
    lifecycle = ctx.facts.lifecycle
    reason, message = lifecycle.ending_reason, lifecycle.ending_message
    if ctx.terminating:
        phase = api.FlowPhase.TERMINATING
    elif is_over:
        phase = api.FlowPhase.FAILED if failed or reason in api.HALTS else api.FlowPhase.SUCCEED
    elif ctx.flow.status.state.phase == api.FlowPhase.RUNNING or _has_begun(ctx, records):
        phase = api.FlowPhase.RUNNING
    else:
        phase = api.FlowPhase.PENDING
    if ctx.terminating:
        message = "the flow is being deleted"
    elif reason in api.HALTS and held_up:
        message = shorten(f"{message}{IN_FINALLY}{_trouble(held_up)[1]}")
    elif not reason and lifecycle.pause is not None and not is_over:
        reason, message = ("", "") if lifecycle.starting else lifecycle.pause
    elif not reason and failed:
        reason, message = _failure(failed)
    elif not reason and held_up:
        reason, message = _trouble(held_up)
    return api.FlowState(phase=phase, reason=reason, message=message)


def has_ended(ctx: PlanContext, decisions: Sequence[StepDecision]) -> bool:
    """Whether every step has ended and no vcjob is left that may do anything."""
    return all(d.condition.phase in api.ENDED_STEP_PHASES for d in decisions) and not _alive(ctx)


def pod_failure_ratio(decisions: Sequence[StepDecision]) -> str:
    """Return `0.25`: the share of failed pods in the last counts of the steps; "" without pods."""
    pods = failed = 0
    for decision in decisions:
        counts = decision.condition.task_status_count
        if counts is None or decision.condition.reason == StepReason.REUSED:
            continue
        for task in counts.values():
            for phase, count in (task.phase or _NO_PODS).items():
                pods += count
                if phase == PodPhase.FAILED:
                    failed += count
    return f"{failed / pods:.2f}" if pods > 0 else ""


def _alive(ctx: PlanContext) -> bool:
    """Whether any vcjob has not ended, also one of an ended step."""
    deleted = ctx.view.deleted
    return any(
        not job.ended and job.metadata.name not in deleted
        for observed in ctx.observed
        for job in observed.jobs
    )


def _has_begun(ctx: PlanContext, records: Sequence[api.JobRecord]) -> bool:
    """Whether anything that the flow runs is no longer Pending."""
    if ctx.facts.lifecycle.waits or ctx.facts.lifecycle.starting:
        return False
    if any(record.state != JobPhase.PENDING for record in records):
        return True
    unrecorded = (job for job in ctx.view.jobs.values() if not work_of_object(job).is_recorded)
    standing = ctx.progress.standing
    return any(job.phase != JobPhase.PENDING for job in unrecorded) or any(
        standing[position].phase == JobPhase.RUNNING for position in ctx.layout.ends_in_status
    )


def _trouble(held_up: Sequence[tuple[Step, api.StepCondition]]) -> tuple[str, str]:
    """Return reason and message of the first step that does not wait for other steps."""
    step, condition = held_up[0]
    if condition.reason == StepReason.WAITING_FOR_TEMPLATE:
        missing = [
            s.template_for(s.case_of(c.decisions))
            for s, c in held_up
            if c.reason == StepReason.WAITING_FOR_TEMPLATE
        ]
        names = [name for name in dict.fromkeys(missing) if name is not None]
        kind = "JobTemplate" if len(names) == 1 else "JobTemplates"
        return condition.reason, shorten(f"waits for the {kind} {join_names(names)}")
    return condition.reason, shorten(f"step {step.name}: {condition.message or condition.reason}")


def name_failed(state: api.FlowState) -> str:
    """Return the names of the failed steps in the message of a flow: `a`, or `a, b and 3 more`; ""
    if the flow has another reason."""
    if state.reason not in (FlowReason.STEP_FAILED, FlowReason.NAME_CONFLICT):
        return ""
    found = _FAILED.match(state.message)
    return found[1] if found else ""


def _failure(failed: Sequence[tuple[str, api.StepCondition]]) -> tuple[str, str]:
    name, condition = failed[0]
    conflict = condition.reason == StepReason.NAME_CONFLICT
    reason = FlowReason.NAME_CONFLICT if conflict else FlowReason.STEP_FAILED
    if len(failed) == 1:
        if not condition.message:
            return reason, shorten(f"step {name} failed ({condition.reason})")
        failure = condition.failure if condition.reason == StepReason.FLOW_FAILED else None
        return reason, shorten(name_cause(f"step {name} failed", condition.message, failure))
    return reason, shorten(f"steps {join_names([name for name, _ in failed])} failed")


def end_with_outputs(
    ctx: PlanContext, end: api.FlowState
) -> tuple[api.FlowState, Outputs | None] | None:
    """Return the end of the flow and its outputs; None if this plan may evaluate no more, so that
    the next plan ends the flow. All outputs share one budget.

    An output without a value is left out of a flow that has failed, and fails any other flow. So
    do outputs that are too large, none of which is stored.
    """
    expressions = ctx.flow.spec.outputs
    if not expressions or end.reason == FlowReason.CONCURRENCY:  # nothing has run
        return end, None
    if ctx.progress.allowance.spent:
        return None
    found, scope = Outputs(), ctx.seen(phase=api.FlowPhase(end.phase))
    for name, text in expressions.items():
        value = evaluate(f"outputs.{name}", text, scope)
        if not isinstance(value, EvaluationFailure):
            found[name] = value
        elif end.phase == api.FlowPhase.SUCCEED:
            end = _failed(FlowReason.EXPRESSION_ERROR, value.message)
    # a merge patch drops null keys, so that the next plan would write them again
    outputs: Outputs = drop_null_keys([found])[0]
    if (size := len(msgspec.json.encode(outputs))) <= MAX_STEP_OUTPUTS:
        return end, outputs or None
    if end.phase == api.FlowPhase.SUCCEED:
        message = f"the outputs of the flow have {size:,} bytes; at most {MAX_STEP_OUTPUTS:,} fit"
        end = _failed(FlowReason.OUTPUTS_TOO_LARGE, message)
    return end, None


def _failed(reason: FlowReason, message: str) -> api.FlowState:
    return api.FlowState(phase=api.FlowPhase.FAILED, reason=reason, message=shorten(message))
