"""The syntax tree of an expression: one class for each kind of node, and the variables in a tree.

A chain (`a + b + c`, `a.b.c`, `!!!a`, `a ? b : c ? d : e`) is one node, so only brackets nest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple


class CelSyntaxError(Exception):
    """A text is not an expression that may run; the message is a clause that says why."""

    def __init__(self, message: str, at: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.at = at
        """Position in the text, from 0."""


class Uint(int):
    """An unsigned number, which CEL distinguishes from a signed one."""

    __slots__ = ()


class LiteralNode(NamedTuple):
    """A text, a number, true, false or null. `at` is the position of every node in the text."""

    at: int
    value: Any


class NameNode(NamedTuple):
    at: int
    name: str


class FieldNode(NamedTuple):
    """`.key` after a value."""

    at: int
    key: str


class IndexNode(NamedTuple):
    """`[key]` after a value."""

    at: int
    key: SyntaxNode


class CallNode(NamedTuple):
    at: int
    name: str
    arguments: list[SyntaxNode]


Selector = FieldNode | IndexNode | CallNode
"""A part of a chain after the first value."""


class ChainNode(NamedTuple):
    """A value and its selectors: `a.b[0].size()`."""

    at: int
    first: SyntaxNode
    selectors: list[Selector]


class SignNode(NamedTuple):
    """`!` or `-`, repeated, before a value."""

    at: int
    sign: str
    times: int
    operand: SyntaxNode


class OperationNode(NamedTuple):
    """Operators of one precedence, from left to right."""

    at: int
    first: SyntaxNode
    rest: list[tuple[str, SyntaxNode]]


class ChoiceNode(NamedTuple):
    """`condition ? one : condition ? another : other`."""

    at: int
    cases: list[tuple[SyntaxNode, SyntaxNode]]
    other: SyntaxNode


class ListLiteralNode(NamedTuple):
    """`[a, b]`."""

    at: int
    entries: list[SyntaxNode]


class MapLiteralNode(NamedTuple):
    """`{k: v}`."""

    at: int
    entries: list[tuple[SyntaxNode, SyntaxNode]]


SyntaxNode = (
    LiteralNode | NameNode | CallNode | ChainNode | SignNode | OperationNode
    | ChoiceNode | ListLiteralNode | MapLiteralNode
)  # fmt: skip


# ----------------------------------------------------------- variables of a tree


class Mention(NamedTuple):
    """A variable that an expression reads, with the keys that are literals: `steps["x"].phase`."""

    root: str
    keys: tuple[str, ...]
    at: int
    """Position in the text, from 0."""
    open: bool = False
    """Whether a key that is computed follows."""


Compared = tuple[OperationNode, tuple[str, ...]]
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
            texts = other.entries if isinstance(other, ListLiteralNode) else []
        # written the other way round: `"Failed" == steps.x.phase`
        elif isinstance(variable, LiteralNode):
            variable, texts = other, [variable]
        if path := _read_path(variable):
            for text in texts:
                if isinstance(text, LiteralNode) and isinstance(text.value, str):
                    yield Comparison(path, path[0] in bound, text.value, text.at)


def _read_path(node: SyntaxNode) -> tuple[str, ...]:
    """Return a variable and all its keys, or () if a key is computed or a function is called."""
    if isinstance(node, NameNode):
        return (node.name,)
    if not isinstance(node, ChainNode):
        return ()
    first, keys = _read_path(node.first), take_literal_keys(node.selectors)
    return (*first, *map(str, keys)) if first and len(keys) == len(node.selectors) else ()


def take_literal_keys(selectors: Sequence[Selector]) -> list[Any]:
    """Return the keys before the first selector that is computed or a call."""
    keys: list[Any] = []
    for selector in selectors:
        if isinstance(selector, FieldNode):
            keys.append(selector.key)
        elif (
            isinstance(selector, IndexNode)
            and isinstance(selector.key, LiteralNode)
            and type(selector.key.value) in (str, int)
        ):
            keys.append(selector.key.value)
        else:
            break
    return keys
