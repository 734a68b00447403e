"""Gates: steps that fail with a text of the user, in place of a job."""

from jobflow.api.flow.status import StepPhase
from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.cel.scope import resolve_text
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.decision import RunDecision
from jobflow.core.planning.observed.steps import ObservedRun
from jobflow.core.planning.work.end import own_end
from jobflow.core.reasons import StepReason


def start(run: ObservedRun, ctx: PlanContext) -> RunDecision:
    text = resolve_text("fail", (run.case or run.step).fail or "", ctx.seen(run))
    reason = StepReason.FAIL_STEP
    if isinstance(text, EvaluationFailure):
        reason, text = StepReason.EXPRESSION_ERROR, text.message
    end = own_end(run, StepPhase.FAILED, reason, text, run.next_attempt)
    return RunDecision(end, urgent=True)
