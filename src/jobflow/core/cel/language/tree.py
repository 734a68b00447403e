"""The syntax tree of an expression: one class for each kind of node.

A chain (`a + b + c`, `a.b.c`, `!!!a`, `a ? b : c ? d : e`) is one node, so only brackets nest.
"""

from __future__ import annotations

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
    """A variable."""

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
    """A function or macro."""

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
