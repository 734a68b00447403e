"""The variables that an expression reads, and the texts that it compares them with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from jobflow.core.cel_syntax import Chain, ListOf, Literal, Name, Operation

COMPARING = frozenset({"==", "!=", "in"})
"""Operators of a Comparison."""


class Mention(NamedTuple):
    """A variable that an expression reads, as far down as it is written out: `steps["x"].phase`."""

    root: str
    keys: tuple[str, ...]
    """What is taken of it, one after another."""
    at: int
    """Where it begins in the text, from 0."""
    open: bool = False
    """Whether more is taken of it, by a key that is computed."""


class Comparison(NamedTuple):
    """A variable, and a text that `==`, `!=` or `in […]` compares it with."""

    variable: Mention
    text: str
    at: int
    """Where the text begins in the expression, from 0."""


def comparisons(mention: Mention, operation: Operation) -> Iterator[Comparison]:
    """Yield the texts that an operation compares its first variable with. There are none if the
    variable, with all its keys, is only a part of an operand."""
    one, (sign, other) = operation.first, operation.rest[0]
    texts = [other]
    if sign == "in":
        texts = other.entries if isinstance(other, ListOf) else []
    elif isinstance(one, Literal):
        one, texts = other, [one]
    whole = isinstance(one, (Name, Chain)) and one.at == mention.at
    if whole and len(mention.keys) == (len(one.steps) if isinstance(one, Chain) else 0):
        for text in texts:
            if isinstance(text, Literal) and isinstance(text.value, str):
                yield Comparison(mention, text.value, text.at)
