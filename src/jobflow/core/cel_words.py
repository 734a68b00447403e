"""Which names a CEL expression mentions, where, and how its loops are nested. It evaluates nothing.

The library that evaluates hands out no syntax tree, and admission has to say which name is wrong
and at which character. So the text is read once more, word by word: enough to tell a name from a
text, a function or the variable of a loop (CEL's grammar: google/cel-spec doc/langdef.md). What
the library refuses to parse is never read here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

_WORDS = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*)
  | (?P<text>[bB]?[rR](?:'{3}.*?'{3}|"{3}.*?"{3}|'[^'\n]*'|"[^"\n]*")
        |[bB]?(?:'{3}(?:\\.|[^\\])*?'{3}|"{3}(?:\\.|[^\\])*?"{3}
        |'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"))
  | (?P<number>0[xX][0-9a-fA-F]+[uU]?|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?[uU]?|\.\d+(?:[eE][+-]?\d+)?)
  | (?P<name>[_a-zA-Z][_a-zA-Z0-9]*)
  | (?P<sign>&&|\|\||==|!=|<=|>=|.)
    """,
    re.VERBOSE | re.DOTALL,
)
LOOPS = frozenset({"all", "exists", "exists_one", "existsOne", "map", "filter"})
"""Macros that go over a list or a map and bind a name of their own."""
FOLDS = frozenset({"min", "max", "sum"})
"""Functions of a list that Kubernetes' CEL has and the library has not: `a.max()`."""
FUNCTIONS = (
    LOOPS
    | FOLDS
    | frozenset(
        """
    bytes contains double duration dyn endsWith getDate getDayOfMonth getDayOfWeek getDayOfYear
    getFullYear getHours getMilliseconds getMinutes getMonth getSeconds has int matches size
    startsWith string timestamp type uint
    """.split()
    )
)
"""All that may be called."""
TYPES = frozenset("bool bytes double int list map null_type string type uint".split())
"""Names that stand for a type: `type(x) == int`."""
RESERVED = frozenset({"true", "false", "null", "in"})
"""Names that are words of CEL itself."""


class Mention(NamedTuple):
    """A variable that an expression reads, as far down as it is written out: `steps["x"].phase`."""

    root: str
    keys: tuple[str, ...]
    """What is taken of it, one after another."""
    at: int
    """Where it begins in the text, from 0."""
    open: bool = False
    """Whether more is taken of it, by a key that is computed."""


class Call(NamedTuple):
    """A function or macro that an expression calls."""

    name: str
    at: int
    """Where its name begins in the text, from 0."""
    of: bool
    """Whether it is called on something: `x.size()`, not `size(x)`."""


@dataclass(frozen=True, slots=True)
class Words:
    """What an expression is made of, as far as it has to be known."""

    mentions: tuple[Mention, ...]
    """Variables from outside, in the order of the text; none that a loop binds."""
    calls: tuple[Call, ...]
    """In the order of the text."""


class Word(NamedTuple):
    """A name, a number, a text, or a sign."""

    kind: str
    text: str
    at: int

    @property
    def end(self) -> int:
        """Behind its last character."""
        return self.at + len(self.text)


@dataclass(slots=True)
class _Bracket:
    """One that is open; of a loop, with the name that it binds."""

    bound: str = ""


@dataclass(slots=True)
class _Reader:
    words: list[Word]
    mentions: list[Mention] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    open: list[_Bracket] = field(default_factory=list)

    def read(self) -> Words:
        at = 0
        while at < len(self.words):
            at = self._next(at)
        return Words(tuple(self.mentions), tuple(self.calls))

    def _next(self, at: int) -> int:
        word = self.words[at]
        if word.kind == "name" and not self._is(at - 1, "."):
            return self._name(at)
        if word.kind == "name" and self._is(at + 1, "("):
            return self._method(at)
        if word.text in "([{" and word.kind == "sign":
            self.open.append(_Bracket())
        elif word.text in ")]}" and word.kind == "sign" and self.open:
            self.open.pop()
        return at + 1

    def _is(self, at: int, sign: str) -> bool:
        return 0 <= at < len(self.words) and self.words[at].text == sign

    def _method(self, at: int) -> int:
        """A function that is called on something: it may be a loop."""
        word = self.words[at]
        self.calls.append(Call(word.text, word.at, of=True))
        if not binds(self.words, at):
            self.open.append(_Bracket())
            return at + 2
        self.open.append(_Bracket(self.words[at + 2].text))
        return at + 4

    def _name(self, at: int) -> int:
        """A name that does not belong to one before it: a function, a literal or a variable."""
        word = self.words[at]
        if word.text in RESERVED:
            return at + 1
        if self._is(at + 1, "("):
            self.calls.append(Call(word.text, word.at, of=False))
            return at + 1
        keys, after, further = self._keys(at + 1)
        if all(bracket.bound != word.text for bracket in self.open):
            self.mentions.append(Mention(word.text, tuple(keys), word.at, further))
        return after

    def _keys(self, at: int) -> tuple[list[str], int, bool]:
        """The keys written out behind a variable, where they end, and whether one is computed."""
        keys: list[str] = []
        while True:
            if self._is(at, ".") and at + 1 < len(self.words) and not self._is(at + 2, "("):
                keys.append(self.words[at + 1].text)
                at += 2
            elif self._is(at, "[") and self._is(at + 2, "]"):
                key = literal(self.words[at + 1])
                if key is None:
                    return keys, at, True
                keys.append(key)
                at += 3
            else:
                return keys, at, self._is(at, "[")


def words(found: list[Word]) -> Words:
    """Read an expression that the library has parsed, from its words. Linear in their number."""
    return _Reader(found).read()


def split(expression: str) -> list[Word]:
    """Its words, without blanks and comments."""
    return [
        Word(kind, found.group(), found.start())
        for found in _WORDS.finditer(expression)
        if (kind := found.lastgroup or "") != "space"
    ]


def binds(words: Sequence[Word], at: int) -> bool:
    """Whether the word at `at`, which is called on something, is a loop: `x.all(y, …)`."""
    return (
        words[at].text in LOOPS
        and at + 3 < len(words)
        and words[at + 2].kind == "name"
        and words[at + 3].text == ","
    )


def literal(word: Word) -> str | None:
    """The text or number that a word stands for; None for anything that is computed, and for a
    text with escapes."""
    if word.kind == "number":
        return word.text
    if word.kind != "text" or word.text[0] in "bB":
        return None
    text = word.text.lstrip("rR")
    if text == word.text and "\\" in text:
        return None
    quotes = 3 if text[:3] in ("'''", '"""') and len(text) >= 6 else 1
    return text[quotes:-quotes]
