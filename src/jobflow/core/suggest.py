"""Guesses what somebody meant by an unknown word. It never decides that a word is wrong."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain

CURLY_QUOTES = frozenset("\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u00ab\u00bb")
"""What word processors make of quotes; YAML reads them as letters."""
CURLY_QUOTES_ARE_PART = ": its curly quotes are part of the name, write straight ones or none"

_STRIPPED = " \t\r\n\u00a0\u200b\ufeff\"'`" + "".join(sorted(CURLY_QUOTES))
"""What word processors and YAML mistakes leave around a word."""


_LONGEST = 300
"""Longer words are compared with nothing."""
_LETTERS = 160
"""Letters of one word times those of the other in one comparison of the budget."""


def normalize_word(word: str) -> str:
    """A word without quotes and blanks around it, in lower case, its `_` and blanks as `-`."""
    return word.strip(_STRIPPED).casefold().replace("_", "-").replace(" ", "-")


class Suggester:
    """The nearest known word for an unknown one, at a cost that is bounded whatever is asked.

    Words that differ only in case, quotes or `_` are always found. Others are compared by
    similarity until `budget` comparisons have been spent; after that there are no guesses. Words
    of more than a dozen letters cost as many comparisons as their letters take time.
    """

    def __init__(self, known: Sequence[str], *, budget: int = 1000) -> None:
        self._known = known
        self._budget = budget * _LETTERS

    @cached_property
    def _by_plain_form(self) -> dict[str, str]:
        return {normalize_word(word): word for word in reversed(self._known) if word}

    def nearest(self, word: str) -> str | None:
        """The known word that is most like this one, if any is like it at all."""
        wanted = normalize_word(word)
        if not wanted or len(wanted) > _LONGEST:
            return None
        if (same := self._by_plain_form.get(wanted)) is not None:
            return same
        candidates = list(self._candidates(wanted))
        matches = difflib.get_close_matches(wanted, candidates, n=1, cutoff=0.7)
        return self._by_plain_form[matches[0]] if matches else None

    def _candidates(self, wanted: str) -> Iterator[str]:
        """The words to compare with: all, or of very many those that begin and are sized alike."""
        size = len(wanted)
        words: Iterable[str] = self._by_plain_form
        if (
            size * self._letters > self._budget
            or len(self._by_plain_form) * _LETTERS > self._budget
        ):
            alike = (self._by_size.get((wanted[0], size + more), []) for more in (0, 1, -1))
            words = chain.from_iterable(alike)
        for word in words:
            if self._budget <= 0:
                return
            if len(word) <= _LONGEST:
                self._budget -= max(size * len(word), _LETTERS)
                yield word
        self._budget -= _LETTERS

    @cached_property
    def _letters(self) -> int:
        return sum(min(len(word), _LONGEST) for word in self._by_plain_form)

    @cached_property
    def _by_size(self) -> dict[tuple[str, int], list[str]]:
        """Plain forms by their first character and length."""
        found: dict[tuple[str, int], list[str]] = {}
        for word in self._by_plain_form:
            found.setdefault((word[:1], len(word)), []).append(word)
        return found


def did_you_mean(guess: str | None) -> str:
    """`; did you mean "x"?`, or nothing."""
    return f'; did you mean "{guess}"?' if guess else ""


def list_supported(value: object, words: Iterable[str]) -> str:
    """The detail of an unsupported value: the words there are, and the one that was meant."""
    listed = [str(word) for word in words]
    guess = Suggester(listed).nearest(value) if isinstance(value, str) else None
    return "supported values: " + ", ".join(f'"{word}"' for word in listed) + did_you_mean(guess)
