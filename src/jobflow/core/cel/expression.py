"""Expressions of a flow: parsed once, bounded, evaluated to JSON.

An expression is CEL, the Common Expression Language of Kubernetes (docs/decisions/expressions.md).
The variables that it may read are those of `scope`.

An output that begins like JSON and is none (NaN, a dict as Python prints it, two lines) is one
text, so an expression that reads a key of it has no value. `explain_failure` names it.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from jobflow.api.nesting import MAX_DEPTH
from jobflow.core.cel.budget import Budget, BudgetExceededError, CelError
from jobflow.core.cel.language.macros import EvaluationFrame
from jobflow.core.cel.language.parser import parse
from jobflow.core.cel.language.tree import CelSyntaxError, Comparison, Mention, find_comparisons
from jobflow.core.cel.language.values import describe_type, make_depth_error, normalize_number

if TYPE_CHECKING:
    from jobflow.core.cel.language.compiler import FunctionCall, Program

MAX_LENGTH = 1024
"""Characters of an expression."""
MAX_RESULT = 65_536
"""Values in a result, and characters of a text in it."""
MAX_CACHED = 4096
"""Parsed expressions in the cache of all flows."""
_CHARACTERS = 16
"""Characters of a text that count as one value."""


@dataclass(frozen=True, slots=True)
class ExpressionFault:
    """The reason why a text is not an expression that may run."""

    message: str
    at: int | None = None
    """Position in the text, from 0."""


@dataclass(frozen=True, slots=True)
class EvaluationFailure:
    """The reason why an expression has no value."""

    message: str
    missing: bool = False
    """Whether the reason is that something does not exist."""


@dataclass(frozen=True, slots=True)
class Expression:
    text: str
    mentions: tuple[Mention, ...]
    """Variables that no macro binds, in the order of the text."""
    calls: tuple[FunctionCall, ...]
    """Functions and macros, in the order of the text."""
    _program: Program = field(repr=False, compare=False)

    def comparisons(self) -> Iterator[Comparison]:
        return find_comparisons(self._program.compared)

    def evaluate(self, variables: Mapping[str, Any], budget: Budget | None = None) -> Any:
        """Return the value as JSON, or an EvaluationFailure. `budget` may be shared."""
        budget = budget or Budget()
        try:
            # the whole expression is paid for before it runs
            budget.spend(self._program.cost)
            frame = EvaluationFrame(variables, self._program.slots, budget)
            return _ResultCheck(budget).check(self._program.run(frame), 1)
        except BudgetExceededError as error:
            return EvaluationFailure(str(error))
        except CelError as error:
            return EvaluationFailure(error.message, missing=error.missing)


def parse_expression(text: str) -> Expression | ExpressionFault:
    # the cache would keep every long text that is tried
    if len(text) > MAX_LENGTH:
        return ExpressionFault(f"has {len(text):,} characters; at most {MAX_LENGTH:,} are allowed")
    return parse_cached(text)


@lru_cache(maxsize=MAX_CACHED)
def parse_cached(text: str) -> Expression | ExpressionFault:
    """Parse an expression of at most MAX_LENGTH characters."""
    if not text.strip():
        return ExpressionFault("is empty")
    if not text.isprintable():
        # such as a zero-width space from a web page, which nobody would find
        for at, character in enumerate(text):
            if not character.isprintable() and character not in "\n\r\t\u00a0":
                code = f"U+{ord(character):04X}"
                return ExpressionFault(f"has the invisible character {code}; remove it", at)
    # a third of CEL: a flow without expressions and most commands need none of it
    from jobflow.core.cel.language.compiler import compile_program

    try:
        program = compile_program(parse(text))
    except CelSyntaxError as error:
        return ExpressionFault(error.message, error.at)
    return Expression(text, tuple(program.mentions), tuple(program.calls), program)


class _ResultCheck:
    """Checks that a result is JSON of a bounded size. Raises CelError and BudgetExceededError."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._left = MAX_RESULT

    def check(self, value: Any, depth: int) -> Any:
        kind = value.__class__
        if kind is str:
            return self._text(value)
        if kind is not list and kind is not dict:
            self._count(1)
            if value is None or kind is bool:
                return value
            if isinstance(value, int):
                value = normalize_number(value)
            if isinstance(value, int):
                return int(value)
            if not isinstance(value, float):
                words = describe_type(value)
                raise CelError(f"gives {words}; give a text, number, list or map")
            if not math.isfinite(value):
                raise CelError(f"gives {value}, which JSON cannot hold")
            return value
        if depth > MAX_DEPTH:
            raise make_depth_error()
        self._count(1 + len(value))
        if kind is list:
            self._budget.add_list(len(value))
            return [self.check(entry, depth + 1) for entry in value]
        self._budget.add_map(len(value))
        if not all(isinstance(key, str) for key in value):
            raise CelError("gives a map whose keys are not texts")
        return {self._text(key): self.check(entry, depth + 1) for key, entry in value.items()}

    def _count(self, values: int) -> None:
        self._budget.spend(1)
        self._left -= values
        if self._left < 0:
            raise CelError(f"gives more than {MAX_RESULT:,} values")

    def _text(self, value: str) -> str:
        # before it is walked
        if len(value) > MAX_RESULT:
            raise CelError(f"gives a text of {len(value):,} characters")
        self._count(1 + len(value) // _CHARACTERS)
        if not value.isascii():
            self._budget.read(value)
            try:
                # a status is UTF-8
                value.encode()
            except UnicodeEncodeError:
                raise CelError("gives a text with half of a surrogate pair") from None
        return value


# ------------------------------------------------------- outputs that are no JSON


_TOO_SHORT = "truncated"
"""Word of msgspec's message about a text that is the beginning of JSON."""
_WORD = re.compile(r"\S{1,20}")


def explain_failure(
    failure: EvaluationFailure, mentions: Sequence[Mention], variables: Mapping[str, Any]
) -> str:
    """Return the message of a failure, with the mentioned outputs that are not JSON if a key is
    missing. `variables`: the values of the mentions."""
    steps = variables.get("steps", {})
    for mention in mentions if failure.missing else ():
        keys: Sequence[str] = ()
        match (mention.root, *mention.keys):
            case ("steps", name, "outputs", *keys) if name in steps:
                read = {name: steps[name].get("outputs", {})}
            case ("steps", name, "items", *_) if name in steps:
                items = enumerate(steps[name].get("items", ()))
                read = {f"{name}/{i}": item["outputs"] for i, item in items}
            case ("steps", name, "item", "outputs", *keys) if name in steps:
                read = {f"the item of {name}": steps[name].get("item", {}).get("outputs", {})}
            case ("outputs", *keys):
                read = {"this run": variables.get("outputs", {})}
            case ("last", "outputs", *keys):
                read = {"the run before": variables.get("last", {}).get("outputs", {})}
            case _:
                continue
        # `text` is there, so it is not what is missing
        for owner, outputs in read.items() if keys[:1] != ["text"] else ():
            if fault := _find_fault(outputs):
                return f"{failure.message}; the output of {owner} {fault}"
    return failure.message


def _find_fault(outputs: Mapping[str, Any]) -> str | None:
    """Return why the text of outputs is not JSON; None if it is, or does not begin like JSON."""
    text = outputs.get("text")
    # other texts are meant as texts
    if len(outputs) != 1 or not isinstance(text, str) or not text.startswith(("{", "[")):
        return None

    def is_malformed(end: int) -> bool:
        error = _find_error(text[:end])
        return error is not None and _TOO_SHORT not in error

    # if one beginning of the text is malformed, so are all longer ones
    end = bisect_left(range(len(text) + 1), True, key=is_malformed)
    if end <= len(text):
        word = _WORD.match(text, end - 1)
        return f"is not JSON at character {end}" + (f": `{word[0]}`" if word else "")
    if _find_error(text) is None:
        return None
    return f"is not JSON at character {end}: it ends too early"


def _find_error(text: str) -> str | None:
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        return str(error)
    except RecursionError:
        pass  # it is too deep, which is no error of JSON
    return None
