"""CEL expressions: parsed once, bounded, evaluated to JSON. They decide nothing.

What an expression may see is `scope`'s business. CEL is the Common Expression Language as
Kubernetes has it in validation rules (docs/decisions/expressions.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from jobflow.api.schema.nesting import MAX_DEPTH
from jobflow.core.cel.language.budget import Budget, BudgetExceededError, CelError
from jobflow.core.cel.language.macros import EvaluationFrame
from jobflow.core.cel.language.program import FunctionCall, Program, compile_program
from jobflow.core.cel.language.syntax import CelSyntaxError, parse
from jobflow.core.cel.language.values import describe_type, make_depth_error, normalize_number
from jobflow.core.cel.variables import Comparison, Mention, find_comparisons

MAX_LENGTH = 1024
"""Characters of an expression."""
MAX_RESULT = 65_536
"""Values that a result may hold, and characters of a text in it."""
MAX_CACHED = 4096
"""Expressions that are kept parsed, of all flows."""
_CHARACTERS = 16
"""Characters of a text that count as much as a value."""


@dataclass(frozen=True, slots=True)
class ExpressionFault:
    """Why a text is no expression that may run."""

    message: str
    at: int | None = None
    """Where, in characters from 0."""


@dataclass(frozen=True, slots=True)
class EvaluationFailure:
    """Why an expression has no value, with what it was given."""

    message: str
    missing: bool = False
    """Whether it is for something that is not there."""


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression that may run."""

    text: str
    mentions: tuple[Mention, ...]
    """Variables from outside, in the order of the text."""
    calls: tuple[FunctionCall, ...]
    """Functions and macros, in the order of the text."""
    _program: Program = field(repr=False, compare=False)

    def comparisons(self) -> Iterator[Comparison]:
        """Yield the variables that are compared with texts, in the order of the text."""
        return find_comparisons(self._program.compared)

    def evaluate(self, context: Mapping[str, Any], work: Budget | None = None) -> Any:
        """Return its value as JSON, or a Failure. `context`: JSON by variable. `work`: its budget,
        for a caller who shares it between evaluations."""
        work = work or Budget()
        try:
            work.spend(self._program.cost)
            frame = EvaluationFrame(context, self._program.slots, work)
            return _as_json(self._program.run(frame), work)
        except BudgetExceededError as error:
            return EvaluationFailure(str(error))
        except CelError as error:
            return EvaluationFailure(error.message, missing=error.missing)


def parse_expression(text: str) -> Expression | ExpressionFault:
    """Parse an expression; bounded before it is looked at, and read once for all flows."""
    if len(text) > MAX_LENGTH:  # nor is it kept
        return ExpressionFault(f"has {len(text):,} characters; at most {MAX_LENGTH:,} are allowed")
    return parse_cached(text)


@lru_cache(maxsize=MAX_CACHED)
def parse_cached(text: str) -> Expression | ExpressionFault:
    """Parse one that is not too long."""
    if not text.strip():
        return ExpressionFault("is empty")
    if not text.isprintable() and (odd := _unprintable(text)) is not None:
        return ExpressionFault(f"has the character U+{ord(text[odd]):04X}, which nobody sees", odd)
    try:
        made = compile_program(parse(text))
    except CelSyntaxError as error:
        return ExpressionFault(error.message, error.at)
    return Expression(text, made.mentions, made.calls, made)


def _unprintable(text: str) -> int | None:
    """Half characters and control characters besides line breaks and tabs."""
    return next(
        (
            at
            for at, each in enumerate(text)
            if not each.isprintable() and each not in "\n\r\t\u00a0"
        ),
        None,
    )


def _as_json(value: Any, work: Budget) -> Any:
    """Return the value if it is JSON of a bounded size; a Failure if it is anything else."""
    return _Result(work).checked(value, 1)


class _Result:
    """What an expression gives, as it is gone over. Raises CelError and TooMuchError."""

    def __init__(self, work: Budget) -> None:
        self._work = work
        self._left = MAX_RESULT

    def checked(self, value: Any, depth: int) -> Any:
        kind = value.__class__
        if kind is str:
            return self._text(value)
        if kind is list or kind is dict:
            if depth > MAX_DEPTH:
                raise make_depth_error()
            return self._list(value, depth) if kind is list else self._map(value, depth)
        self._count(1)
        return _scalar(value)

    def _count(self, values: int) -> None:
        self._work.spend(1)
        self._left -= values
        if self._left < 0:
            raise CelError(f"gives more than {MAX_RESULT:,} values")

    def _text(self, value: str) -> str:
        if len(value) > MAX_RESULT:
            raise CelError(f"gives a text of {len(value):,} characters")
        self._count(1 + len(value) // _CHARACTERS)
        if not value.isascii():
            self._work.read(value)
            _check_whole(value)
        return value

    def _list(self, value: list[Any], depth: int) -> list[Any]:
        self._count(1 + len(value))
        self._work.entries(len(value))
        return [self.checked(entry, depth + 1) for entry in value]

    def _map(self, value: dict[Any, Any], depth: int) -> dict[str, Any]:
        self._count(1 + len(value))
        self._work.pairs(len(value))
        if not all(isinstance(key, str) for key in value):
            raise CelError("gives a map whose keys are not texts")
        return {self._text(key): self.checked(each, depth + 1) for key, each in value.items()}


def _check_whole(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise CelError("gives a text with half of a surrogate pair") from None


def _scalar(value: Any) -> Any:
    if value is None or value.__class__ is bool:
        return value
    if isinstance(value, int):
        value = normalize_number(value)
        if isinstance(value, int):
            return int(value)
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        raise CelError(f"gives {value}, which JSON cannot hold")
    raise CelError(f"gives {describe_type(value)}; give a text, number, list or map")
