"""Syntax trees of Argo's two expression languages.

`when` is written in govaluate, where a bare word is a text; `{{=…}}`, `expression` and the like are
written in expr-lang. A tag `{{…}}` inside of an expression is a value of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum


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


@dataclass(frozen=True, slots=True)
class Literal:
    """A text, number, boolean or nil."""

    value: str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Tagged:
    """A text with tags, such as `{{item}}`, as it is written."""

    text: str
    quoted: bool


@dataclass(frozen=True, slots=True)
class Name:
    """A variable; `#` is the current element of a closure."""

    name: str


@dataclass(frozen=True, slots=True)
class Member:
    """`value.key` or `value[key]`."""

    value: Node
    key: Node


@dataclass(frozen=True, slots=True)
class Slice:
    """`value[first:last]`."""

    value: Node
    first: Node | None
    last: Node | None


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function, such as `sprig.trim`, or of a method of a value."""

    function: Node
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator with one, two or three (`? :`) operands."""

    operator: str
    operands: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class MapOf:
    """A map."""

    entries: tuple[tuple[str, Node], ...]


@dataclass(frozen=True, slots=True)
class Closure:
    """`{# > 1}`, the second argument of filter, map and the like."""

    body: Node


Node = Literal | Tagged | Name | Member | Slice | Call | Operation | ListOf | MapOf | Closure
