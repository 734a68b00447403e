"""The patterns of `matches`: regular expressions of RE2, which takes linear time.

A pattern is a literal, so its size is known at admission. RE2 is native code with a limit of memory
for each pattern, and writes nothing to stderr.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from jobflow.core.cel.language.budget import Budget
from jobflow.core.cel.language.tree import CelSyntaxError
from jobflow.core.cel.language.values import make_type_error

MAX_LENGTH = 256
"""Characters of all patterns of an expression."""
MAX_CLASSES = 4
"""Unicode classes in these patterns: RE2 takes a tenth of a millisecond to read each."""
MAX_MEMORY = 65_536
"""Bytes that RE2 may use for a pattern; it keeps 128 patterns."""
_CLASS = 800
"""Steps to read a Unicode class."""
_WORK_OF_A_STEP = 25
"""Instructions of a pattern times bytes of a text that RE2 processes in one step."""
_CALL = 10
_TOO_LARGE = "is too large; use fewer repetitions"


class Pattern(NamedTuple):
    """A pattern that RE2 accepts."""

    text: str
    size: int
    """Instructions of its program."""


@dataclass(slots=True)
class Patterns:
    """The patterns of one expression."""

    cost: int = 0
    """Steps to compile the patterns, once for each evaluation."""
    _length: int = 0
    _classes: int = 0

    def add(self, text: str, at: int) -> Pattern:
        """Check a pattern at this position in the expression. Raises CelSyntaxError."""
        self._length += len(text)
        self._classes += (classes := text.lower().count("\\p"))
        if self._length > MAX_LENGTH or self._classes > MAX_CLASSES:
            raise CelSyntaxError(f"the pattern of matches {_TOO_LARGE}", at)
        import re2  # late: few expressions have a pattern

        try:
            # decides what a search costs
            size = _compile(text).programsize
        except re2.error as error:
            why = "is not a regular expression"
            if "too large" in str(error):
                why = _TOO_LARGE
            raise CelSyntaxError(f"the pattern of matches {why}", at) from None
        self.cost += 50 + 4 * len(text) + 2 * size + _CLASS * classes
        return Pattern(text, size)


def search_pattern(text: Any, pattern: Pattern, budget: Budget) -> bool:
    """Return whether a text contains a pattern. Raises CelError and BudgetExceededError."""
    if text.__class__ is not str:
        raise make_type_error("matches", text)
    budget.add_text(len(text), wide=not text.isascii())
    encoded = text.encode("utf-8", "surrogatepass")
    budget.spend(_CALL + pattern.size * len(encoded) // _WORK_OF_A_STEP)
    return _compile(pattern.text).search(encoded) is not None


def _compile(text: str) -> Any:
    import re2

    options = re2.Options()
    options.max_mem = MAX_MEMORY
    # nothing reads groups, and they take memory
    options.never_capture = True
    options.log_errors = False
    return re2.compile(text, options)  # RE2 keeps the patterns that it compiled
