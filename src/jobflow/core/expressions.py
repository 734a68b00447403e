"""CEL expressions: parsed once, bounded before they run, evaluated to JSON. They decide nothing.

What an expression may see is `scope`'s business. CEL is the Common Expression Language as
Kubernetes has it in validation rules; the library's errors are put into sentences here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import cel

from jobflow.core.cel_words import COPYING, Words, words

MAX_LENGTH = 1024
"""Characters of an expression."""
MAX_NESTING = 16
"""Brackets within brackets."""
MAX_LOOPS = 2
"""Loops within loops: `a.all(x, b.exists(y, …))`."""
MAX_WORK = 4_000_000
"""What loops may come to, in copied or visited values: about 0.1 s."""
KEPT = 4096
"""Expressions that are kept parsed, of all flows."""

_ERRORS = (
    KeyError,
    IndexError,
    TypeError,
    ValueError,
    RuntimeError,
    ArithmeticError,
    AttributeError,
)
_SYNTAX = re.compile(r"ERROR: <input>:(\d+):(\d+): (?:Syntax error: )?(.*)")
_UNDEFINED = re.compile(r"Undefined variable or function: '(.*?)'")


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a text is no expression that may run."""

    message: str
    at: int | None = None
    """Where, in characters from 0."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an expression has no value, with what it was given."""

    message: str
    missing: bool = False
    """Whether it is for something that is not there."""


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression that may run."""

    text: str
    words: Words
    _program: Any = field(repr=False, compare=False)

    def evaluate(self, context: Mapping[str, Any]) -> Any:
        """Its value as JSON, or a Failure. `context`: JSON by variable."""
        if (work := self._work(context)) > MAX_WORK:
            return Failure(
                f"its loops would look at about {work:,} values, more than {MAX_WORK:,}; "
                "take a loop out or make the lists shorter"
            )
        try:
            return _as_json(self._program.execute(dict(context)))
        except _ERRORS as error:
            return Failure(_said(error), missing=isinstance(error, KeyError | IndexError))

    def _work(self, context: Mapping[str, Any]) -> int:
        """About how many values its loops visit and copy.

        Lists are taken to be as long as the longest that it mentions, for what a loop goes over is
        not known beforehand. The library makes the result of `map` and `filter` anew for every
        entry, so these cost the square of the length, times the values in what they gather.
        """
        if not self.words.loops:
            return 0
        longest = self.words.commas + 1
        within, gathered = longest, 0
        for mention in self.words.mentions:
            entries, inside = _size(_at(context.get(mention.root), mention.keys))
            longest, within = max(longest, entries), max(within, inside)
            if mention.looped and entries:
                gathered = max(gathered, inside)
        each = max(within // longest, gathered, 1) * (1 + self.words.commas - len(self.words.loops))
        copying = longest * longest * each
        return max(
            math.prod(copying if name in COPYING else longest for name in loop)
            for loop in self.words.loops
        )


@lru_cache(maxsize=KEPT)
def expression(text: str) -> Expression | Fault:
    """Parse an expression; bounded before it is looked at, and read once for all flows."""
    if not text.strip():
        return Fault("is empty")
    if len(text) > MAX_LENGTH:
        return Fault(f"has {len(text)} characters; at most {MAX_LENGTH} are allowed")
    if (deep := _brackets(text)) is not None:
        return Fault(f"nests brackets deeper than {MAX_NESTING}", deep)
    try:
        program = cel.compile(text)
    except _ERRORS as error:
        return _syntax(text, str(error))
    found = words(text)
    if any(len(loop) > MAX_LOOPS for loop in found.loops):
        return Fault(f"nests loops deeper than {MAX_LOOPS}")
    return Expression(text, found, program)


def _brackets(text: str) -> int | None:
    """Where brackets are nested too deep; those in texts count too, for nothing is parsed yet."""
    depth = 0
    for at, character in enumerate(text):
        if character in "([{":
            depth += 1
            if depth > MAX_NESTING:
                return at
        elif character in ")]}":
            depth = max(depth - 1, 0)
    return None


def _syntax(text: str, message: str) -> Fault:
    """The first thing that is wrong, in the parser's words."""
    found = _SYNTAX.search(message)
    if found is None:
        return Fault(f"is no CEL expression: {message.splitlines()[0]}" if message else "is no CEL")
    line, column, said = int(found[1]), int(found[2]), found[3].strip()
    before = sum(len(each) + 1 for each in text.split("\n")[: line - 1])
    return Fault(f"is no CEL expression: {_readable(said)}", min(before + column - 1, len(text)))


def _readable(said: str) -> str:
    """The parser lists every word that could stand there, which helps nobody."""
    head, _, _ = said.partition(" expecting ")
    return head.replace("'<EOF>'", "its end").replace("mismatched input", "unexpected")


def _said(error: BaseException) -> str:
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    if isinstance(error, KeyError):
        return f"there is no {error.args[0]!r}" if error.args else "something is not there"
    if found := _UNDEFINED.search(text):
        return f"there is no variable or function {found[1]}"
    return text.partition(" CEL does not coerce")[0].rstrip(". ")


def _as_json(value: Any) -> Any:
    """The value if it is JSON; a Failure if it is anything else that CEL knows."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else Failure(f"gives {value}, which no JSON is")
        case list():
            return _first_failure(entries := [_as_json(entry) for entry in value]) or entries
        case dict():
            if not all(isinstance(key, str) for key in value):
                return Failure("gives a map whose keys are no texts")
            made = {key: _as_json(entry) for key, entry in value.items()}
            return _first_failure(list(made.values())) or made
    return Failure(f"gives a {type(value).__name__}; give a text, number, list or map")


def _first_failure(values: list[Any]) -> Failure | None:
    return next((value for value in values if isinstance(value, Failure)), None)


def _at(value: Any, keys: tuple[str, ...]) -> Any:
    for key in keys:
        if not isinstance(value, dict) or key not in value:
            return value
        value = value[key]
    return value


def _size(value: Any) -> tuple[int, int]:
    """Entries of the longest list or map in a value, and the values in it altogether."""
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list):
        return 0, 1
    longest, nodes = len(value), 1
    for entry in value:
        inner, inside = _size(entry)
        longest, nodes = max(longest, inner), nodes + inside
    return longest, nodes
