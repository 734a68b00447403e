"""The patterns of `matches`: regular expressions of RE2, which takes linear time.

A pattern is written out, so its size is known at admission. RE2 is native code and gets a small
room of memory for each; it writes nothing to stderr.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from jobflow.core.cel.language.budget import Budget
from jobflow.core.cel.language.syntax import CelSyntaxError
from jobflow.core.cel.language.values import make_type_error

MAX_LENGTH = 256
"""Characters of the patterns of an expression together."""
MAX_CLASSES = 4
"""Classes of Unicode in them: RE2 takes a tenth of a millisecond to read each."""
ROOM = 65_536
"""Bytes that RE2 may take for a pattern; it keeps 128 patterns."""
_CLASS = 800
"""Steps to read a class of Unicode."""
_UNITS = 25
"""Instructions of a pattern times bytes of a text that RE2 goes over in one step."""
_CALL = 10


class Pattern(NamedTuple):
    """A pattern that RE2 takes."""

    text: str
    size: int
    """Instructions of its program."""


@dataclass(slots=True)
class Patterns:
    """The patterns of one expression."""

    cost: int = 0
    """Steps to compile them, once an evaluation."""
    _length: int = 0
    _classes: int = 0

    def add(self, text: str, at: int) -> Pattern:
        """Check a pattern; `at`: its place. Raises CelSyntaxError."""
        self._length += len(text)
        self._classes += (classes := text.lower().count("\\p"))
        if self._length > MAX_LENGTH or self._classes > MAX_CLASSES:
            raise CelSyntaxError("the pattern of matches is too large; use fewer repetitions", at)
        try:
            size = _compiled(text).programsize
            self.cost += 50 + 4 * len(text) + 2 * size + _CLASS * classes
            return Pattern(text, size)
        except _errors() as error:
            said = str(error)
        if "too large" in said:
            raise CelSyntaxError("the pattern of matches is too large; use fewer repetitions", at)
        raise CelSyntaxError("the pattern of matches is not a regular expression", at)


def matched(text: Any, pattern: Pattern, work: Budget) -> bool:
    """Whether a pattern is found in a text. Raises CelError and TooMuchError."""
    if text.__class__ is not str:
        raise make_type_error("matches", text)
    work.write(len(text), wide=not text.isascii())
    given = text.encode("utf-8", "surrogatepass")
    work.spend(_CALL + pattern.size * len(given) // _UNITS)
    return _compiled(pattern.text).search(given) is not None


def _compiled(text: str) -> Any:
    """RE2 keeps those that it has compiled."""
    import re2  # late: few expressions have a pattern

    options = re2.Options()
    options.max_mem = ROOM
    options.never_capture = True
    options.log_errors = False
    return re2.compile(text, options)


def _errors() -> Any:
    import re2

    return re2.error
