"""Values: steps whose outputs are expressions, in place of a job."""

from jobflow.api.flow.status import StepPhase
from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.cel.scope import evaluate_all
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.decision import RunDecision, wait
from jobflow.core.planning.observed.steps import ObservedRun
from jobflow.core.planning.work.end import Outputs, own_end, take_outputs
from jobflow.core.pods.outputs import OutputsTooLarge, UnstorableJson, make_outputs
from jobflow.core.reasons import StepReason


def start(run: ObservedRun, ctx: PlanContext) -> RunDecision:
    texts = (run.case or run.step).compute or {}
    values = ctx.answer(run, "compute", lambda: evaluate_all("compute", texts, ctx.seen(run)))
    if values is None:
        condition = wait(run, StepReason.STARTING, "its values are being computed")
        return RunDecision(condition, wake_at=ctx.later)
    if isinstance(values, EvaluationFailure):
        return _ended(run, StepReason.EXPRESSION_ERROR, values.message)
    try:
        outputs = take_outputs(run.key, lambda: make_outputs(values), ctx)
    except UnstorableJson:
        why = "compute: a value has more than 32 levels of lists and maps, or is too large a number"
        return _ended(run, StepReason.EXPRESSION_ERROR, why)
    if isinstance(outputs, OutputsTooLarge):
        why = f"the outputs of {run.step.name} {outputs}"
        return _ended(run, StepReason.OUTPUTS_TOO_LARGE, why)
    return _ended(run, outputs=outputs)


def _ended(
    run: ObservedRun, reason: str = "", message: str = "", outputs: Outputs | None = None
) -> RunDecision:
    phase = StepPhase.FAILED if reason else StepPhase.COMPLETED
    end = own_end(run, phase, reason, message, run.next_attempt, outputs=outputs)
    return RunDecision(end, urgent=True)
