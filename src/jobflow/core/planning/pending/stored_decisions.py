"""Decisions that a step makes once its dependencies are met: `when`, `switch`, `forEach.from`.

They are stored before the step's first vcjob is created and never change, so that a restart of the
controller takes the same branch.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from jobflow.api.flow.control import Case
from jobflow.api.flow.status import Decisions
from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.cel.scope import EvaluationScope, evaluate_condition, evaluate_items
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.decision import StepDecision, fail, skip, wait
from jobflow.core.planning.observed.steps import ObservedStep
from jobflow.core.planning.started.matched_items import given_items
from jobflow.core.reasons import StepReason
from jobflow.core.spec.items import drop_null_keys, takes_items
from jobflow.core.spec.readiness import StepEnd


def decide_first(position: int, ctx: PlanContext) -> Decisions | StepDecision:
    """Return what a ready step decides before it starts, or the decision that it cannot start."""
    observed = ctx.observed[position]
    given = given_items(position, ctx) if takes_items(observed.step) else ()
    if given is None:
        ends = {ctx.progress.ends[target] for target in ctx.layout.needs[position].matched}
        is_untaken = ends == {StepEnd.NOT_TAKEN}
        reason = StepReason.NOT_TAKEN if is_untaken else StepReason.UPSTREAM_FAILED
        return skip(observed, reason, "no target has items that are known")
    made = ctx.answer(observed, "when", lambda: _evaluate(observed, ctx.seen(), given))
    if made is None:
        condition = wait(observed, StepReason.STARTING, "its conditions are being looked at")
        return StepDecision(condition, wake_at=ctx.later)
    if isinstance(made, EvaluationFailure):
        return fail(observed, StepReason.EXPRESSION_ERROR, made.message)
    return made


def _evaluate(
    observed: ObservedStep, seen: EvaluationScope, given: Sequence[Any]
) -> Decisions | StepDecision | EvaluationFailure:
    """Evaluate the expressions of a step until one skips or fails it. `given`: targets' items."""
    step, made = observed.step, Decisions()
    # `when` first: a step that is not taken has no case and no items
    if step.when is not None:
        taken = evaluate_condition("when", step.when, seen)
        if isinstance(taken, EvaluationFailure):
            return taken
        made = msgspec.structs.replace(made, when=taken)
        if not taken:
            return skip(observed, StepReason.NOT_TAKEN, f"`{step.when}` does not hold", made)
    if step.switch is not None:
        case = _choose(step.switch, seen)
        if isinstance(case, EvaluationFailure):
            return case
        if case is None:
            return skip(observed, StepReason.NOT_TAKEN, "no case of its switch holds", made)
        made = msgspec.structs.replace(made, case=case)
    if step.for_each is not None and step.for_each.from_ is not None:
        items = evaluate_items("forEach.from", step.for_each.from_, seen)
        if isinstance(items, EvaluationFailure):
            return items
        made = msgspec.structs.replace(made, items=drop_null_keys(items))
    elif takes_items(step):
        made = msgspec.structs.replace(made, items=drop_null_keys(given))
    return made


def _choose(cases: list[Case], seen: EvaluationScope) -> int | None | EvaluationFailure:
    """Return the index of the first case that holds; a case without `when` always holds."""
    for at, case in enumerate(cases):
        if case.when is None:
            return at
        taken = evaluate_condition(f"switch[{at}].when", case.when, seen)
        if isinstance(taken, EvaluationFailure):
            return taken
        if taken:
            return at
    return None
