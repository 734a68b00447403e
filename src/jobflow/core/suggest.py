"""Suggestions for unknown words: "did you mean …"."""

import difflib
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from jobflow.core.lazy import lazy_property

CURLY_QUOTES = frozenset("\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u00ab\u00bb")
"""Quotes of word processors, which YAML reads as letters."""
CURLY_QUOTES_ARE_PART = ": its curly quotes are part of the name, write straight ones or none"

_STRIPPED = " \t\r\n\u00a0\u200b\ufeff\"'`" + "".join(sorted(CURLY_QUOTES))
"""Characters around a word that come from word processors or mistakes in YAML."""
_LONGEST = 300
"""Characters of a word; longer ones are not compared."""
_LETTERS = 160
"""Letters of one word times letters of the other that count as one comparison."""


def normalize_word(word: str) -> str:
    """Return a word in lower case, without quotes around it, with `-` for `_` and blanks."""
    return word.strip(_STRIPPED).casefold().replace("_", "-").replace(" ", "-")


class Suggester:
    """Finds the nearest known word for an unknown one. A word that differs only in case, quotes or
    `_` is always found; others are compared until `budget` comparisons have been used."""

    def __init__(self, known: Sequence[str], *, budget: int = 1000) -> None:
        self._known = known
        self._budget = budget * _LETTERS

    @lazy_property
    def _by_plain_form(self) -> dict[str, str]:
        # reversed, so that the first of several alike wins
        return {normalize_word(word): word for word in reversed(self._known) if word}

    def nearest(self, word: str) -> str | None:
        """Return the most similar known word, or None if no word is similar."""
        wanted = normalize_word(word)
        if not wanted or len(wanted) > _LONGEST:
            return None
        if (same := self._by_plain_form.get(wanted)) is not None:
            return same
        # difflib takes a time quadratic in the length of the words, so these are chosen first
        candidates = list(self._candidates(wanted))
        matches = difflib.get_close_matches(wanted, candidates, n=1, cutoff=0.7)
        return self._by_plain_form[matches[0]] if matches else None

    def _candidates(self, wanted: str) -> Iterator[str]:
        """Yield all words, or of very many those with the same first letter and similar length."""
        size = len(wanted)
        words: Iterable[str] = self._by_plain_form
        if max(size * self._letters, len(self._by_plain_form) * _LETTERS) > self._budget:
            alike = (self._by_size.get((wanted[0], size + more), []) for more in (0, 1, -1))
            words = chain.from_iterable(alike)
        for word in words:
            if self._budget <= 0:
                return
            if len(word) <= _LONGEST:
                self._budget -= max(size * len(word), _LETTERS)
                yield word
        self._budget -= _LETTERS

    @lazy_property
    def _letters(self) -> int:
        return sum(min(len(word), _LONGEST) for word in self._by_plain_form)

    @lazy_property
    def _by_size(self) -> dict[tuple[str, int], list[str]]:
        found: dict[tuple[str, int], list[str]] = {}
        for word in self._by_plain_form:
            found.setdefault((word[:1], len(word)), []).append(word)
        return found


def did_you_mean(guess: str | None) -> str:
    """Return `; did you mean "x"?`, or "" without a guess."""
    return f'; did you mean "{guess}"?' if guess else ""


def list_supported(value: object, words: Iterable[str]) -> str:
    """Return the detail of an unsupported value: the supported ones, and a suggestion."""
    listed = [str(word) for word in words]
    guess = Suggester(listed).nearest(value) if isinstance(value, str) else None
    return "supported values: " + ", ".join(f'"{word}"' for word in listed) + did_you_mean(guess)
