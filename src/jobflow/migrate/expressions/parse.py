"""Parses Argo's expressions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from jobflow.migrate.expressions import syntax
from jobflow.migrate.expressions.syntax import LEVELS, Level
from jobflow.migrate.expressions.values import UnsupportedExpression

_TOKEN = re.compile(
    r"""(?:
    (?P<text>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`)
    |(?P<number>\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)
    |(?P<word>[A-Za-z_$][\w$]*)
    |(?P<operator>\?\?|\?\.|\*\*|\|\||&&|==|!=|<=|>=|=~|!~|\.\.|[-+*/%^<>!?:()\[\]{},.\#|=])
    )""",
    re.DOTALL | re.VERBOSE,
)
# A word of govaluate. Hyphens are part of it, because Argo writes names into the text.
_BARE = re.compile(r"[A-Za-z_](?:[\w./]|[-:](?=\w))*")
_SIGNS = {"or": "||", "and": "&&"}
_WORDS = {"true": True, "false": False, "nil": None}
_MAX_TEXT = 4_096
_SPACE = re.compile(r"\s*")
_END = ("end", "the end")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}
# Expressions inside of each other, so that no text reaches Python's limit of recursion.
_MAX_DEPTH = 30
# Values inside of each other: `a - b - c` is a difference inside of another one.
_MAX_HEIGHT = 120


def split_tags(text: str) -> list[str]:
    """Return the pieces of a text; those at odd indices are the insides of tags `{{…}}`."""
    pieces, at = [], 0
    while (start := text.find("{{", at)) >= 0 and (end := text.find("}}", start + 2)) >= 0:
        pieces += [text[at:start], text[start + 2 : end]]
        at = end + 2
    return [*pieces, text[at:]]


def parse(text: str, *, bare_words: bool = False) -> syntax.Node:
    """Parse an expression of expr-lang, or with `bare_words` a `when` of govaluate. Raises
    UnsupportedExpression."""
    return _ExpressionParser([*_tokens(text, bare_words=bare_words)], bare_words).parse()


def _tokens(text: str, *, bare_words: bool) -> Iterator[tuple[str, str]]:
    text, at = text.strip(), 0
    if len(text) > _MAX_TEXT:
        raise UnsupportedExpression(f"it has more than {_MAX_TEXT:,} characters")
    last_tag = text.rfind("}}") - 2  # an open bracket behind it is no tag
    while at < len(text):
        if text.startswith("{{", at) and at <= last_tag:
            end = text.index("}}", at + 2) + 2
            yield "tag", text[at:end]
            at = _space_end(text, end)
            continue
        if bare_words and (bare := _BARE.match(text, at)):
            at = _space_end(text, bare.end())
            yield "word", bare[0]
            continue
        found = _TOKEN.match(text, at)
        if found is None:
            raise UnsupportedExpression(f'"{text[at : at + 20]}" cannot be read')
        at = _space_end(text, found.end())
        kind = str(found.lastgroup)
        yield kind, found[kind]


def _space_end(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]  # matches an empty text too


@dataclass(slots=True)
class _ExpressionParser:
    tokens: list[tuple[str, str]]
    bare_words: bool
    at: int = 0
    depth: int = 0
    heights: dict[int, tuple[int, syntax.Node]] = field(default_factory=dict)
    """How many values are inside of each other, by the identity of a value; 0 for leaves."""

    def parse(self) -> syntax.Node:
        node = self.expression()
        if self.at < len(self.tokens):
            raise UnsupportedExpression(f'"{self.tokens[self.at][1]}" is not expected there')
        return node

    def expression(self) -> syntax.Node:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise UnsupportedExpression("it is nested too deep")
        node = self.binary(Level.CHOICE)
        if self.accept("?"):
            taken = self.expression()
            self.expect(":")
            node = self.made(syntax.Operation("?:", (node, taken, self.expression())), node)
        self.depth -= 1
        return node

    def binary(self, least: int) -> syntax.Node:
        node = self.unary()
        while (sign := self.sign()) and LEVELS[sign] >= least:
            operands = [node]
            while self.sign() == sign:
                self.at += 2 if sign == "not in" else 1
                operands.append(self.binary(LEVELS[sign] + 1))
                # A long chain of tests is one operation, and no deep tree.
                if sign not in ("&&", "||"):
                    break
            node = self.made(syntax.Operation(sign, tuple(operands)), *operands)
        return node

    def sign(self) -> str:
        """Return the operator of two operands that comes next, or an empty text."""
        kind, operator = self.peek()
        if operator == "not" and self.tokens[self.at + 1 : self.at + 2] == [("word", "in")]:
            return "not in"
        sign = _SIGNS.get(operator, operator)
        return sign if kind in ("operator", "word") and sign in LEVELS else ""

    def made(self, node: syntax.Node, *parts: syntax.Node) -> syntax.Node:
        """Return a value unless too many values are inside of each other, for whoever walks it."""
        heights = (self.heights.get(id(part), (0, part))[0] for part in parts)
        height = 1 + max(heights, default=-1)
        if height > _MAX_HEIGHT:
            raise UnsupportedExpression("it is nested too deep")
        self.heights[id(node)] = (height, node)
        return node

    def unary(self) -> syntax.Node:
        for operator in ("!", "not", "-"):
            if self.accept(operator):
                self.depth += 1
                if self.depth > _MAX_DEPTH:
                    raise UnsupportedExpression("it is nested too deep")
                operand = self.binary(Level.SIGN)
                self.depth -= 1
                made = syntax.Operation("!" if operator == "not" else operator, (operand,))
                return self.made(made, operand)
        return self.postfix(self.primary())

    def postfix(self, node: syntax.Node) -> syntax.Node:
        while True:
            if self.accept("."):
                kind, word = self.take()
                if kind != "word":
                    raise UnsupportedExpression(f'"{word}" is not the name of a field')
                node = self.made(syntax.Member(node, syntax.Literal(word)), node)
            elif self.accept("("):
                arguments = tuple(self.listed(")"))
                node = self.made(syntax.Call(node, arguments), node, *arguments)
            elif self.accept("["):
                first = None if self.peek()[1] == ":" else self.expression()
                if first is None or self.peek()[1] == ":":
                    self.expect(":")
                    last = None if self.peek()[1] == "]" else self.expression()
                    node = self.made(syntax.Slice(node, first, last), node)
                else:
                    node = self.made(syntax.Member(node, first), node, first)
                self.expect("]")
            else:
                return node

    def primary(self) -> syntax.Node:
        kind, text = self.take()
        if kind == "tag":
            return syntax.Tagged(text, quoted=False)
        if kind == "text":
            inner = text[1:-1]
            # Backquotes are Go's raw strings.
            if text[0] != "`":
                inner = re.sub(r"\\(.)", lambda m: _ESCAPED.get(m[1], m[1]), inner, flags=re.DOTALL)
            has_tag = len(split_tags(inner)) > 1
            return syntax.Tagged(inner, quoted=True) if has_tag else syntax.Literal(inner)
        if kind == "number":
            return syntax.Literal(float(text) if re.search(r"[.eE]", text) else int(text))
        if text == "#" or (kind == "word" and self.peek()[1] == "("):
            return syntax.Name(text)
        if kind == "word" and text in _WORDS:
            return syntax.Literal(_WORDS[text])
        if kind == "word":
            return syntax.Literal(text) if self.bare_words else syntax.Name(text)
        if text == "(":
            items = self.listed(")")
            # In govaluate, several values in brackets are a list.
            if len(items) > 1 and self.bare_words:
                return self.made(syntax.ListOf(tuple(items)), *items)
            if len(items) != 1:
                raise UnsupportedExpression('"()" holds no single value')
            return items[0]
        if text == "[":
            items = self.listed("]")
            return self.made(syntax.ListOf(tuple(items)), *items)
        if text == "{":
            return self.braces()
        raise UnsupportedExpression(f'"{text}" is not expected there')

    def braces(self) -> syntax.Node:
        # Only a map has a colon behind its first word.
        following = [text for _, text in self.tokens[self.at : self.at + 2]]
        if following[:1] != ["}"] and following[1:] != [":"]:
            body = self.expression()
            self.expect("}")
            return self.made(syntax.Closure(body), body)
        entries: list[tuple[str, syntax.Node]] = []
        while not self.accept("}"):
            _, key = self.take()
            self.expect(":")
            entries.append((key.strip("'\""), self.expression()))
            if not self.accept(","):
                self.expect("}")
                break
        return self.made(syntax.MapOf(tuple(entries)), *(value for _, value in entries))

    def listed(self, closing: str) -> list[syntax.Node]:
        items: list[syntax.Node] = []
        while not self.accept(closing):
            items.append(self.expression())
            if not self.accept(","):
                self.expect(closing)
                break
        return items

    def peek(self) -> tuple[str, str]:
        return self.tokens[self.at] if self.at < len(self.tokens) else _END

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
