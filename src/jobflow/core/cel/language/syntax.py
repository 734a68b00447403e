"""Reads a CEL expression into a tree, in which every node has its place in the text.

The grammar is that of google/cel-spec doc/langdef.md, without message literals and without
`.name`. Chains (`a + b + c`, `a.b.c`, `!!!a`, `a ? b : c ? d : e`) are one node each, so only
brackets nest, and these are counted before anything is parsed: neither the parser nor what walks
the tree can meet Python's recursion limit.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from jobflow.core.cel.language.literals import NotTextError, text_of

MAX_NESTING = 16
"""Brackets within brackets."""
RESERVED = frozenset({"true", "false", "null", "in"})
"""Names that are words of CEL itself."""

_KEPT_BACK = frozenset(
    """
    as break const continue else for function if import let loop package namespace return var void
    while
    """.split()
)
"""Names that CEL allows as keys and not as variables."""
_CONSTANTS = {"true": True, "false": False, "null": None}
_LEVELS = {
    sign: level
    for level, signs in enumerate(
        [["||"], ["&&"], ["==", "!=", "<", "<=", ">", ">=", "in"], ["+", "-"], ["*", "/", "%"]]
    )
    for sign in signs
}
"""Operators by how strongly they bind."""
_TOKENS = re.compile(
    r"""
    (?:[\ \t\r\n\f]+|//[^\n]*)*
    (?:
    (?P<name>(?![bBrR]{1,2}['"])[_a-zA-Z][_a-zA-Z0-9]*)
  | (?P<text>[bB]?[rR](?:'{3}.*?'{3}|"{3}.*?"{3}|'[^'\r\n]*'|"[^"\r\n]*")
        |[bB]?(?:'{3}(?:\\.|[^\\])*?'{3}|"{3}(?:\\.|[^\\])*?"{3}
        |'(?:\\.|[^'\\\r\n])*'|"(?:\\.|[^"\\\r\n])*"))
  | (?P<number>0[xX][0-9a-fA-F]+[uU]?|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?[uU]?|\.\d+(?:[eE][+-]?\d+)?)
  | (?P<sign>&&|\|\||==|!=|<=|>=|.)
  | (?P<end>\Z)
    )
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")


class CelSyntaxError(Exception):
    """The text is not an expression that may run."""

    def __init__(self, message: str, at: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.at = at
        """Where, in characters from 0."""


class Uint(int):
    """An unsigned number, which CEL tells from a signed one."""

    __slots__ = ()


class LiteralNode(NamedTuple):
    """A text, a number, true, false or null."""

    at: int
    value: Any


class NameNode(NamedTuple):
    """A variable."""

    at: int
    name: str


class FieldNode(NamedTuple):
    """`.key` of what is before it."""

    at: int
    key: str


class IndexNode(NamedTuple):
    """`[key]` of what is before it."""

    at: int
    key: SyntaxNode


class CallNode(NamedTuple):
    """A function or macro; `of`: called on what is before it."""

    at: int
    name: str
    arguments: list[SyntaxNode]
    of: bool


class ChainNode(NamedTuple):
    """A value, and what is taken of it or called on it, one after another."""

    at: int
    first: SyntaxNode
    steps: list[FieldNode | IndexNode | CallNode]


class SignNode(NamedTuple):
    """`!` or `-`, a number of times, before a value."""

    at: int
    sign: str
    times: int
    of: SyntaxNode


class OperationNode(NamedTuple):
    """Operators that bind equally, from left to right."""

    at: int
    first: SyntaxNode
    rest: list[tuple[str, SyntaxNode]]


class ChoiceNode(NamedTuple):
    """`condition ? one : condition ? another : other`."""

    at: int
    cases: list[tuple[SyntaxNode, SyntaxNode]]
    other: SyntaxNode


class ListNode(NamedTuple):
    """`[a, b]`."""

    at: int
    entries: list[SyntaxNode]


class MapNode(NamedTuple):
    """`{k: v}`."""

    at: int
    entries: list[tuple[SyntaxNode, SyntaxNode]]


SyntaxNode = (
    LiteralNode
    | NameNode
    | CallNode
    | ChainNode
    | SignNode
    | OperationNode
    | ChoiceNode
    | ListNode
    | MapNode
)
_T = TypeVar("_T")


_Token = tuple[str, str, int]
"""Its kind, its text, and where it begins."""


def parse(text: str) -> SyntaxNode:
    """Return the tree of an expression. Raises CelSyntaxError. Linear in the text's length."""
    return _Parser(_tokens(text)).whole()


def _tokens(text: str) -> list[_Token]:
    """The last one is the end. Raises CelSyntaxError where brackets nest too deep."""
    found = []
    depth = 0
    for match in _TOKENS.finditer(text):
        kind = match.lastgroup or "end"
        written, at = match[kind], match.start(kind)
        found.append((kind, written, at))
        if kind == "sign":
            if written in _OPENING:
                depth += 1
                if depth > MAX_NESTING:
                    raise CelSyntaxError(f"nests brackets deeper than {MAX_NESTING}", at)
            elif written in _CLOSING:
                depth -= 1
        elif kind == "end":
            break
    return found


class _Parser:
    """Goes over the words once; it calls itself for brackets, and a level of operators."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._rest = iter(tokens)
        self._kind, self._text, self._at = next(self._rest)

    def whole(self) -> SyntaxNode:
        node = self._expression()
        if self._kind != "end":
            raise self._unexpected()
        return node

    # ----------------------------------------------------------------------- words

    def _take(self) -> int:
        """Go on to the next word; return where the one before it began."""
        at = self._at
        self._kind, self._text, self._at = next(self._rest)
        return at

    def _is(self, sign: str) -> bool:
        return self._text == sign and self._kind == "sign"

    def _expect(self, sign: str) -> None:
        if not self._is(sign):
            raise self._unexpected()
        self._take()

    def _unexpected(self) -> CelSyntaxError:
        kind, text, at = self._kind, self._text, self._at
        if kind == "end":
            return CelSyntaxError("is not a CEL expression: it ends too early", at)
        if kind == "name" and text in _KEPT_BACK:
            return CelSyntaxError(f"is not a CEL expression: {text} is a reserved word", at)
        return CelSyntaxError(f"is not a CEL expression: unexpected '{text}'", at)

    # ------------------------------------------------------------------- operators

    def _expression(self) -> SyntaxNode:
        at = self._at
        node = self._operation(0)
        if not self._is("?"):
            return node
        cases = []
        while self._is("?"):
            self._take()
            cases.append((node, self._operation(0)))
            self._expect(":")
            node = self._operation(0)
        return ChoiceNode(at, cases, node)

    def _operation(self, least: int) -> SyntaxNode:
        """Operators of this level and above."""
        at = self._at
        node = self._signed()
        while (level := self._level()) >= least:
            rest = []
            while self._level() == level:
                sign = self._text
                self._take()
                rest.append((sign, self._operation(level + 1)))
            node = OperationNode(at, node, rest)
        return node

    def _level(self) -> int:
        if self._kind != "sign" and self._text != "in":
            return -1
        return _LEVELS.get(self._text, -1) if self._kind != "text" else -1

    def _signed(self) -> SyntaxNode:
        """`-` before a number is its own sign: the least integer has no positive one."""
        at, sign, times = self._at, self._text, 0
        if self._kind != "sign" or sign not in ("!", "-"):
            return self._chain()
        while self._is(sign):
            self._take()
            times += 1
        own = sign == "-" and self._kind == "number"
        of = self._chain(negative=own) if own or not self._is("-") else self._negative()
        times -= own
        return SignNode(at, sign, times, of) if times else of

    def _negative(self) -> SyntaxNode:
        """The number in `!-1`; no other sign may follow one."""
        self._take()
        if self._kind != "number":
            raise self._unexpected()
        return self._chain(negative=True)

    # ------------------------------------------------------------------------ values

    def _chain(self, *, negative: bool = False) -> SyntaxNode:
        at = self._at
        first = self._primary(negative)
        steps: list[FieldNode | IndexNode | CallNode] = []
        while self._kind == "sign":
            if self._text == ".":
                self._take()
                steps.append(self._member())
            elif self._text == "[":
                opening = self._take()
                key = self._expression()
                self._expect("]")
                steps.append(IndexNode(opening, key))
            else:
                break
        return ChainNode(at, first, steps) if steps else first

    def _member(self) -> FieldNode | CallNode:
        name = self._text
        if self._kind != "name" or name in RESERVED:
            raise self._unexpected()
        at = self._take()
        if self._is("("):
            return CallNode(at, name, self._between("(", ")", self._expression), True)
        return FieldNode(at, name)

    def _primary(self, negative: bool) -> SyntaxNode:
        kind, text, at = self._kind, self._text, self._at
        if kind == "name":
            return self._name()
        if kind == "number":
            self._take()
            return LiteralNode(at, _number(text, at, negative))
        if kind == "text":
            self._take()
            return LiteralNode(at, _text(text, at))
        if self._is("("):
            self._take()
            node = self._expression()
            self._expect(")")
            return node
        if self._is("["):
            return ListNode(at, self._between("[", "]", self._expression, trailing=True))
        if self._is("{"):
            return MapNode(at, self._between("{", "}", self._pair, trailing=True))
        raise self._unexpected()

    def _name(self) -> SyntaxNode:
        name = self._text
        if name in _CONSTANTS:
            return LiteralNode(self._take(), _CONSTANTS[name])
        if name in _KEPT_BACK or name in RESERVED:
            raise self._unexpected()
        at = self._take()
        if self._is("("):
            return CallNode(at, name, self._between("(", ")", self._expression), False)
        return NameNode(at, name)

    def _between(
        self, opening: str, closing: str, part: Callable[[], _T], *, trailing: bool = False
    ) -> list[_T]:
        """Parts between brackets, with commas between them; `trailing`: also behind the last."""
        self._expect(opening)
        parts: list[_T] = []
        while not self._is(closing) or (parts and not trailing):
            parts.append(part())
            if self._is(closing):
                break
            self._expect(",")
        self._expect(closing)
        return parts

    def _pair(self) -> tuple[SyntaxNode, SyntaxNode]:
        key = self._expression()
        self._expect(":")
        return key, self._expression()


def _number(text: str, at: int, negative: bool) -> int | float:
    written, unsigned = text, text[-1] in "uU"
    hexadecimal = written[:2].lower() == "0x"
    if unsigned:
        written = written[:-1]
    if not hexadecimal and not written.isdigit():
        if unsigned:
            raise CelSyntaxError(f"is not a CEL expression: unexpected '{text}'", at)
        return -float(written) if negative else float(written)
    value = int(written, 16 if hexadecimal else 10)
    value = -value if negative else value
    least, limit = (0, 1 << 64) if unsigned else (-(1 << 63), 1 << 63)
    if not least <= value < limit:
        raise CelSyntaxError("is not a CEL expression: a number of more than 64 bits", at)
    return Uint(value) if unsigned else value


def _text(text: str, at: int) -> str | bytes:
    try:
        return text_of(text)
    except NotTextError as error:
        raise CelSyntaxError(f"is not a CEL expression: {error}", at) from error
