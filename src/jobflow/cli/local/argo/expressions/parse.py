"""Parses Argo's expressions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from jobflow.cli.local.argo.expressions.syntax import (
    LEVELS,
    Call,
    Closure,
    Level,
    ListOf,
    Literal,
    MapOf,
    Member,
    Name,
    Node,
    Operation,
    Slice,
    Tagged,
    UnsupportedExpression,
)

TAG = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_TOKEN = re.compile(
    r"""\s*(?:
    (?P<tag>\{\{.*?\}\})
    |(?P<text>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`)
    |(?P<number>\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)
    |(?P<word>[A-Za-z_$][\w$]*)
    |(?P<operator>\?\?|\?\.|\*\*|\|\||&&|==|!=|<=|>=|=~|!~|\.\.|[-+*/%^<>!?:()\[\]{},.\#|=])
    )""",
    re.DOTALL | re.VERBOSE,
)
_BARE = re.compile(r"[A-Za-z_](?:[\w./]|[-:](?=\w))*")
"""A word of govaluate. Hyphens are part of it, because Argo writes names into the text."""

_SIGNS = {"or": "||", "and": "&&"}
"""Words for operators."""
_WORDS = {"true": True, "false": False, "nil": None}
_MAX_DEPTH = 60


def parse_condition(text: str) -> Node:
    """Parse a `when` of govaluate. Raises UnsupportedExpression."""
    return _Parser([*_tokens(text, bare_words=True)], bare_words=True).parse()


def parse_expression(text: str) -> Node:
    """Parse an expression of expr-lang. Raises UnsupportedExpression."""
    return _Parser([*_tokens(text, bare_words=False)], bare_words=False).parse()


def _tokens(text: str, *, bare_words: bool) -> Iterator[tuple[str, str]]:
    text, at = text.rstrip(), 0
    while at < len(text):
        start = at + len(text[at:]) - len(text[at:].lstrip())
        if bare_words and (bare := _BARE.match(text, start)):
            at = bare.end()
            yield "word", bare[0]
            continue
        found = _TOKEN.match(text, at)
        if found is None:
            raise UnsupportedExpression(f'"{text[at:].strip()[:20]}" cannot be read')
        at = found.end()
        kind = str(found.lastgroup)
        yield kind, found[kind]


@dataclass(slots=True)
class _Parser:
    tokens: list[tuple[str, str]]
    bare_words: bool
    at: int = 0
    depth: int = 0
    end: tuple[str, str] = field(default=("end", "the end"))

    def parse(self) -> Node:
        node = self.expression()
        if self.at < len(self.tokens):
            raise UnsupportedExpression(f'"{self.tokens[self.at][1]}" is not expected there')
        return node

    def expression(self) -> Node:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise UnsupportedExpression("it is nested too deep")
        node = self.binary(Level.CHOICE)
        if self.accept("?"):
            taken = self.expression()
            self.expect(":")
            node = Operation("?:", (node, taken, self.expression()))
        self.depth -= 1
        return node

    def binary(self, least: int) -> Node:
        node = self.unary()
        while True:
            operator = self.peek()[1] if self.peek()[0] in ("operator", "word") else ""
            if operator == "not" and self.tokens[self.at + 1 : self.at + 2] == [("word", "in")]:
                operator = "not in"
            sign = _SIGNS.get(operator, operator)
            level = LEVELS.get(sign, 0)
            if not level or level < least:
                return node
            self.at += 2 if operator == "not in" else 1
            other = self.binary(level + 1)
            node = Operation(sign, (node, other))

    def unary(self) -> Node:
        for operator in ("!", "not", "-"):
            if self.accept(operator):
                self.depth += 1
                if self.depth > _MAX_DEPTH:
                    raise UnsupportedExpression("it is nested too deep")
                operand = self.binary(Level.SIGN)
                self.depth -= 1
                return Operation("!" if operator == "not" else operator, (operand,))
        return self.postfix(self.primary())

    def postfix(self, node: Node) -> Node:
        while True:
            if self.accept("."):
                kind, word = self.take()
                if kind != "word":
                    raise UnsupportedExpression(f'"{word}" is not the name of a field')
                node = Member(node, Literal(word))
            elif self.accept("("):
                node = Call(node, tuple(self.listed(")")))
            elif self.accept("["):
                node = self.index(node)
            else:
                return node

    def index(self, node: Node) -> Node:
        first = None if self.peek()[1] == ":" else self.expression()
        if self.accept(":"):
            last = None if self.peek()[1] == "]" else self.expression()
            self.expect("]")
            return Slice(node, first, last)
        self.expect("]")
        assert first is not None, "only a slice has no first index"
        return Member(node, first)

    def primary(self) -> Node:
        kind, text = self.take()
        if kind == "tag":
            return Tagged(text, quoted=False)
        if kind == "text":
            inner = text[1:-1]
            if text[0] != "`":
                inner = re.sub(r"\\(.)", _unescape, inner, flags=re.DOTALL)
            return Tagged(inner, quoted=True) if TAG.search(inner) else Literal(inner)
        if kind == "number":
            return Literal(float(text) if re.search(r"[.eE]", text) else int(text))
        if kind == "word":
            return self.word(text)
        if text == "(":
            return self.grouped()
        if text == "[":
            return ListOf(tuple(self.listed("]")))
        if text == "{":
            return self.braces()
        if text == "#":
            return Name("#")
        raise UnsupportedExpression(f'"{text}" is not expected there')

    def word(self, text: str) -> Node:
        if text in _WORDS and self.peek()[1] != "(":
            return Literal(_WORDS[text])
        return Literal(text) if self.bare_words and self.peek()[1] != "(" else Name(text)

    def grouped(self) -> Node:
        """Return what stands in brackets; in govaluate, several values are a list."""
        items = self.listed(")")
        if len(items) == 1:
            return items[0]
        if self.bare_words and items:
            return ListOf(tuple(items))
        raise UnsupportedExpression('"()" holds no single value')

    def braces(self) -> Node:
        """Return a map, or a closure."""
        following = [text for _, text in self.tokens[self.at : self.at + 2]]
        if following[:1] != ["}"] and following[1:] != [":"]:
            body = self.expression()
            self.expect("}")
            return Closure(body)
        entries: list[tuple[str, Node]] = []
        while not self.accept("}"):
            _, key = self.take()
            self.expect(":")
            entries.append((key.strip("'\""), self.expression()))
            if not self.accept(","):
                self.expect("}")
                break
        return MapOf(tuple(entries))

    def listed(self, closing: str) -> list[Node]:
        items: list[Node] = []
        while not self.accept(closing):
            items.append(self.expression())
            if not self.accept(","):
                self.expect(closing)
                break
        return items

    def peek(self) -> tuple[str, str]:
        return self.tokens[self.at] if self.at < len(self.tokens) else self.end

    def take(self) -> tuple[str, str]:
        token = self.peek()
        self.at += 1
        return token

    def accept(self, text: str) -> bool:
        kind, found = self.peek()
        if found != text or kind not in ("operator", "word"):
            return False
        self.at += 1
        return True

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise UnsupportedExpression(f'"{text}" is missing before {self.peek()[1]!r}')


def _unescape(match: re.Match[str]) -> str:
    return {"n": "\n", "t": "\t", "r": "\r"}.get(match[1], match[1])
