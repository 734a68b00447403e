"""CEL expressions: parsed once, bounded, evaluated to JSON. They decide nothing.

What an expression may see is `scope`'s business. CEL is the Common Expression Language as
Kubernetes has it in validation rules; the library's errors are put into sentences here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from jobflow.core.cel_forms import form_of, taken
from jobflow.core.cel_pieces import OWN, Piece, goes_over, pattern_cost, pattern_of, take_apart
from jobflow.core.cel_words import FUNCTIONS, Word, Words, split
from jobflow.core.cel_work import ERRORS, Given, TooMuchError, Work, weight

MAX_LENGTH = 1024
"""Characters of an expression."""
MAX_NESTING = 16
"""Brackets within brackets."""
MAX_LOOPS = 16
"""Loops, wherever they are, and functions of a list."""
MAX_PATTERN = 10_000
"""Microseconds that it may take to make a regular expression ready."""
MAX_RESULT = 65_536
"""Values that a result may hold, and characters of a text in it."""
KEPT = 4096
"""Expressions that are kept parsed, of all flows."""

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
    _whole: Piece = field(repr=False, compare=False)
    _texts: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """By the variables that stand for them in the piece (`cel_forms`)."""

    def evaluate(self, context: Mapping[str, Any], work: Work | None = None) -> Any:
        """Its value as JSON, or a Failure. `context`: JSON by variable. `work`: its budget, where
        the caller wants to know what is left of it."""
        try:
            return _as_json((work or Work()).run(self._whole, Given(context).beside(self._texts)))
        except TooMuchError:
            return Failure(
                "it takes too long: loops within loops, or over long lists of large values; "
                "take a loop out, or look at less"
            )
        except ERRORS as error:
            return Failure(_said(error), missing=isinstance(error, KeyError | IndexError))
        except BaseException as error:
            if not _is_panic(error):
                raise
            return Failure("the CEL library cannot evaluate it; write it in another way")


def expression(text: str) -> Expression | Fault:
    """Parse an expression; bounded before it is looked at, and read once for all flows."""
    if len(text) > MAX_LENGTH:  # nor is it kept
        return Fault(f"has {len(text):,} characters; at most {MAX_LENGTH:,} are allowed")
    return parsed(text)


@lru_cache(maxsize=KEPT)
def parsed(text: str) -> Expression | Fault:
    """The same of one that is not too long."""
    if not text.strip():
        return Fault("is empty")
    if _may_nest(text) and (deep := _brackets(text)) is not None:
        return Fault(f"nests brackets deeper than {MAX_NESTING}", deep)
    if not text.isprintable() and (odd := _unprintable(text)) is not None:
        return Fault(f"has the character U+{ord(text[odd]):04X}, which nobody sees", odd)
    if (known := taken(text)) is None:
        return _read(text)
    form, texts = form_of(known.form), known.texts
    if form.parses:
        return Expression(text, form.words(texts), form.piece, form.variables(texts))
    found = _read(text)
    form.parses = isinstance(found, Expression)
    return found


def _read(text: str) -> Expression | Fault:
    """The same of one whose form was not seen before."""
    import cel  # late: it brings a terminal toolkit along, and most flows have no expression

    try:
        program = cel.compile(text)
        found = split(text)
        if (fault := _own_fault(found)) is not None:
            return fault
        piece, whole = take_apart(text, program, found)
        return Expression(text, whole, piece)
    except ERRORS as error:
        return _syntax(text, str(error))
    except BaseException as error:
        if not _is_panic(error):
            raise
        return Fault("the CEL library cannot read it; write it in another way")


def _is_panic(error: BaseException) -> bool:
    """Whether the library's own code broke down, which is no Exception."""
    return type(error).__name__ == "PanicException"


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


def _own_fault(found: Sequence[Word]) -> Fault | None:
    """What we do not take although CEL does."""
    loops = [word for at, word in enumerate(found) if goes_over(found, at)]
    if len(loops) > MAX_LOOPS:
        return Fault(f"goes over lists more than {MAX_LOOPS} times", loops[MAX_LOOPS].at)
    for at, word in enumerate(found):
        if word.kind != "name":
            continue
        if word.text.startswith(OWN):
            return Fault(f"names that begin with {OWN} are not allowed", word.at)
        if word.text == "matches" and at + 1 < len(found) and found[at + 1].text == "(":
            if (pattern := pattern_of(found, at)) is None:
                how = 'params.x.matches("^v[0-9]+$")'
                return Fault(f"the pattern of matches has to be written out, as in {how}", word.at)
            if pattern_cost(pattern) > MAX_PATTERN:
                return Fault("the pattern of matches is too large; repeat less in it", word.at)
            if not _is_pattern(pattern):
                return Fault("the pattern of matches is no regular expression", word.at)
    return None


def _is_pattern(pattern: str) -> bool:
    """Whether the library takes it: its syntax is RE2's, but for small things."""
    import cel

    try:
        cel.evaluate('"".matches(pattern)', {"pattern": pattern})
    except ERRORS:
        return False
    return True


def _may_nest(text: str) -> bool:
    """A quick look, which most expressions do not get beyond."""
    return text.count("(") + text.count("[") + text.count("{") > MAX_NESTING


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
    if head.startswith("Incomplete"):
        return "a part is missing"
    for word in ("token recognition error at:", "mismatched input", "extraneous input"):
        head = head.replace(word, "unexpected")
    if head == "unexpected '<EOF>'":
        return "it ends too early"
    return head.replace("'<EOF>'", "its end")


def _said(error: BaseException) -> str:
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    if isinstance(error, KeyError):
        return f"there is no {error.args[0]!r}" if error.args else "something is not there"
    if found := _UNDEFINED.search(text):
        if found[1] in FUNCTIONS:
            return f"{found[1]} does not take what it is given"
        return f"there is no variable or function {found[1]}"
    if text.startswith("No such overload"):
        return "an operator or function does not take what it is given, such as a text and a number"
    return text.partition(" Check function arguments")[0].rstrip(". ")


def _as_json(value: Any) -> Any:
    """The value if it is JSON of a bounded size; a Failure if it is anything else."""
    if weight(value) > MAX_RESULT:
        return Failure(f"gives more than {MAX_RESULT:,} values")
    return _checked(value)


def _checked(value: Any) -> Any:
    match value:
        case None | bool():
            return value
        case str():
            long = len(value) > MAX_RESULT
            return Failure(f"gives a text of {len(value):,} characters") if long else value
        case int():
            inside = -(1 << 63) <= value < 1 << 64
            return value if inside else Failure(f"gives {value}, which has more than 64 bits")
        case float():
            return value if math.isfinite(value) else Failure(f"gives {value}, which no JSON is")
        case list():
            entries = [_checked(entry) for entry in value]
            return _first_failure(entries) or entries
        case dict():
            if not all(isinstance(key, str) for key in value):
                return Failure("gives a map whose keys are no texts")
            # by key, for the library has them in any order
            made = {key: _checked(value[key]) for key in sorted(value)}
            return _first_failure(made.values()) or made
    return Failure(f"gives a {type(value).__name__}; give a text, number, list or map")


def _first_failure(values: Iterable[Any]) -> Failure | None:
    return next((value for value in values if isinstance(value, Failure)), None)
