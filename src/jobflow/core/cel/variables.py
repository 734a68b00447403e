"""The variables that an expression reads, and the texts that it compares them with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from jobflow.core.cel.language import tree
from jobflow.core.cel.language.tree import Selector, SyntaxNode


class Mention(NamedTuple):
    """A variable that an expression reads, with the keys that are literals: `steps["x"].phase`."""

    root: str
    keys: tuple[str, ...]
    at: int
    """Position in the text, from 0."""
    open: bool = False
    """Whether a key that is computed follows."""


Compared = tuple[tree.OperationNode, tuple[str, ...]]
"""`==`, `!=` or `in`, and the variables that macros bind there."""


class Comparison(NamedTuple):
    """A variable, and a text that `==`, `!=` or `in […]` compares it with."""

    path: tuple[str, ...]
    """The variable and its keys: `("steps", "x", "reason")`."""
    bound: bool
    """Whether a macro binds the variable, such as `i` in `list.all(i, i.phase == "Running")`."""
    text: str
    at: int
    """Position of the text in the expression, from 0."""


def find_comparisons(compared: Iterable[Compared]) -> Iterator[Comparison]:
    """Yield the variables that are compared with literal texts."""
    for operation, bound in compared:
        variable, (sign, other) = operation.first, operation.rest[0]
        texts = [other]
        if sign == "in":
            texts = other.entries if isinstance(other, tree.ListLiteralNode) else []
        # written the other way round: `"Failed" == steps.x.phase`
        elif isinstance(variable, tree.LiteralNode):
            variable, texts = other, [variable]
        if path := _read_path(variable):
            for text in texts:
                if isinstance(text, tree.LiteralNode) and isinstance(text.value, str):
                    yield Comparison(path, path[0] in bound, text.value, text.at)


def _read_path(node: SyntaxNode) -> tuple[str, ...]:
    """Return a variable and all its keys, or () if a key is computed or a function is called."""
    if isinstance(node, tree.NameNode):
        return (node.name,)
    if not isinstance(node, tree.ChainNode):
        return ()
    first, keys = _read_path(node.first), take_literal_keys(node.selectors)
    return (*first, *map(str, keys)) if first and len(keys) == len(node.selectors) else ()


def take_literal_keys(selectors: Sequence[Selector]) -> list[Any]:
    """Return the keys before the first selector that is computed or a call."""
    keys: list[Any] = []
    for selector in selectors:
        if isinstance(selector, tree.FieldNode):
            keys.append(selector.key)
        elif (
            isinstance(selector, tree.IndexNode)
            and isinstance(selector.key, tree.LiteralNode)
            and type(selector.key.value) in (str, int)
        ):
            keys.append(selector.key.value)
        else:
            break
    return keys
