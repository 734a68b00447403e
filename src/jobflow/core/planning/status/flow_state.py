"""Phase, reason, progress and completion time of a flow, from the decisions about its steps."""

import re
from collections.abc import Mapping, Sequence

from jobflow.api.flow.status import (
    ENDED_STEP_PHASES,
    FlowPhase,
    FlowState,
    JobRecord,
    StepCondition,
    StepPhase,
)
from jobflow.api.flow.step import Step
from jobflow.api.volcano.job import JobPhase
from jobflow.api.volcano.pod import PodPhase
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.decision import StepDecision
from jobflow.core.planning.lifecycle import HALTS, IN_FINALLY
from jobflow.core.planning.observed.causes import name_cause
from jobflow.core.reasons import HELD_UP, FlowReason, StepReason
from jobflow.core.spec.readiness import fails_flow
from jobflow.core.text import join_names, shorten
from jobflow.core.work import work_of_object

_COMPLETED = StepPhase.COMPLETED.value
_FAILED = re.compile(r"steps? (.+?) failed(?:: | \(|$)")
_NO_PODS: Mapping[str, int] = {}


def flow_state(
    ctx: PlanContext, decisions: Sequence[StepDecision], records: Sequence[JobRecord]
) -> FlowState:
    """Return phase, reason and message of the flow."""
    failed: list[tuple[str, StepCondition]] = []
    held_up: list[tuple[Step, StepCondition]] = []
    has_ended = not ctx.terminating
    for step, decision in zip(ctx.steps, decisions, strict=True):
        condition = decision.condition
        if condition.phase not in ENDED_STEP_PHASES:
            has_ended = False
            if condition.reason in HELD_UP and condition.phase == StepPhase.WAITING:
                held_up.append((step, condition))
        elif condition.phase != _COMPLETED and fails_flow(step, condition):
            failed.append((step.name, condition))
    has_ended = has_ended and not _alive(ctx)
    lifecycle = ctx.lifecycle
    phase = _phase(
        ctx, records, has_ended=has_ended, failed=bool(failed or lifecycle.ending_reason in HALTS)
    )
    reason, message = lifecycle.ending_reason, lifecycle.ending_message
    if phase is FlowPhase.TERMINATING:
        message = "the flow is being deleted"
    elif reason in HALTS and held_up:
        message = shorten(f"{message}{IN_FINALLY}{_trouble(held_up)[1]}")
    elif not reason and lifecycle.pause is not None and not has_ended:
        reason, message = ("", "") if lifecycle.starting else lifecycle.pause
    elif not reason:
        reason, message = _failure(failed) if failed else _trouble(held_up)
    return FlowState(phase=phase, reason=reason, message=message)


def has_ended(ctx: PlanContext, decisions: Sequence[StepDecision]) -> bool:
    """Whether every step has ended and no vcjob is left that may do anything."""
    return all(d.condition.phase in ENDED_STEP_PHASES for d in decisions) and not _alive(ctx)


def pod_failure_ratio(decisions: Sequence[StepDecision]) -> str:
    """Return `0.25`: the share of failed pods in the last counts of the steps; "" without pods."""
    pods = failed = 0
    for decision in decisions:
        counts = decision.condition.task_status_count
        if counts is None:
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


def _phase(
    ctx: PlanContext, records: Sequence[JobRecord], *, has_ended: bool, failed: bool
) -> FlowPhase:
    if ctx.terminating:
        return FlowPhase.TERMINATING
    if has_ended:
        return FlowPhase.FAILED if failed else FlowPhase.SUCCEED
    if ctx.flow.status.state.phase == FlowPhase.RUNNING:
        return FlowPhase.RUNNING
    if ctx.lifecycle.waits or ctx.lifecycle.starting:
        return FlowPhase.PENDING
    begun = any(record.state != JobPhase.PENDING for record in records) or any(
        job.phase != JobPhase.PENDING and not work_of_object(job).is_recorded
        for job in ctx.view.jobs.values()
    )
    return FlowPhase.RUNNING if begun else FlowPhase.PENDING


def _trouble(held_up: Sequence[tuple[Step, StepCondition]]) -> tuple[str, str]:
    """Return reason and message of the first step that does not wait for other steps."""
    if not held_up:
        return "", ""
    step, condition = held_up[0]
    if condition.reason == StepReason.WAITING_FOR_TEMPLATE:
        missing = [
            s.template_for(s.case_of(c.decisions))
            for s, c in held_up
            if c.reason == StepReason.WAITING_FOR_TEMPLATE
        ]
        names = list(dict.fromkeys(missing))
        kind = "JobTemplate" if len(names) == 1 else "JobTemplates"
        return condition.reason, shorten(f"waits for the {kind} {join_names(names)}")
    return condition.reason, shorten(f"step {step.name}: {condition.message or condition.reason}")


def name_failed(state: FlowState) -> str:
    """Return the names of the failed steps in the message of a flow: `a`, or `a, b and 3 more`; ""
    if the flow has another reason."""
    if state.reason not in (FlowReason.STEP_FAILED, FlowReason.NAME_CONFLICT):
        return ""
    found = _FAILED.match(state.message)
    return found[1] if found else ""


def _failure(failed: Sequence[tuple[str, StepCondition]]) -> tuple[str, str]:
    name, condition = failed[0]
    conflict = condition.reason == StepReason.NAME_CONFLICT
    reason = FlowReason.NAME_CONFLICT if conflict else FlowReason.STEP_FAILED
    if len(failed) == 1:
        if not condition.message:
            return reason, shorten(f"step {name} failed ({condition.reason})")
        failure = condition.failure if condition.reason == StepReason.FLOW_FAILED else None
        return reason, shorten(name_cause(f"step {name} failed", condition.message, failure))
    return reason, shorten(f"steps {join_names([name for name, _ in failed])} failed")
