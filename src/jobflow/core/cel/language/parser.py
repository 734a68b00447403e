"""The parser: a text becomes a tree, in time linear in its length.

The grammar is that of google/cel-spec doc/langdef.md, without message literals and without `.name`.
Brackets are counted before parsing, so neither the parser nor a walk over the tree can reach
Python's recursion limit.
"""

import re
from collections.abc import Callable
from typing import TypeVar

from jobflow.core.cel.language import tree
from jobflow.core.cel.language.tree import CelSyntaxError, Selector, SyntaxNode, Uint

MAX_NESTING = 16
"""Brackets within brackets."""
RESERVED = frozenset({"true", "false", "null", "in"})
"""Words of CEL, which are neither variables nor keys after a dot."""

_KEYS_ONLY = frozenset(
    """
    as break const continue else for function if import let loop package namespace return var void
    while
    """.split()
)
"""Names that CEL allows as keys, but not as variables."""
_CONSTANTS = {"true": True, "false": False, "null": None}
_PRECEDENCE = {
    sign: level
    for level, signs in enumerate(
        [["||"], ["&&"], ["==", "!=", "<", "<=", ">", ">=", "in"], ["+", "-"], ["*", "/", "%"]]
    )
    for sign in signs
}
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
_Token = tuple[str, str, int]
"""Kind, text and position."""
_T = TypeVar("_T")


def parse(text: str) -> SyntaxNode:
    """Return the tree of an expression. Raises CelSyntaxError."""
    tokens: list[_Token] = []
    depth = 0
    for match in _TOKENS.finditer(text):
        kind = match.lastgroup or "end"
        token, at = match[kind], match.start(kind)
        tokens.append((kind, token, at))
        if kind == "sign":
            if token in _OPENING:
                depth += 1
                # nothing behind this recurses deeper
                if depth > MAX_NESTING:
                    raise CelSyntaxError(f"nests brackets deeper than {MAX_NESTING}", at)
            elif token in _CLOSING:
                depth -= 1
        elif kind == "end":
            break
    return _Parser(tokens).parse()


class _Parser:
    """A recursive descent: one method for each rule of the grammar, and one token of look-ahead."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = iter(tokens)
        self._kind, self._text, self._at = next(self._tokens)

    def parse(self) -> SyntaxNode:
        node = self._expression()
        if self._kind != "end":
            raise self._unexpected()
        return node

    def _advance(self) -> int:
        """Go to the next token and return the position of this one."""
        at = self._at
        self._kind, self._text, self._at = next(self._tokens)
        return at

    def _is(self, sign: str) -> bool:
        return self._text == sign and self._kind == "sign"

    def _expect(self, sign: str) -> None:
        if not self._is(sign):
            raise self._unexpected()
        self._advance()

    def _unexpected(self) -> CelSyntaxError:
        kind, text = self._kind, self._text
        why = f"unexpected '{text}'"
        if kind == "end":
            why = "it ends too early"
        elif kind == "name" and text in _KEYS_ONLY:
            why = f"{text} is a reserved word"
        return _make_error(why, self._at)

    def _expression(self) -> SyntaxNode:
        at = self._at
        node = self._operation(0)
        cases = []
        while self._is("?"):
            self._advance()
            cases.append((node, self._operation(0)))
            self._expect(":")
            node = self._operation(0)
        return tree.ChoiceNode(at, cases, node) if cases else node

    def _operation(self, precedence: int) -> SyntaxNode:
        at = self._at
        node = self._signed()
        # operators of one precedence become one node, so a long sum does not nest
        while (level := self._precedence()) >= precedence:
            operands = []
            while self._precedence() == level:
                sign = self._text
                self._advance()
                operands.append((sign, self._operation(level + 1)))
            node = tree.OperationNode(at, node, operands)
        return node

    def _precedence(self) -> int:
        if self._kind != "sign" and self._text != "in":
            return -1
        return _PRECEDENCE.get(self._text, -1) if self._kind != "text" else -1

    def _signed(self) -> SyntaxNode:
        # `-` before a number belongs to it, because the least integer has no positive counterpart
        at, sign, times = self._at, self._text, 0
        if self._kind != "sign" or sign not in ("!", "-"):
            return self._chain()
        while self._is(sign):
            self._advance()
            times += 1
        negative = sign == "-" and self._kind == "number"
        times -= negative
        if self._is("-"):  # `!-1`: a number is the only operand with a second kind of sign
            self._advance()
            if self._kind != "number":
                raise self._unexpected()
            negative = True
        operand = self._chain(negative)
        return tree.SignNode(at, sign, times, operand) if times else operand

    def _chain(self, negative: bool = False) -> SyntaxNode:
        at = self._at
        first = self._primary(negative)
        selectors: list[Selector] = []
        while self._kind == "sign":
            if self._text == ".":
                self._advance()
                if self._kind != "name" or self._text in RESERVED:
                    raise self._unexpected()
                name = self._text
                place = self._advance()
                if self._is("("):
                    arguments = self._list("(", ")", self._expression)
                    selectors.append(tree.CallNode(place, name, arguments))
                else:
                    selectors.append(tree.FieldNode(place, name))
            elif self._text == "[":
                opening = self._advance()
                key = self._expression()
                self._expect("]")
                selectors.append(tree.IndexNode(opening, key))
            else:
                break
        return tree.ChainNode(at, first, selectors) if selectors else first

    def _primary(self, negative: bool) -> SyntaxNode:
        kind, text, at = self._kind, self._text, self._at
        if kind == "name" and text in _CONSTANTS:
            return tree.LiteralNode(self._advance(), _CONSTANTS[text])
        if kind == "name" and text not in _KEYS_ONLY and text not in RESERVED:
            self._advance()
            if self._is("("):
                return tree.CallNode(at, text, self._list("(", ")", self._expression))
            return tree.NameNode(at, text)
        if kind == "number":
            self._advance()
            return tree.LiteralNode(at, _decode_number(text, at, negative))
        if kind == "text":
            self._advance()
            return tree.LiteralNode(at, _decode_text(text, at))
        if self._is("("):
            self._advance()
            node = self._expression()
            self._expect(")")
            return node
        if self._is("["):
            return tree.ListLiteralNode(at, self._list("[", "]", self._expression, trailing=True))
        if self._is("{"):
            return tree.MapLiteralNode(at, self._list("{", "}", self._pair, trailing=True))
        raise self._unexpected()

    def _list(
        self, opening: str, closing: str, parse_entry: Callable[[], _T], *, trailing: bool = False
    ) -> list[_T]:
        self._expect(opening)
        entries: list[_T] = []
        while not self._is(closing) or (entries and not trailing):
            entries.append(parse_entry())
            if self._is(closing):
                break
            self._expect(",")
        self._expect(closing)
        return entries

    def _pair(self) -> tuple[SyntaxNode, SyntaxNode]:
        key = self._expression()
        self._expect(":")
        return key, self._expression()


def _make_error(why: str, at: int) -> CelSyntaxError:
    return CelSyntaxError(f"is not a CEL expression: {why}", at)


_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|X([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))",
    re.DOTALL,
)
_SHORT_ESCAPES = dict(zip("abfnrtv\\?\"'`", "\a\b\f\n\r\t\v\\?\"'`", strict=True))


def _decode_number(text: str, at: int, negative: bool) -> int | float:
    unsigned = text[-1] in "uU"
    digits = text[:-1] if unsigned else text
    hexadecimal = digits[:2].lower() == "0x"
    # a decimal point or an exponent
    if not hexadecimal and not digits.isdigit():
        if unsigned:
            raise _make_error(f"unexpected '{text}'", at)
        return -float(digits) if negative else float(digits)
    value = int(digits, 16 if hexadecimal else 10)
    value = -value if negative else value
    least, limit = (0, 1 << 64) if unsigned else (-(1 << 63), 1 << 63)
    if not least <= value < limit:
        raise _make_error("a number of more than 64 bits", at)
    return Uint(value) if unsigned else value


def _decode_text(literal: str, at: int) -> str | bytes:
    if "\\" not in literal and literal[0] in "'\"" and literal[1:2] != literal[0]:
        return literal[1:-1]  # the usual one
    start = min(place for place in (literal.find("'"), literal.find('"')) if place >= 0)
    prefix, body = literal[:start].lower(), literal[start:]
    quotes = 3 if len(body) >= 6 and body[:3] in ("'''", '"""') else 1
    body = body[quotes:-quotes]
    is_raw = "\\" not in body or "r" in prefix
    if "b" not in prefix:
        return body if is_raw else _ESCAPE.sub(lambda match: _decode_escape(match, at), body)
    if is_raw:
        return body.encode()
    # \\x and octal escapes are bytes, and \\u is not allowed
    decoded, end = bytearray(), 0
    for match in _ESCAPE.finditer(body):
        if match[3] or match[4]:
            raise _make_error(f"{match[0]} is not a byte", at)
        decoded += body[end : match.start()].encode()
        decoded += bytes([ord(_decode_escape(match, at))])
        end = match.end()
    return bytes(decoded + body[end:].encode())


def _decode_escape(match: re.Match[str], at: int) -> str:
    short = match[6]
    if short is not None:
        if short not in _SHORT_ESCAPES:
            raise _make_error(f"unknown escape \\{short} in a text; write \\\\{short}", at)
        return _SHORT_ESCAPES[short]
    code = int(match[5], 8) if match[5] else int(match[1] or match[2] or match[3] or match[4], 16)
    # halves of surrogate pairs are no characters
    if 0xD800 <= code < 0xE000 or code > 0x10FFFF:
        raise _make_error(f"{match[0]} is not a character", at)
    return chr(code)
