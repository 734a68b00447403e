"""Decisions that a step makes once its dependencies are met: `when`, `switch`, `forEach.from`.

They are stored before the step's first vcjob is created and never change, so that a restart of the
controller takes the same branch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from jobflow.api.flow.control import Case
from jobflow.api.flow.status import Decisions
from jobflow.api.flow.step import Step
from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.cel.scope import EvaluationScope, evaluate_condition, evaluate_items
from jobflow.core.spec.items import drop_null_keys, takes_items


@dataclass(frozen=True, slots=True)
class NotTaken:
    """The decision that the step does not run."""

    decisions: Decisions
    why: str


def decide(
    step: Step, seen: EvaluationScope, given: Sequence[Any] = ()
) -> Decisions | NotTaken | EvaluationFailure:
    """Return the decisions of a step; the first that skips or fails it ends the evaluation.
    `given`: the items of its targets, if it has these."""
    made = Decisions()
    # `when` first: a step that is not taken has no case and no items
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
    elif takes_items(step):
        made = msgspec.structs.replace(made, items=drop_null_keys(given))
    return made


def _case(cases: list[Case], seen: EvaluationScope) -> int | None | EvaluationFailure:
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
