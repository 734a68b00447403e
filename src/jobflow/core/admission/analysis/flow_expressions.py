"""Expressions of a flow, and references in its patches: parsed, and tried before anything runs.

A trial evaluates on samples of conditions, and reports only faults that hold in every run.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, partial
from itertools import accumulate
from typing import Any, NamedTuple

from msgspec import UNSET

from jobflow.api.flow.jobflow import JobFlow, JobFlowSpec
from jobflow.api.flow.status import FlowPhase, RunCondition, StepCondition, StepPhase
from jobflow.api.flow.step import Step
from jobflow.api.flow.traits import ValueKind
from jobflow.core.admission.analysis.places import ExpressionPlace
from jobflow.core.admission.analysis.tree_budget import TreeBudget
from jobflow.core.admission.analysis.visible_names import NameFault, NameScope
from jobflow.core.cel import scope
from jobflow.core.cel.budget import MAX_STEPS, Budget
from jobflow.core.cel.expression import EvaluationFailure, Expression, parse_expression
from jobflow.core.cel.language.functions import FUNCTIONS
from jobflow.core.cel.references import Reference, find_references
from jobflow.core.reasons import StepReason
from jobflow.core.spec.expressions import list_expressions
from jobflow.core.spec.items import get_items
from jobflow.core.spec.param_values import find_timeout_fault, find_value, params_of
from jobflow.core.suggest import Suggester, did_you_mean

MAX_CHARACTERS = 262_144
"""Characters of all expressions of a flow."""

_FOREIGN_FUNCTIONS = {
    "any": "exists",
    "count": "size",
    "dedup": "distinct",
    "every": "all",
    "fromJSON": "json",
    "fromJson": "json",
    "includes": "contains",
    "len": "size",
    "length": "size",
    "lower": "lowerAscii",
    "parseJson": "json",
    "regex": "matches",
    "some": "exists",
    "sorted": "sort",
    "startswith": "startsWith",
    "strip": "trim",
    "toLower": "lowerAscii",
    "toUpper": "upperAscii",
    "unique": "distinct",
    "uniq": "distinct",
    "upper": "upperAscii",
}
"""Functions of other languages -> CEL's."""
_ATTEMPT = scope.AttemptFacts(of_child=True)
_SAMPLES = (
    (
        StepCondition(phase=StepPhase.COMPLETED, attempts=1),
        RunCondition(phase=StepPhase.COMPLETED, attempts=1),
        FlowPhase.SUCCEED,
        0,
    ),
    (
        StepCondition(phase=StepPhase.FAILED, reason=StepReason.JOB_FAILED, attempts=2),
        RunCondition(phase=StepPhase.FAILED, reason=StepReason.JOB_FAILED, attempts=2),
        FlowPhase.FAILED,
        -1,
    ),
)
"""All completed, and all failed: each step, the last run, the flow; the index of the item."""


_FAULTS: Mapping[ValueKind, Callable[[Any], str | None]] = {
    ValueKind.CONDITION: scope.find_condition_fault,
    ValueKind.ITEMS: scope.find_items_fault,
    ValueKind.TIMEOUT: find_timeout_fault,
    ValueKind.ANY: lambda value: None,
}


class WrittenExpression(NamedTuple):
    place: ExpressionPlace
    path: str
    text: str
    result: ValueKind


def written_in(position: int, owner: Step | JobFlowSpec, path: str) -> Iterator[WrittenExpression]:
    """Yield the expressions of the step at a position, or of a flow apart from its steps."""
    for each in list_expressions(owner):
        place = ExpressionPlace(position, each.trait.stage)
        yield WrittenExpression(place, f"{path}.{each.path}", each.text, each.trait.result)


class FlowExpressions:
    def __init__(
        self, written: Sequence[WrittenExpression], names: NameScope, budget: TreeBudget, level: int
    ) -> None:
        self.scope = names
        self.characters = sum(len(each.text) for each in written)
        if self.characters > MAX_CHARACTERS:
            written = []
        # child flows have what the outer flows have left
        elif budget.characters < self.characters:
            budget.leave_out("expressions", level)
            ends = accumulate(len(each.text) for each in written)
            pairs = zip(written, ends, strict=True)
            written = [each for each, end in pairs if end <= budget.characters]
        budget.characters -= sum(len(each.text) for each in written)
        self.written = written
        """The expressions that are judged; none if they exceed MAX_CHARACTERS."""
        self._suggest = cache(Suggester(sorted(FUNCTIONS)).nearest)

    @cached_property
    def parsed(self) -> list[tuple[WrittenExpression, Expression, list[NameFault]]]:
        """The expressions without syntax errors, with the faults of their names."""
        found = []
        for each in self.written:
            parsed = parse_expression(each.text)
            if not isinstance(parsed, Expression):
                continue
            faults = []
            for name, at in parsed.calls:
                if name not in FUNCTIONS:
                    guess = did_you_mean(_FOREIGN_FUNCTIONS.get(name) or self._suggest(name))
                    faults.append(NameFault(at, f"there is no function {name}{guess}"))
            faults += self.scope.faults(each.place, parsed.mentions, each.text)
            found.append((each, parsed, faults))
        return found


class TrialEvaluation:
    def __init__(self, flow: JobFlow, budget: TreeBudget, level: int) -> None:
        self._flow = flow
        # if two steps have one name, the first counts
        steps = {step.name: step for step in reversed(flow.all_steps)}
        self._standings = [
            {name: (step, condition) for name, step in steps.items()} for condition, *_ in _SAMPLES
        ]
        self._failures = [
            cache(partial(scope.list_failures, [standings[step.name] for step in flow.steps]))
            for standings in self._standings
        ]
        params = flow.spec.params or ()
        self._open_params = {param.name for param in params if is_unknown(param.value)}
        self._budget = budget
        self._level = level
        self._results: dict[tuple[str, ValueKind], str | None] = {}
        """By text and result, for steps without items: their scopes are equal."""
        self._scopes_without_items = tuple(self._scopes(None))

    def fault(self, step: Step, result: ValueKind, parsed: Expression) -> str | None:
        """Return the fault of the value, or None if it is valid or depends on the run."""
        if step.for_each is not None:
            return self._try(result, parsed, self._scopes(get_items(step, None)))
        key = (parsed.text, result)
        if key not in self._results:
            self._results[key] = self._try(result, parsed, self._scopes_without_items)
        return self._results[key]

    def _try(
        self, result: ValueKind, parsed: Expression, scopes: Iterable[scope.EvaluationScope]
    ) -> str | None:
        first = None
        for sample in scopes:
            # values that only a run knows fit any type
            for mention in parsed.mentions:
                if mention.root == "item" and sample.item is UNSET:
                    return None
                # without a key, all params are read
                read = mention.keys[:1] or self._open_params
                if mention.root == "params" and not self._open_params.isdisjoint(read):
                    return None
            # the budget of the tree may be nearly spent by other expressions
            most = self._budget.trial_steps
            work = Budget(most)
            value = parsed.evaluate(scope.build_variables(parsed.mentions, sample), work)
            self._budget.trial_steps = max(work.steps, 0)
            if work.steps < 0 and most < MAX_STEPS:
                self._budget.leave_out("expressions", self._level)
                return None
            if isinstance(value, EvaluationFailure):
                # a value that this sample lacks may exist in a run, and so do ended items
                is_of_run = value.missing or any(m.root == "items" for m in parsed.mentions)
                fault = None if is_of_run else value.message
            else:
                fault = _FAULTS[result](value)
            if fault is None:
                return None
            # a fault is reported only if every sample has one
            first = first or fault
        return first

    def _scopes(self, items: Sequence[Any] | None) -> Iterator[scope.EvaluationScope]:
        samples = zip(self._standings, self._failures, _SAMPLES, strict=True)
        for standings, list_sample_failures, (_, run, phase, at) in samples:
            yield scope.EvaluationScope(
                self._flow,
                standings.get,
                list_failures=list_sample_failures,
                flow_phase=phase,
                index=at % len(items) if items else -at,
                item=items[at] if items else UNSET,
                run=run,
                attempt=_ATTEMPT,
                last={},
                items=[],
            )


def is_unknown(value: Any) -> bool:
    """Whether only a run knows the value of a param: it is None, or has a reference."""
    return value is None or next(find_references(value, ""), None) is not None


class ReferenceTrial:
    """Trial evaluation of references to params and items."""

    def __init__(
        self, flow: JobFlow, steps: Sequence[Step], budget: TreeBudget, level: int
    ) -> None:
        """`steps`: those of `finally` last."""
        self._flow = flow
        self._params = params_of(flow)
        self._steps = steps
        self._budget = budget
        self._level = level
        self._faults: dict[tuple[int | None, str], str | None] = {}

    def fault(self, position: int, reference: Reference) -> str | None:
        """Return the fault of a reference in a patch of the step at `position`, or None."""
        key: tuple[int | None, str]
        if reference.root == "params":
            value = find_value(reference, self._params)
            if value is not UNSET and is_unknown(value):
                return None
            key = None, reference.path  # equal in every step
        elif reference.root == "item" and reference.keys:
            key = position, reference.path
        else:
            return None
        if key not in self._faults:
            self._faults[key] = (
                self._fault_in(reference, scope.EvaluationScope(self._flow, lambda name: None))
                if reference.root == "params"
                else self._fault_in_items(self._steps[position], reference)
            )
        return self._faults[key]

    def _fault_in_items(self, step: Step, reference: Reference) -> str | None:
        if step.for_each is not None and step.for_each.items is None:
            if step.for_each.from_ is None and step.for_each.count is not None:
                return "with count, an item is a number without fields; write $(item)"
            return None  # only a run knows the items
        for at, item in enumerate(get_items(step, None) or ()):
            if self._budget.tried_items <= 0:
                self._budget.leave_out("references", self._level)
                return None
            self._budget.tried_items -= 1
            sample = scope.EvaluationScope(self._flow, lambda name: None, index=at, item=item)
            if self._fault_in(reference, sample) is not None:
                return f'items[{at}] has no "{".".join(reference.keys)}"'
        return None

    def _fault_in(self, reference: Reference, sample: scope.EvaluationScope) -> str | None:
        value = scope.resolve_references(f"$({reference.path})", sample)
        return value.message.partition(": ")[2] if isinstance(value, EvaluationFailure) else None
