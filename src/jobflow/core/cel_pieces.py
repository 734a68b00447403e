"""Takes an expression apart where it goes over a list. It evaluates nothing.

The library makes the result of `map` and `filter` anew for every entry, deeply copied: over 1,000
entries of ten values that takes more than a second. So what goes over a list is worked out entry
by entry outside of it (`cel_work`), and the library sees a variable in its place:
`size(a.filter(x, x > 1)) > 2` becomes `size(__0) > 2`, with `a`, and `x > 1` for each entry.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

from jobflow.core.cel_words import FOLDS, LOOPS, RESERVED, Word, Words, binds, literal, split, words

OWN = "__"
"""What names of ours begin with."""

_NAME = r"[_a-zA-Z][_a-zA-Z0-9]*"
_KEY = re.compile(
    rf"""\.(?P<field>{_NAME})|\[\s*(?:"(?P<text>[^"\\\n\r]*)"|(?P<own>{OWN}t[0-9]+))\s*\]"""
)
_WAY = re.compile(
    rf"""\s*(?P<root>{_NAME})(?P<keys>(?:\.{_NAME}"""
    rf"""|\[\s*(?:"[^"\\\n\r]*"|{OWN}t[0-9]+)\s*\])*)\s*"""
)
_COUNTED = re.compile(r"\{(\d+)(?:,(\d*))?\}")
_WIDE = re.compile(r"\\[wWpP]")
_WIDER = re.compile(r"\\[dDsSbBhHvV]")


class Key(NamedTuple):
    """What is taken of a map."""

    text: str
    variable: bool = False
    """Whether it is the name of the variable that has the key."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part that the library evaluates, once what goes over lists in it has been worked out."""

    program: Any = field(repr=False)
    reads: Mapping[str, int]
    """The variables it looks at, our own included, and how often."""
    loops: tuple[Loop, ...] = ()
    """In the order in which they are worked out; each may look at those before it."""
    cost: int = 1
    """What one evaluation takes besides its values: about microseconds."""
    way: tuple[Key, ...] = ()
    """Of a piece that is nothing but a variable and what is taken of it, one key after another:
    `steps["a"].items`. Nothing is to be evaluated there, and a long list need not be copied."""


@dataclass(frozen=True, slots=True)
class Loop:
    """Something that goes over a list: a macro, or one of FOLDS."""

    name: str
    """The variable that stands for its result."""
    macro: str
    over: Piece
    bound: str = ""
    """The variable that is an entry."""
    test: Piece | None = None
    made: Piece | None = None
    """Of map: what is made of an entry; then `test` says of which, where there is one."""


def take_apart(text: str, program: Any, found: list[Word]) -> tuple[Piece, Words]:
    """The pieces of an expression, and what it is made of as a whole.

    `program`: as the library has parsed it; `found`: its words. Takes time in proportion to the
    length times the number of loops. ValueError where the library does not parse a piece.
    """
    whole = words(found)
    if _first(found) is None:
        return Piece(program, _reads(whole), cost=_cost(found)), whole
    return _piece(text, (f"{OWN}{number}" for number in count())), whole


def goes_over(found: Sequence[Word], at: int) -> bool:
    """Whether word `at` names a loop or one of FOLDS."""
    if found[at].kind != "name" or not 2 <= at < len(found) - 2:
        return False
    if found[at - 1].text != "." or found[at + 1].text != "(":
        return False
    return binds(found, at) or (found[at].text in FOLDS and found[at + 2].text == ")")


def pattern_cost(pattern: str) -> int:
    """About how many microseconds it takes to make a regular expression ready: whatever is counted
    is written out so many times, and classes of Unicode are large."""
    times = 1
    for least, most in _COUNTED.findall(pattern):
        times *= max(int(most or least), 1)
    wide = 400 * len(_WIDE.findall(pattern)) + 30 * len(_WIDER.findall(pattern))
    return 30 + times * (len(pattern) + 8 * pattern.count(".") + wide)


def pattern_of(found: Sequence[Word], at: int) -> str | None:
    """The pattern of `x.matches("…")` whose name is word `at`; None where it is computed."""
    if at + 3 >= len(found) or found[at + 3].text != ")" or found[at + 2].kind != "text":
        return None
    written = literal(found[at + 2])
    return written if written is not None else found[at + 2].text


def _piece(text: str, names: Iterator[str]) -> Piece:
    import cel  # late, as in `expressions`

    loops = []
    found = split(text)
    while (at := _first(found)) is not None:
        begin, end = _begin(found, at - 2), _end(found, at + 1)
        over = _piece(text[found[begin].at : found[at - 1].at], names)
        parts = [_piece(part, names) for part in _arguments(text, found, at, end)]
        loop = _loop(next(names), found, at, over, parts)
        loops.append(loop)
        text = f"{text[: found[begin].at]} {loop.name} {text[found[end].end :]}"
        found = split(text)
    program, reads = cel.compile(text), _reads(words(found))
    return Piece(program, reads, tuple(loops), _cost(found), _way(text))


def _way(text: str) -> tuple[Key, ...]:
    if (found := _WAY.fullmatch(text)) is None or found["root"] in RESERVED:
        return ()
    keys = (
        Key(key["field"] or key["text"] or key["own"] or "", key["own"] is not None)
        for key in _KEY.finditer(found["keys"])
    )
    return (Key(found["root"]), *keys)


def _reads(whole: Words) -> Mapping[str, int]:
    return Counter(mention.root for mention in whole.mentions)


def _loop(name: str, found: Sequence[Word], at: int, over: Piece, parts: list[Piece]) -> Loop:
    macro = found[at].text
    if not parts:
        return Loop(name, macro, over)
    bound = found[at + 2].text
    if macro == "map":
        return Loop(name, macro, over, bound, parts[0] if parts[1:] else None, parts[-1])
    return Loop(name, macro, over, bound, parts[0])


def _cost(found: Sequence[Word]) -> int:
    """One, and what its regular expressions take."""
    cost = 1
    for at, word in enumerate(found):
        if word.text == "matches" and word.kind == "name":
            cost += pattern_cost(pattern_of(found, at) or "")
    return cost


def _first(found: Sequence[Word]) -> int | None:
    """The first word that names a loop: nothing before it goes over anything any more."""
    return next((at for at in range(2, len(found) - 2) if goes_over(found, at)), None)


def _begin(found: Sequence[Word], at: int) -> int:
    """Where what ends with word `at` begins: a name or literal, and all that is taken of it."""
    while True:
        if found[at].text in (")", "]", "}") and found[at].kind == "sign":
            at = _opening(found, at)
            if at and _is_operand(found[at - 1]):
                at -= 1  # what is called, or what is taken of
                continue
        if at >= 2 and found[at - 1].text == "." and _is_operand(found[at - 2]):
            at -= 2
            continue
        return at


def _is_operand(word: Word) -> bool:
    """Whether a value may end with it."""
    if word.kind == "sign":
        return word.text in (")", "]", "}")
    return word.text != "in"


def _opening(found: Sequence[Word], at: int) -> int:
    depth = 0
    while True:
        if found[at].kind == "sign":
            depth += (found[at].text in (")", "]", "}")) - (found[at].text in ("(", "[", "{"))
        if not depth:
            return at
        at -= 1


def _end(found: Sequence[Word], at: int) -> int:
    """The bracket that closes the one at `at`."""
    depth = 0
    while True:
        if found[at].kind == "sign":
            depth += (found[at].text in ("(", "[", "{")) - (found[at].text in (")", "]", "}"))
        if not depth:
            return at
        at += 1


def _arguments(text: str, found: Sequence[Word], at: int, end: int) -> list[str]:
    """What a loop evaluates for each entry: all between its brackets behind the bound name."""
    if found[at].text not in LOOPS:
        return []
    begin, parts, inner = found[at + 3].end, [], at + 4
    while inner < end:
        word = found[inner]
        if word.kind == "sign" and word.text in ("(", "[", "{"):
            inner = _end(found, inner)
        elif word.text == ",":
            parts.append(text[begin : word.at])
            begin = word.end
        inner += 1
    return [*parts, text[begin : found[end].at]]
