"""The variables that an expression reads, and the texts that it compares them with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from jobflow.core.cel.language.syntax import (
    CallNode,
    ChainNode,
    FieldNode,
    IndexNode,
    ListNode,
    LiteralNode,
    NameNode,
    OperationNode,
    SyntaxNode,
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


Compared = tuple[OperationNode, tuple[str, ...]]
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


def find_comparisons(compared: Iterable[Compared]) -> Iterator[Comparison]:
    """Yield the variables that are compared with texts that are written out."""
    for operation, bound in compared:
        one, (sign, other) = operation.first, operation.rest[0]
        texts = [other]
        if sign == "in":
            texts = other.entries if isinstance(other, ListNode) else []
        elif isinstance(one, LiteralNode):
            one, texts = other, [one]
        if path := _path(one):
            for text in texts:
                if isinstance(text, LiteralNode) and isinstance(text.value, str):
                    yield Comparison(path, path[0] in bound, text.value, text.at)


def _path(node: SyntaxNode) -> tuple[str, ...]:
    """Return a variable and all its keys; nothing if a key is computed or a function is called."""
    if isinstance(node, NameNode):
        return (node.name,)
    if not isinstance(node, ChainNode):
        return ()
    first, keys = _path(node.first), take_literal_keys(node.steps)
    return (*first, *map(str, keys)) if first and len(keys) == len(node.steps) else ()


def take_literal_keys(steps: Sequence[FieldNode | IndexNode | CallNode]) -> list[Any]:
    """The keys that are written out, up to the first that is not."""
    keys: list[Any] = []
    for step in steps:
        if isinstance(step, FieldNode):
            keys.append(step.key)
        elif isinstance(step, IndexNode) and isinstance(step.key, LiteralNode):
            if type(step.key.value) not in (str, int):
                break
            keys.append(step.key.value)
        else:
            break
    return keys
