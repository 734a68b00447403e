"""Tries expressions before anything has run: on params as they are and steps as they may come to
be. It says only what is wrong whatever comes; what hangs on outputs stays open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from msgspec import UNSET

from jobflow.api.flow_status import FlowPhase, RunCondition, StepCondition, StepPhase
from jobflow.api.jobflow import JobFlow, Step
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.cel.expression import EvaluationFailure, Expression
from jobflow.core.cel.language.budget import MAX_STEPS, Budget
from jobflow.core.cel.references import Reference
from jobflow.core.cel.scope import (
    EvaluationScope,
    StepAndCondition,
    build_variables,
    find_condition_fault,
    find_items_fault,
    resolve_references,
)
from jobflow.core.cel.variables import Mention
from jobflow.core.reasons import StepReason
from jobflow.core.spec.items import get_items

SAMPLES_BUDGET = MAX_STEPS // 2
"""What trying all expressions of a flow may take; those beyond are not tried."""

_SUCCEEDED = StepCondition(phase=StepPhase.COMPLETED, attempts=1)
_FAILED = StepCondition(phase=StepPhase.FAILED, reason=StepReason.JOB_FAILED, attempts=2)
_ENDED_SO = (
    RunCondition(phase=StepPhase.COMPLETED, attempts=1),
    RunCondition(phase=StepPhase.FAILED, reason=StepReason.JOB_FAILED, attempts=2),
)


class _Found(NamedTuple):
    """What was found of an expression, and what it took."""

    fault: str | None
    work: int


class Samples:
    """What the expressions of one flow come to, as far as that is known."""

    def __init__(self, flow: JobFlow) -> None:
        self._flow = flow
        self._steps = {step.name: step for step in reversed(flow.steps)}
        self._open_params = {param.name for param in flow.spec.params or () if param.value is None}
        self._left = SAMPLES_BUDGET
        self._found: dict[tuple[str, str], _Found] = {}
        """By expression and field, of steps without items: these all see the same."""
        self._without_items = tuple(self._seen_with(None))

    def fault(self, step: Step, field: str, found: Expression) -> str | None:
        """What is wrong with the value of an expression of this step, in a clause; None where it
        is right, or where only a run can tell. `field`: as in `visible.Place`."""
        key = (found.text, field) if step.for_each is None else None
        known = self._found.get(key) if key is not None else None
        if known is not None and known.work <= self._left:
            self._left -= known.work
            return known.fault
        left = self._left
        fault = self._tried(step, field, found)
        if key is not None:
            self._found[key] = _Found(fault, left - self._left)
        return fault

    def _tried(self, step: Step, field: str, found: Expression) -> str | None:
        faults: dict[str, None] = {}
        for seen in self._seen(step):
            if self._left <= 0 or not self._is_known(found, seen):
                return None
            work = Budget()
            value = found.evaluate(build_variables(found.mentions, seen), work)
            self._left -= MAX_STEPS - work.steps
            if isinstance(value, EvaluationFailure) and value.missing:
                return None
            fault = _fault(field, value)
            if fault is None:
                return None
            faults.setdefault(fault)
        return next(iter(faults), None)

    def _seen(self, step: Step) -> Iterable[EvaluationScope]:
        """As it may be when all went well, and when nothing did."""
        if step.for_each is None:
            return self._without_items
        return self._seen_with(get_items(step, None))

    def _seen_with(self, items: Sequence[Any] | None) -> Iterator[EvaluationScope]:
        for condition, run, phase, at in (
            (_SUCCEEDED, _ENDED_SO[0], FlowPhase.SUCCEED, 0),
            (_FAILED, _ENDED_SO[1], FlowPhase.FAILED, -1),
        ):
            yield EvaluationScope(
                self._flow,
                self._standing(condition),
                flow_phase=phase,
                index=at % len(items) if items else -at,
                item=items[at] if items else UNSET,
                run=run,
            )

    def _is_known(self, found: Expression, seen: EvaluationScope) -> bool:
        """Whether all that it mentions has a value here: a param may still lack one."""
        for mention in found.mentions:
            if mention.root == "item" and seen.item is UNSET:
                return False
            if mention.root == "params" and self._open_params:
                if not mention.keys or mention.keys[0] in self._open_params:
                    return False
        return True

    def _standing(self, condition: StepCondition) -> Callable[[str], StepAndCondition | None]:
        """Every step stands like this."""
        steps = self._steps
        return lambda name: (steps[name], condition) if name in steps else None


def _fault(field: str, value: Any) -> str | None:
    """What is wrong with a value, in a clause."""
    if isinstance(value, EvaluationFailure):
        return value.message
    return find_items_fault(value) if field == "forEach.from" else find_condition_fault(value)


BUDGET = 100_000
"""Items that are looked at, for all references of a flow."""
_ANYWHERE = -1
"""Of a param, which is the same in every step."""


def mention_of(reference: Reference) -> Mention:
    """A reference as an expression would say it."""
    return Mention(reference.root, reference.keys, 0)


class Items:
    """Tries references to params and to items."""

    def __init__(self, facts: FlowFacts) -> None:
        self._facts = facts
        self._left = BUDGET
        self._told: dict[tuple[int, str], str | None] = {}

    def fault(self, position: int, reference: Reference) -> str | None:
        """What is wrong with a reference in a patch of the step at `position`, in a clause."""
        if reference.root == "params":
            position = _ANYWHERE
        elif reference.root != "item" or not reference.keys:
            return None
        key = (position, reference.path)
        if key not in self._told:
            self._told[key] = self._untold(position, reference)
        return self._told[key]

    def _untold(self, position: int, reference: Reference) -> str | None:
        if position == _ANYWHERE:
            return self._missing(reference, EvaluationScope(self._facts.flow, lambda name: None))
        return self._of_items(position, reference)

    def _of_items(self, position: int, reference: Reference) -> str | None:
        step = self._facts.steps[position]
        if step.for_each is not None and step.for_each.items is None:
            if step.for_each.from_ is None and step.for_each.count is not None:
                return "with count an item is a number, and nothing is taken of it; write $(item)"
            return None
        items: Sequence[Any] = get_items(step, None) or ()
        for at, item in enumerate(items):
            self._left -= 1
            if self._left < 0:
                return None
            seen = EvaluationScope(self._facts.flow, lambda name: None, index=at, item=item)
            if self._missing(reference, seen) is not None:
                return f'items[{at}] has no "{".".join(reference.keys)}"'
        return None

    def _missing(self, reference: Reference, seen: EvaluationScope) -> str | None:
        value = resolve_references(f"$({reference.path})", seen)
        return value.message.partition(": ")[2] if isinstance(value, EvaluationFailure) else None
