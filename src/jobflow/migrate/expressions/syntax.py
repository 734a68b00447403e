"""Syntax trees of Argo's two expression languages: govaluate in `when`, where a bare word is a
text, and expr-lang elsewhere. A tag `{{…}}` inside of an expression is a value of its own."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple


class Level(IntEnum):
    """How tightly an operator binds: in both languages and in CEL."""

    CHOICE = 1
    OR = 2
    AND = 3
    RELATION = 4
    SUM = 5
    PRODUCT = 6
    SIGN = 7
    ATOM = 8
    """A value without an operator outside of brackets."""


LEVELS: Mapping[str, Level] = {
    "?:": Level.CHOICE,
    "??": Level.CHOICE,
    "||": Level.OR,
    "&&": Level.AND,
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">=", "=~", "!~"), Level.RELATION),
    **dict.fromkeys(("in", "not in", "contains", "startsWith", "endsWith"), Level.RELATION),
    "matches": Level.RELATION,
    **dict.fromkeys(("+", "-"), Level.SUM),
    **dict.fromkeys(("*", "/", "%"), Level.PRODUCT),
}
"""Operators with two operands, and the choice."""


class Literal(NamedTuple):
    value: str | int | float | bool | None


class Tagged(NamedTuple):
    """A text with tags, such as `{{item}}`, as it is written."""

    text: str
    quoted: bool


class Name(NamedTuple):
    """A variable; `#` is the current element of a closure."""

    name: str


class Member(NamedTuple):
    """`value.key` or `value[key]`."""

    value: Node
    key: Node


class Slice(NamedTuple):
    """`value[first:last]`."""

    value: Node
    first: Node | None
    last: Node | None


class Call(NamedTuple):
    """A call of a function, such as `sprig.trim`, or of a method of a value."""

    function: Node
    arguments: tuple[Node, ...]


class Operation(NamedTuple):
    """An operator with one, two or three (`? :`) operands."""

    operator: str
    operands: tuple[Node, ...]


class ListOf(NamedTuple):
    items: tuple[Node, ...]


class MapOf(NamedTuple):
    entries: tuple[tuple[str, Node], ...]


class Closure(NamedTuple):
    """`{# > 1}`, the second argument of filter, map and the like."""

    body: Node


Node = Literal | Tagged | Name | Member | Slice | Call | Operation | ListOf | MapOf | Closure
