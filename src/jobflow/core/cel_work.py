"""Evaluates the pieces of an expression within a budget: lists are gone over here, entry by entry.

What a value means is CEL's (google/cel-spec doc/langdef.md, Macros): `all` and `exists` answer
although an entry fails where another one decides. Failures are the library's exceptions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from jobflow.core.cel_pieces import OWN, Key, Loop, Piece

T = TypeVar("T")

MAX_WORK = 200_000
"""What an evaluation may come to: about microseconds, and so 0.2 s."""
MAX_DEPTH = 100
"""Lists and maps in each other: a deep value is more than the library's stack holds."""
ERRORS = (
    KeyError,
    IndexError,
    TypeError,
    ValueError,
    RuntimeError,
    ArithmeticError,
    AttributeError,
)
"""What the library raises besides panics, and what is raised here."""

_OWN_NAME = re.compile(rf"'({OWN}\d+)'")
_NOWHERE = object()
_VISIT = 2
"""What an entry takes besides its values."""
_CHARACTERS = 512
"""So many characters of a text count as much as a value."""
_AGAIN = 16
"""What is mentioned more often than this is probably put together, which copies it every time."""


class TooMuchError(Exception):
    """The budget is spent."""


class Given:
    """Variables with their values, and what it takes to hand each to the library."""

    __slots__ = ("values", "weights")

    def __init__(self, values: Mapping[str, Any], weights: Mapping[str, int] | None = None) -> None:
        self.values = dict(values)
        self.weights = (
            {name: weight(value) for name, value in values.items()}
            if weights is None
            else dict(weights)
        )

    def copy(self) -> Given:
        """Another one, to add to."""
        return Given(self.values, self.weights)

    def beside(self, texts: Mapping[str, str]) -> Given:
        """With the texts of the expression itself, which cost nothing."""
        if texts:
            self.values.update(texts)
            self.weights.update(dict.fromkeys(texts, 0))
        return self

    def put(self, name: str, value: Any) -> int:
        """Let a variable have this value; answers its weight."""
        self.values[name] = value
        self.weights[name] = weighs = weight(value)
        return weighs


class Work:
    """One evaluation, and what is left of its budget."""

    def __init__(self, budget: int = MAX_WORK) -> None:
        self.left = budget

    def run(self, piece: Piece, given: Given) -> Any:
        """The value of a piece. Raises ERRORS, TooMuchError, and the library's panics."""
        failed: dict[str, BaseException] = {}
        if piece.loops:
            given = given.copy()
        for loop in piece.loops:
            try:
                self._put(given, loop.name, self._gone_over(loop, given))
            except ERRORS as error:
                failed[loop.name] = _cause(error, failed)
        values = {name: given.values[name] for name in piece.reads if name in given.values}
        self.spend(piece.cost)
        for name in values:
            times = piece.reads[name]
            self.spend(given.weights[name] * times * (1 + times // _AGAIN))
        if not failed:
            found = _along(piece.way, values) if piece.way else _NOWHERE
            return piece.program.execute(values) if found is _NOWHERE else found
        try:
            return piece.program.execute(values)
        except ERRORS as error:
            raise _cause(error, failed) from error

    def _put(self, given: Given, name: str, value: Any) -> None:
        self.spend(given.put(name, value))

    def spend(self, cost: int) -> None:
        """Take so much of the budget; TooMuchError where it is not left."""
        self.left -= cost
        if self.left < 0:
            raise TooMuchError

    def _gone_over(self, loop: Loop, given: Given) -> Any:
        entries = self.run(loop.over, given)
        if isinstance(entries, dict) and loop.bound:
            entries = list(entries)  # CEL goes over the keys
        if not isinstance(entries, list):
            raise TypeError(f"{loop.macro} goes over a list or a map")
        self.spend(_VISIT * len(entries))
        if not loop.bound:
            return _folded(loop.macro, entries)
        inner = given.copy()
        match loop.macro:
            case "map" | "filter":
                return list(self._gathered(loop, entries, inner))
            case "all":
                return self._decided(loop, entries, inner, by=False)
            case "exists":
                return self._decided(loop, entries, inner, by=True)
        holds = _Entries(self, loop, inner, self._test)
        return sum([holds.of(entry) for entry in entries]) == 1

    def _gathered(self, loop: Loop, entries: list[Any], inner: Given) -> Iterator[Any]:
        made = _Entries(self, loop, inner, self._made)
        for entry in entries:
            yield from made.of(entry)

    def _made(self, loop: Loop, inner: Given) -> tuple[Any, ...]:
        """What comes of an entry; nothing where it does not pass the test."""
        if loop.test is not None and not self._test(loop, inner):
            return ()
        return (inner.values[loop.bound] if loop.made is None else self.run(loop.made, inner),)

    def _decided(self, loop: Loop, entries: list[Any], inner: Given, *, by: bool) -> bool:
        """The first entry for which the test comes to `by` decides, even if another one fails."""
        failure: BaseException | None = None
        holds = _Entries(self, loop, inner, self._test)
        for entry in entries:
            try:
                if holds.of(entry) is by:
                    return by
            except ERRORS as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return not by

    def _test(self, loop: Loop, inner: Given) -> bool:
        assert loop.test is not None
        return _truth(self.run(loop.test, inner))


class _Entries(Generic[T]):
    """What comes of one entry of a loop after another. Items that have not begun are all one entry:
    what came of it the last time is taken again, at the same price."""

    def __init__(
        self, work: Work, loop: Loop, inner: Given, evaluate: Callable[[Loop, Given], T]
    ) -> None:
        self._work = work
        self._loop = loop
        self._inner = inner
        self._evaluate = evaluate
        self._last: tuple[Any, T, int] | None = None
        """An entry, what came of it, and its price."""

    def of(self, entry: Any) -> T:
        """What comes of this one; raises as `Work.run` does."""
        if self._last is not None and entry is self._last[0]:
            self._work.spend(self._last[2])
            return self._last[1]
        left = self._work.left
        self._work.spend(self._inner.put(self._loop.bound, entry))
        value = self._evaluate(self._loop, self._inner)
        self._last = entry, value, left - self._work.left
        return value


def weight(value: Any) -> int:
    """About how many values it is to copy. ValueError where it is nested too deep to be looked at;
    it does not recurse itself."""
    heavy, depth = 0, 0
    level = [value]
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise ValueError(f"it looks at a value that is nested deeper than {MAX_DEPTH}")
        deeper: list[Any] = []
        heavy += len(level)
        for each in level:
            if isinstance(each, str):
                heavy += len(each) // _CHARACTERS
            elif isinstance(each, dict):
                deeper += each.values()
                heavy += len(each)
            elif isinstance(each, list):
                deeper += each
        level = deeper
    return heavy


def _along(way: Sequence[Key], values: Mapping[str, Any]) -> Any:
    """What is at the end of a way through maps; _NOWHERE where it does not lead to anything, or
    to what the library would not hand back as it is: then it has the value, or the words."""
    value: Any = values
    for text, variable in way:
        key = values.get(text) if variable else text
        if not isinstance(value, Mapping) or key not in value:
            return _NOWHERE
        value = value[key]
    return value if _stays(value) else _NOWHERE


def _stays(value: Any) -> bool:
    """Whether the library hands a value back as it is: not a number of more than 64 bits, which
    becomes another, nor half a character, which it does not take."""
    work = [value]
    while work:
        each = work.pop()
        if isinstance(each, dict):
            work += each
            work += each.values()
        elif isinstance(each, list):
            work += each
        elif isinstance(each, str):
            if not each.isascii() and not each.isprintable():
                return False
        elif isinstance(each, int) and not -(1 << 63) <= each < 1 << 64:
            return False
    return True


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("the test of a loop gives something else than true or false")
    return value


def _folded(macro: str, entries: list[Any]) -> Any:
    """`[].sum()` is 0; of no entries there is no least and no greatest."""
    numbers = all(isinstance(each, int | float) and not isinstance(each, bool) for each in entries)
    if macro == "sum":
        if not numbers:
            raise TypeError("sum adds up a list of numbers")
        return sum(entries)
    if not entries:
        raise IndexError(f"an empty list has no {macro}")
    if not numbers and not all(isinstance(each, str) for each in entries):
        raise TypeError(f"{macro} compares a list of numbers or a list of texts")
    return min(entries) if macro == "min" else max(entries)


def _cause(error: BaseException, failed: Mapping[str, BaseException]) -> BaseException:
    """What a piece failed by, where it is for what was worked out before it."""
    found = _OWN_NAME.search(str(error))
    return failed.get(found[1], error) if found is not None else error
