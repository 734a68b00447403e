"""What an expression or a reference may look at, and its value there. It decides nothing.

Only what is mentioned is put together, so a step that asks for one phase costs that much whatever
the flow holds. What may be mentioned at all is admission's business (`expression_rules`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import msgspec
from msgspec import UNSET

from jobflow.api.control import ForEach
from jobflow.api.flow_status import ENDED_STEP_PHASES, RunCondition, StepCondition, StepPhase
from jobflow.api.jobflow import JobFlow, Step
from jobflow.core.cel.expression import EvaluationFailure, ExpressionFault, parse_expression
from jobflow.core.cel.language.budget import Budget
from jobflow.core.cel.references import (
    MAX_SIZE,
    Reference,
    ReferencesTooLargeError,
    replace_references,
)
from jobflow.core.cel.variables import Mention
from jobflow.core.limits import MAX_RUNS

MAX_ITEMS_SIZE = 32_768
"""Bytes that they come to as JSON, for they are remembered in the status."""
POD_PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")
"""Of a task's pods; those that no pod is in count 0."""
MAX_PARAMS = 256
"""Params of a flow: they are gone over for each that is mentioned."""
TOO_LARGE = f"its references stand for more than {MAX_SIZE:,} bytes; say less by them"
_DIGITS = 10
"""More than a place in a list ever has; Python reads no number of thousands of them."""
_SHOWN = 100
"""Characters of an expression in a message."""


StepAndCondition = tuple[Step, StepCondition]


@dataclass(frozen=True, slots=True)
class EvaluationScope:
    """What there is to be seen at one place of a flow, at one moment."""

    flow: JobFlow
    standing: Callable[[str], StepAndCondition | None]
    """A step of `spec.flows` and its condition, by name; None: no such step."""
    flow_phase: str = ""
    """In finally: Succeed or Failed, as the flow would end by its other steps. Else empty."""
    index: int | None = None
    """Of the run, with forEach and repeat."""
    item: Any = UNSET
    """Of the run, with forEach."""
    run: RunCondition | None = None
    """In until and retry.when: the run that has just ended, as it is recorded."""
    work: Budget = field(default_factory=Budget)
    """What all that is evaluated here may take together."""


# ------------------------------------------------------------------ expressions


def evaluate_condition(field: str, text: str, seen: EvaluationScope) -> bool | EvaluationFailure:
    """Whether an expression holds. A Failure's message names `field`, the expression and why."""
    value = evaluate(field, text, seen)
    if isinstance(value, EvaluationFailure):
        return value
    fault = find_condition_fault(value)
    return value is True if fault is None else _failed(field, text, fault)


def find_condition_fault(value: Any) -> str | None:
    """Why a value is no answer to a condition, in a clause."""
    return None if isinstance(value, bool) else f"gives {kind_of(value)}, not true or false"


def evaluate_items(field: str, text: str, seen: EvaluationScope) -> list[Any] | EvaluationFailure:
    """The list that forEach.from gives, of MOST_RUNS and MAX_ITEMS_SIZE at most, or a Failure as
    above."""
    value = evaluate(field, text, seen)
    if isinstance(value, EvaluationFailure):
        return value
    if (fault := find_items_fault(value)) is not None:
        return _failed(field, text, fault)
    return list(value)


def find_items_fault(value: Any) -> str | None:
    """Why a value is no list that forEach goes over, in a clause."""
    if not isinstance(value, list):
        return f"gives {kind_of(value)}, not a list"
    if len(value) > MAX_RUNS:
        return f"gives {len(value):,} items; at most {MAX_RUNS:,} are allowed"
    if (size := len(msgspec.json.encode(value))) > MAX_ITEMS_SIZE:
        return f"gives items of {size:,} bytes; at most {MAX_ITEMS_SIZE:,} are allowed"
    return None


def evaluate(field: str, text: str, seen: EvaluationScope) -> Any:
    """The JSON that an expression gives, or a Failure as above."""
    found = parse_expression(text)
    if isinstance(found, ExpressionFault):
        return _failed(field, text, found.message)
    values = build_variables(found.mentions, seen)
    seen.work.left -= _effort(found.mentions, values, seen)
    value = found.evaluate(values, seen.work)
    return _failed(field, text, value.message) if isinstance(value, EvaluationFailure) else value


def build_variables(mentions: tuple[Mention, ...], seen: EvaluationScope) -> dict[str, Any]:
    """The JSON by variable that these mentions need; what there is not is left out."""
    made: dict[str, Any] = {}
    for mention in mentions:
        _PUT.get(mention.root, _put_own)(made, mention, seen)
    return made


def _effort(mentions: tuple[Mention, ...], made: Mapping[str, Any], seen: EvaluationScope) -> int:
    """Steps that it takes to put a context together: for items and params that are gone over."""
    items = sum([len(facts.get("items", ())) for facts in made.get("steps", {}).values()])
    params = min(len(seen.flow.spec.params or ()), MAX_PARAMS) if "params" in made else 0
    return 2 * items + len(mentions) * params // 4


def _put_params(made: dict[str, Any], mention: Mention, seen: EvaluationScope) -> None:
    into = made.setdefault("params", {})
    wanted = mention.keys[:1]
    for param in islice(seen.flow.spec.params or (), MAX_PARAMS):
        if not wanted or param.name == wanted[0]:
            into.setdefault(param.name, param.value)


def _put_flow(made: dict[str, Any], mention: Mention, seen: EvaluationScope) -> None:
    made["flow"] = _flow(seen)


def _put_step(made: dict[str, Any], mention: Mention, seen: EvaluationScope) -> None:
    into = made.setdefault("steps", {})
    if not mention.keys:
        return  # which step it takes is not written out, so admission refuses it
    name, *wanted = mention.keys
    standing = seen.standing(name)
    if standing is None:
        return
    facts = into.setdefault(name, {})
    for fact in wanted[:1] or STEP_FIELDS:
        if fact in STEP_FIELDS and fact not in facts:
            value = STEP_FIELDS[fact](*standing)
            if value is not UNSET:
                facts[fact] = value


def _put_own(made: dict[str, Any], mention: Mention, seen: EvaluationScope) -> None:
    """What belongs to the run: item, index, and what it came to."""
    root = mention.root
    value: Any = UNSET
    if root == "item":
        value = seen.item
    elif root == "index":
        value = seen.index
    elif seen.run is not None and root in RUN_FIELDS:
        value = RUN_FIELDS[root](seen.run)
    if value is not UNSET and not (root == "index" and value is None):
        made[root] = value


_PUT: Mapping[str, Callable[[dict[str, Any], Mention, EvaluationScope], None]] = {
    "params": _put_params,
    "flow": _put_flow,
    "steps": _put_step,
}


# ---------------------------------------------------------- what there is of a step


def _flow(seen: EvaluationScope) -> dict[str, str]:
    meta = seen.flow.metadata
    facts = {"name": meta.name, "namespace": meta.namespace}
    return facts | {"phase": str(seen.flow_phase)} if seen.flow_phase else facts


def _outputs(step: Step, condition: StepCondition) -> dict[str, Any]:
    """Of repeat those of its last run."""
    if condition.outputs is None and condition.runs and step.repeat is not None:
        return condition.runs[-1].outputs or {}
    return condition.outputs or {}


def _tasks(step: Step, condition: StepCondition) -> dict[str, dict[str, int]]:
    return {
        task: dict.fromkeys(POD_PHASES, 0) | (state.phase or {})
        for task, state in (condition.task_status_count or {}).items()
    }


def _items(step: Step, condition: StepCondition) -> Any:
    """With forEach one entry an item, in their order; UNSET without."""
    if step.for_each is None:
        return UNSET
    ended = condition.phase in ENDED_STEP_PHASES
    never = StepPhase.SKIPPED if ended else StepPhase.WAITING
    none: dict[str, Any] = {"phase": never.value, "outputs": {}}
    entries: list[dict[str, Any]] = [none] * _count(step.for_each, condition)
    for run in condition.runs or ():
        if run.index is not None and 0 <= run.index < len(entries):
            entries[run.index] = {"phase": str(run.phase), "outputs": run.outputs or {}}
    return entries


def _count(each: ForEach, condition: StepCondition) -> int:
    decided = condition.decisions.items if condition.decisions is not None else None
    if each.items is not None:
        decided = each.items
    count = len(decided) if decided is not None else each.count or 0
    return max(0, min(count, MAX_RUNS))


STEP_FIELDS: Mapping[str, Callable[[Step, StepCondition], Any]] = {
    "phase": lambda step, condition: str(condition.phase or StepPhase.WAITING),
    "reason": lambda step, condition: str(condition.reason),
    "attempts": lambda step, condition: condition.attempts,
    "outputs": _outputs,
    "tasks": _tasks,
    "items": _items,
}
"""What may be taken of `steps["x"]`."""

RUN_FIELDS: Mapping[str, Callable[[RunCondition], Any]] = {
    "phase": lambda run: str(run.phase),
    "reason": lambda run: str(run.reason),
    "outputs": lambda run: run.outputs or {},
}
"""Variables that are those of the run that has just ended, besides its index."""


# ------------------------------------------------------------------- references


class _NoValueError(Exception):
    """A reference leads nowhere."""


def resolve_references(value: Any, seen: EvaluationScope) -> Any:
    """The same JSON with every reference replaced by its value; a Failure where one has none."""
    try:
        return replace_references(value, lambda reference: _value(reference, seen))
    except _NoValueError as error:
        return EvaluationFailure(str(error), missing=True)
    except ReferencesTooLargeError:
        return EvaluationFailure(TOO_LARGE)


def _value(reference: Reference, seen: EvaluationScope) -> Any:
    mention = Mention(reference.root, reference.keys, 0)
    value: Any = build_variables((mention,), seen)
    way = ""
    for key in (reference.root, *reference.keys):
        inner = _taken(value, key)
        if inner is UNSET:
            there = f" in {way}" if way else ""
            raise _NoValueError(f"$({reference.path}) has no value: there is no {key!r}{there}")
        value, way = inner, f"{way}.{key}" if way else key
    return value


def _taken(value: Any, key: str) -> Any:
    if isinstance(value, dict):
        return value.get(key, UNSET)
    if isinstance(value, list) and key.isascii() and key.isdigit() and len(key) < _DIGITS:
        return value[int(key)] if int(key) < len(value) else UNSET
    return UNSET


def _failed(field: str, text: str, why: str) -> EvaluationFailure:
    shown = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
    return EvaluationFailure(f"{field} `{shown}`: {why}")


def kind_of(value: Any) -> str:
    """What a JSON value is, in a word or two."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
    return "a map"
