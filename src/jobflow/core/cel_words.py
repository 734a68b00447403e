"""Which names a CEL expression mentions, where, and how its loops are nested. It evaluates nothing.

The library that evaluates hands out no syntax tree, and admission has to say which name is wrong
and at which character. So the text is read once more, word by word: enough to tell a name from a
text, a function or the variable of a loop (CEL's grammar: google/cel-spec doc/langdef.md). What
the library refuses to parse is never read here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_WORDS = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*)
  | (?P<text>[rRbB]{0,2}(?:'{3}(?s:.*?)(?<!\\)'{3}|"{3}(?s:.*?)(?<!\\)"{3}
        |'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"))
  | (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?[uU]?|\.\d+|0[xX][0-9a-fA-F]+)
  | (?P<name>[_a-zA-Z][_a-zA-Z0-9]*)
  | (?P<sign>&&|\|\||==|!=|<=|>=|.)
    """,
    re.VERBOSE | re.DOTALL,
)
LOOPS = frozenset({"all", "exists", "exists_one", "map", "filter"})
"""Macros that go over a list or a map and bind a name of their own."""
COPYING = frozenset({"map", "filter"})
"""Those of them that the library carries out by copying the list that is made, entry by entry."""
_LITERALS = frozenset({"true", "false", "null", "in"})


@dataclass(frozen=True, slots=True)
class Mention:
    """A variable that an expression reads, as far down as it is written out: `steps["x"].phase`."""

    root: str
    keys: tuple[str, ...]
    """What is taken of it, one after another."""
    at: int
    """Where it begins in the text, from 0."""
    open: bool = False
    """Whether more is taken of it, by a key that is computed."""
    looped: bool = False
    """Whether a loop reads it again and again."""


@dataclass(frozen=True, slots=True)
class Words:
    """What an expression is made of, as far as it has to be known."""

    mentions: tuple[Mention, ...]
    """Variables from outside, in the order of the text; none that a loop binds."""
    loops: tuple[tuple[str, ...], ...]
    """Each loop as the names of the macros around it, outermost first, and its own last."""
    commas: int
    """How often something is put beside something else, in lists, maps and arguments."""


@dataclass(slots=True)
class _Word:
    kind: str
    text: str
    at: int


@dataclass(slots=True)
class _Bracket:
    """One that is open; of a loop, with its macro and the name that it binds."""

    macro: str = ""
    bound: str = ""


@dataclass(slots=True)
class _Reader:
    words: list[_Word]
    mentions: list[Mention] = field(default_factory=list)
    loops: list[tuple[str, ...]] = field(default_factory=list)
    open: list[_Bracket] = field(default_factory=list)

    def read(self) -> Words:
        at = 0
        while at < len(self.words):
            at = self._next(at)
        commas = sum(word.text == "," for word in self.words)
        return Words(tuple(self.mentions), tuple(self.loops), commas)

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
        name = self.words[at].text
        binds = name in LOOPS and self._is(at + 3, ",") and self.words[at + 2].kind == "name"
        if not binds:
            self.open.append(_Bracket())
            return at + 2
        self.open.append(_Bracket(name, self.words[at + 2].text))
        self.loops.append(tuple(bracket.macro for bracket in self.open if bracket.macro))
        return at + 4

    def _name(self, at: int) -> int:
        """A name that does not belong to one before it: a function, a literal or a variable."""
        word = self.words[at]
        if word.text in _LITERALS or self._is(at + 1, "("):
            return at + 1
        keys, after, further = self._keys(at + 1)
        if all(bracket.bound != word.text for bracket in self.open):
            looped = any(bracket.macro for bracket in self.open)
            self.mentions.append(Mention(word.text, tuple(keys), word.at, further, looped))
        return after

    def _keys(self, at: int) -> tuple[list[str], int, bool]:
        """The keys written out behind a variable, where they end, and whether one is computed."""
        keys: list[str] = []
        while True:
            if self._is(at, ".") and at + 1 < len(self.words) and not self._is(at + 2, "("):
                if self.words[at + 1].kind != "name":
                    return keys, at, True
                keys.append(self.words[at + 1].text)
                at += 2
            elif self._is(at, "[") and self._is(at + 2, "]"):
                key = _literal(self.words[at + 1])
                if key is None:
                    return keys, at, True
                keys.append(key)
                at += 3
            else:
                return keys, at, self._is(at, "[")


def words(expression: str) -> Words:
    """Read an expression that the library has parsed. Linear in its length."""
    return _Reader(list(_split(expression))).read()


def _split(expression: str) -> Iterator[_Word]:
    for found in _WORDS.finditer(expression):
        kind = found.lastgroup or ""
        if kind != "space":
            yield _Word(kind, found.group(), found.start())


def _literal(word: _Word) -> str | None:
    """The key that a word between square brackets is; None for anything that is computed."""
    if word.kind == "number":
        return word.text
    if word.kind != "text" or word.text[0] in "bB" or "\\" in word.text:
        return None
    text = word.text.lstrip("rR")
    quotes = 3 if text[:3] in ("'''", '"""') and len(text) >= 6 else 1
    return text[quotes:-quotes]
