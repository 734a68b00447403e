"""Expressions that differ in their texts alone have one form, which is parsed once for them all.
It evaluates nothing.

`steps["a"].phase == "Failed"` and `steps["b"].phase == "Completed"` are a form with two texts: for
the library these are variables, `steps[__t0].phase == __t1`. Whether an expression can be parsed
hangs on the kinds of its words, not on what a text says, so it is enough that one of a form was.
What could be read in two ways (escapes, comments, patterns) has no form and is parsed as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import NamedTuple

from jobflow.core.cel_pieces import OWN, Piece, take_apart
from jobflow.core.cel_words import Call, Mention, Words, split, words

KEPT = 1024
"""Forms that are kept, of all flows."""

_TEXT = re.compile(r"""(?<![A-Za-z0-9_])(?:"[^"\n\r]*"|'[^'\n\r]*')""")
_OTHERWISE = re.compile(rf"""\\|//|\"\"\"|'''|{OWN}|matches""")
"""What is not taken for a form, wherever it stands."""


class Taken(NamedTuple):
    """An expression by its form and its texts."""

    form: tuple[str, ...]
    """What stands before, between and behind the texts."""
    texts: list[str]
    """In their quotes."""


def taken(expression: str) -> Taken | None:
    """The form of an expression; None where it has no texts, or could be read in two ways."""
    if _OTHERWISE.search(expression) is not None:
        return None
    form = tuple(_TEXT.split(expression))
    if len(form) == 1 or any('"' in part or "'" in part for part in form):
        return None
    return Taken(form, _TEXT.findall(expression))


class _Place(NamedTuple):
    """Where a name stands in every expression of a form."""

    at: int
    """Characters before it, without the texts."""
    texts: int
    """How many texts are before it."""


class Form:
    """What the expressions of one form share, worked out when the second of them comes."""

    def __init__(self, parts: Sequence[str]) -> None:
        self.parses = False
        """Whether one of them has been parsed."""
        self._parts = parts
        self._ends = list(accumulate(map(len, parts)))
        self._names = [f"{OWN}t{i}" for i in range(len(parts) - 1)]

    def variables(self, texts: Sequence[str]) -> Mapping[str, str]:
        """What stands for the texts while an expression is evaluated."""
        return dict(zip(self._names, (text[1:-1] for text in texts), strict=True))

    @cached_property
    def piece(self) -> Piece:
        """What is evaluated, for them all."""
        import cel  # late, as in `expressions`

        written = self._with([f" {name} " for name in self._names])
        return take_apart(written, cel.compile(written), split(written))[0]

    def words(self, texts: Sequence[str]) -> Words:
        """What the expression with these texts is made of."""
        before = [0, *accumulate(map(len, texts))]
        mentions, calls = self._template

        def at(place: _Place) -> int:
            return place.at + before[place.texts]

        def keys(mention: Mention) -> tuple[str, ...]:
            return tuple(
                [texts[int(key[1:])][1:-1] if key[0] == '"' else key for key in mention.keys]
            )

        return Words(
            tuple([Mention(m.root, keys(m), at(place), m.open) for m, place in mentions]),
            tuple([Call(call.name, at(place), call.of) for call, place in calls]),
        )

    @cached_property
    def _template(self) -> tuple[list[tuple[Mention, _Place]], list[tuple[Call, _Place]]]:
        """Mentions and calls with their places; keys that are texts are `"` and their number."""
        texts = [f"'\"{i}'" for i in range(len(self._names))]
        found = words(split(self._with(texts)))
        return (
            [(mention, self._place(mention.at, texts)) for mention in found.mentions],
            [(call, self._place(call.at, texts)) for call in found.calls],
        )

    def _place(self, at: int, texts: Sequence[str]) -> _Place:
        before = [0, *accumulate(map(len, texts))]
        count = sum(end + before[i] <= at for i, end in enumerate(self._ends[:-1]))
        return _Place(at - before[count], count)

    def _with(self, texts: Sequence[str]) -> str:
        """The expression with these in the places of the texts."""
        between = zip(self._parts, (*texts, ""), strict=True)
        return "".join(part + text for part, text in between)


@lru_cache(maxsize=KEPT)
def form_of(parts: tuple[str, ...]) -> Form:
    """The one form of these parts."""
    return Form(parts)
