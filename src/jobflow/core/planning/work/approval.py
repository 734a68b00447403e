"""Approvals: runs without a vcjob that wait until somebody answers, or until their timeout does.

A run that asks is stored as Waiting (WaitingForApproval), and to ask counts as an attempt. The
answer comes from a Command (`flow/commands.py`), else from the deadline, which does not pass while
the flow is suspended. Dependants start once the answer is stored, so nobody can take it back.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from jobflow.api.flow.control import Approval, ApprovalAnswer
from jobflow.api.flow.status import ENDED_STEP_PHASES, ApprovalResult, StepPhase
from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.cel.scope import resolve_text
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.decision import RunDecision, StepDecision
from jobflow.core.planning.observed.steps import ObservedRun
from jobflow.core.planning.work.abort import why_in_words
from jobflow.core.planning.work.end import duration, own_end, take_outputs, without_suspension
from jobflow.core.pods.outputs import OutputsTooLarge
from jobflow.core.reasons import StepReason
from jobflow.core.spec.step_commands import QUESTION, ApprovalKey, asks
from jobflow.core.text import shorten
from jobflow.core.timestamps import add, ceil_to_second

_VERBS = {ApprovalAnswer.APPROVE: "approved", ApprovalAnswer.REJECT: "rejected"}


def start(run: ObservedRun, ctx: PlanContext) -> RunDecision:
    """Ask for approval, also once more after a retry of the flow."""
    approval = run.step.approval or Approval()
    text = resolve_text("approval.message", approval.message or QUESTION, ctx.seen(run))
    if isinstance(text, EvaluationFailure):
        return RunDecision(
            own_end(run, StepPhase.FAILED, StepReason.EXPRESSION_ERROR, text.message)
        )
    allowed = duration(run.step.attempt_timeout, None)
    deadline = None if allowed is None else ceil_to_second(add(ctx.second, allowed))
    condition = run.new_condition(
        phase=StepPhase.WAITING,
        reason=StepReason.WAITING_FOR_APPROVAL,
        message=shorten(text),
        attempts=run.next_attempt,
        deadline=deadline,
        requested_hours=run.stored.requested_hours,
    )
    return RunDecision(condition, wake_at=deadline, urgent=True)  # people wait for the question


def settle(run: ObservedRun, ctx: PlanContext) -> RunDecision | None:
    """Return the end by an answer that a Command of this plan gives."""
    given = ctx.facts.answers.get(ApprovalKey(run.step.name, run.index))
    if given is None:
        return None
    by = f" by {given.by}" if given.by else ""
    message = f"{_VERBS[given.answer]}{by}" + (f": {given.comment}" if given.comment else "")
    outputs = take_outputs(run.key, lambda: given.outputs, ctx)
    if isinstance(outputs, OutputsTooLarge):
        why = f"{message}; the outputs of {run.step.name} {outputs}"
        return RunDecision(own_end(run, StepPhase.FAILED, StepReason.OUTPUTS_TOO_LARGE, why))
    result = ApprovalResult(answer=given.answer, by=given.by, time=ctx.second)
    return _decided(run, message, result, outputs)


def abort(run: ObservedRun, why: str, ctx: PlanContext) -> RunDecision | None:
    """Skip an approval of a flow that ends. A suspended flow keeps asking."""
    if why == StepReason.SUSPENDED:
        return None
    message = why_in_words(why, run, ctx)
    reason = StepReason.NOT_NEEDED if why == StepReason.NOT_NEEDED else StepReason.STOPPED
    return RunDecision(own_end(run, StepPhase.SKIPPED, reason, message))


def wait(run: ObservedRun, ctx: PlanContext) -> RunDecision:
    """Return the decision about an approval that nobody has given, which its deadline answers."""
    stored = run.stored
    if ctx.terminating or stored.deadline is None:
        return RunDecision(stored)
    if (deadline := without_suspension(stored.deadline, ctx)) != stored.deadline:
        stored = msgspec.structs.replace(stored, deadline=deadline)
    if ctx.pause is not None:
        return RunDecision(stored)
    if ctx.now < deadline:
        return RunDecision(stored, wake_at=deadline)
    approval = run.step.approval or Approval()
    approved = approval.default == ApprovalAnswer.APPROVE
    answer = ApprovalAnswer.APPROVE if approved else ApprovalAnswer.REJECT
    message = f"{_VERBS[answer]} by default, because nobody answered within {approval.timeout}"
    return _decided(run, message, ApprovalResult(answer=answer, time=ctx.second), None)


def open_approvals(ctx: PlanContext, decisions: Sequence[StepDecision]) -> frozenset[ApprovalKey]:
    """Return the approvals that a Command may answer: all that ask, and those that the timeout
    answers in this plan."""
    found: set[ApprovalKey] = set()
    for position in ctx.layout.ends_in_status:
        observed, condition = ctx.observed[position], decisions[position].condition
        # an answer that is stored is final
        before = {run.index for run in observed.each if run.stored.phase in ENDED_STEP_PHASES}
        for run in (condition.runs or ()) if observed.loops else (condition,):
            if (asks(run) or run.approval is not None) and run.index not in before:
                found.add(ApprovalKey(observed.step.name, run.index))
    return frozenset(found)


def _decided(
    run: ObservedRun, message: str, result: ApprovalResult, outputs: dict[str, Any] | None
) -> RunDecision:
    phase, reason = StepPhase.COMPLETED, ""
    if result.answer == ApprovalAnswer.REJECT:
        phase, reason = StepPhase.FAILED, StepReason.REJECTED
    condition = own_end(run, phase, reason, message, approval=result, outputs=outputs)
    return RunDecision(condition, urgent=True)  # dependants wait until it is stored
