"""What is decided once about a step, when its dependencies are met: `when`, `switch`, its items.

The result is stored before the step's first vcjob is made, and is the answer from then on, so that
a restart takes the same branch. It starts nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from jobflow.api.control import Case
from jobflow.api.flow_status import Decisions
from jobflow.api.jobflow import Step
from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.cel.scope import EvaluationScope, evaluate_condition, evaluate_items
from jobflow.core.spec.items import drop_null_keys


@dataclass(frozen=True, slots=True)
class NotTaken:
    """What was decided is that the step does not run."""

    decisions: Decisions
    why: str


def decides(step: Step) -> bool:
    """Whether anything has to be decided about such a step at all."""
    each = step.for_each
    return (
        step.when is not None
        or step.switch is not None
        or (each is not None and each.from_ is not None)
    )


def decide(step: Step, seen: EvaluationScope) -> Decisions | NotTaken | EvaluationFailure:
    """All that has to be decided about a step, in the order in which it can end the matter."""
    made = Decisions()
    if step.when is not None:
        taken = evaluate_condition("when", step.when, seen)
        if isinstance(taken, EvaluationFailure):
            return taken
        made = msgspec.structs.replace(made, when=taken)
        if not taken:
            return NotTaken(made, f"`{step.when}` does not hold")
    if step.switch is not None:
        case = _case(step.switch, seen)
        if isinstance(case, EvaluationFailure):
            return case
        if case is None:
            return NotTaken(made, "no case of its switch holds")
        made = msgspec.structs.replace(made, case=case)
    if step.for_each is not None and step.for_each.from_ is not None:
        items = evaluate_items("forEach.from", step.for_each.from_, seen)
        if isinstance(items, EvaluationFailure):
            return items
        made = msgspec.structs.replace(made, items=drop_null_keys(items))
    return made


def _case(cases: list[Case], seen: EvaluationScope) -> int | None | EvaluationFailure:
    """The first case that holds; one without `when` always does."""
    for at, case in enumerate(cases):
        taken = (
            True if case.when is None else evaluate_condition(f"switch[{at}].when", case.when, seen)
        )
        if isinstance(taken, EvaluationFailure):
            return taken
        if taken:
            return at
    return None
