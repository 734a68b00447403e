"""The variables that an expression reads, and the texts that it compares them with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from jobflow.core.cel.language.syntax import (
    Call,
    Chain,
    Field,
    Index,
    ListOf,
    Literal,
    Name,
    Node,
    Operation,
)


class Mention(NamedTuple):
    """A variable that an expression reads, as far down as it is written out: `steps["x"].phase`."""

    root: str
    keys: tuple[str, ...]
    """What is taken of it, one after another."""
    at: int
    """Where it begins in the text, from 0."""
    open: bool = False
    """Whether more is taken of it, by a key that is computed."""


Compared = tuple[Operation, tuple[str, ...]]
"""`==`, `!=` or `in`, and the variables that macros bind there."""


class Comparison(NamedTuple):
    """A variable, and a text that `==`, `!=` or `in […]` compares it with."""

    path: tuple[str, ...]
    """The variable and its keys: `("steps", "x", "reason")`."""
    bound: bool
    """Whether a macro binds the variable, as `i` in `list.all(i, i.phase == "Running")`."""
    text: str
    at: int
    """Where the text begins in the expression, from 0."""


def comparisons(compared: Iterable[Compared]) -> Iterator[Comparison]:
    """Yield the variables that are compared with texts that are written out."""
    for operation, bound in compared:
        one, (sign, other) = operation.first, operation.rest[0]
        texts = [other]
        if sign == "in":
            texts = other.entries if isinstance(other, ListOf) else []
        elif isinstance(one, Literal):
            one, texts = other, [one]
        if path := _path(one):
            for text in texts:
                if isinstance(text, Literal) and isinstance(text.value, str):
                    yield Comparison(path, path[0] in bound, text.value, text.at)


def _path(node: Node) -> tuple[str, ...]:
    """Return a variable and all its keys; nothing if a key is computed or a function is called."""
    if isinstance(node, Name):
        return (node.name,)
    if not isinstance(node, Chain):
        return ()
    first, keys = _path(node.first), written_keys(node.steps)
    return (*first, *map(str, keys)) if first and len(keys) == len(node.steps) else ()


def written_keys(steps: Sequence[Field | Index | Call]) -> list[Any]:
    """The keys that are written out, up to the first that is not."""
    keys: list[Any] = []
    for step in steps:
        if isinstance(step, Field):
            keys.append(step.key)
        elif isinstance(step, Index) and isinstance(step.key, Literal):
            if type(step.key.value) not in (str, int):
                break
            keys.append(step.key.value)
        else:
            break
    return keys
