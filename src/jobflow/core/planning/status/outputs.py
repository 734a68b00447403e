"""`status.outputs`: the values of `spec.outputs`, worked out when everything else has ended."""

from collections.abc import Sequence
from typing import Any

import msgspec

from jobflow.api.flow.status import FINAL_PHASES, FlowPhase, FlowState, JobFlowStatus
from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.cel.scope import evaluate_output
from jobflow.core.limits import MAX_STEP_OUTPUTS
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.decision import StepDecision
from jobflow.core.planning.status.flow_state import has_ended
from jobflow.core.reasons import FlowReason
from jobflow.core.spec.items import drop_null_keys
from jobflow.core.text import shorten

Outputs = dict[str, Any]


def end_with_outputs(ctx: PlanContext, end: FlowState) -> tuple[FlowState, Outputs | None] | None:
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
    found, scope = Outputs(), ctx.seen_at_the_end(end.phase)
    for name, text in expressions.items():
        value = evaluate_output(f"outputs.{name}", text, scope)
        if not isinstance(value, EvaluationFailure):
            found[name] = value
        elif end.phase == FlowPhase.SUCCEED:
            end = _failed(FlowReason.EXPRESSION_ERROR, value.message)
    outputs: Outputs = drop_null_keys([found])[0]
    if (size := len(msgspec.json.encode(outputs))) <= MAX_STEP_OUTPUTS:
        return end, outputs or None
    if end.phase == FlowPhase.SUCCEED:
        message = f"the outputs of the flow have {size:,} bytes; at most {MAX_STEP_OUTPUTS:,} fit"
        end = _failed(FlowReason.OUTPUTS_TOO_LARGE, message)
    return end, None


def flow_waits_for_outputs(
    ctx: PlanContext, status: JobFlowStatus, decisions: Sequence[StepDecision]
) -> bool:
    """Return whether only the outputs keep the flow from ending with this status."""
    if not ctx.flow.spec.outputs or ctx.terminating or status.state.phase in FINAL_PHASES:
        return False
    return has_ended(ctx, decisions)


def _failed(reason: FlowReason, message: str) -> FlowState:
    return FlowState(phase=FlowPhase.FAILED, reason=reason, message=shorten(message))
