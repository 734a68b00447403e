"""The macros that go over a list, or over the keys of a map.

`all` and `exists` answer although an entry fails, if another one decides (google/cel-spec
doc/langdef.md, Macros).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from jobflow.core.cel.language.budget import Budget, CelError
from jobflow.core.cel.language.values import (
    MAX_INT,
    MIN_INT,
    TYPES,
    describe_type,
    get_entry,
    iterate_keys,
    normalize_number,
)


class MacroLoop(NamedTuple):
    """A macro: `over.name(bound, body)`."""

    name: str
    slot: int
    """The place of the variable that it binds."""
    bodies: list[Run]
    """Run for each entry."""
    cost: int
    """Steps of the bodies, without loops in them."""

    def entries(self, frame: EvaluationFrame, over: Any) -> Iterator[Any]:
        """Bind one entry after another, and count the steps of each."""
        slots, work, slot = frame.slots, frame.work, self.slot
        if over.__class__ is dict:
            over = iterate_keys(over)
        elif over.__class__ is not list:
            raise CelError(f"{self.name} goes over a list or a map, not {describe_type(over)}")
        cost = self.cost + 2
        for entry in over:
            work.spend(cost)
            slots[slot] = normalize_number(entry) if entry.__class__ is int else entry
            yield slots[slot]

    def holds(self, frame: EvaluationFrame) -> bool:
        """Whether the first body holds. Raises CelError."""
        return _truth(self.bodies[0](frame))


def _truth(value: Any) -> bool:
    if value.__class__ is not bool:
        raise CelError(f"the test of a loop gives {describe_type(value)}, not true or false")
    return bool(value)


def _all(loop: MacroLoop) -> Step:
    return lambda frame, over: _decided(loop, frame, over, by=False)


def _exists(loop: MacroLoop) -> Step:
    return lambda frame, over: _decided(loop, frame, over, by=True)


def _decided(loop: MacroLoop, frame: EvaluationFrame, over: Any, *, by: bool) -> bool:
    """The first entry that gives `by` decides, even if another one fails."""
    failure: CelError | None = None
    for _ in loop.entries(frame, over):
        try:
            if loop.holds(frame) is by:
                return by
        except CelError as error:
            frame.work.failed()
            failure = failure or error.bare()
    if failure is not None:
        raise failure.bare()
    return not by


def _exists_one(loop: MacroLoop) -> Step:
    def one(frame: EvaluationFrame, over: Any) -> Any:
        return sum([loop.holds(frame) for _ in loop.entries(frame, over)]) == 1

    return one


def _filter(loop: MacroLoop) -> Step:
    def kept(frame: EvaluationFrame, over: Any) -> Any:
        found = []
        frame.work.entries(0)
        for entry in loop.entries(frame, over):
            if loop.holds(frame):
                frame.work.make(9)
                found.append(entry)
        return found

    return kept


def _map(loop: MacroLoop) -> Step:
    """With three arguments, of those entries that pass the first body."""
    *tests, body = loop.bodies

    def made(frame: EvaluationFrame, over: Any) -> Any:
        found = []
        frame.work.entries(0)
        for _ in loop.entries(frame, over):
            if not tests or loop.holds(frame):
                frame.work.make(_ENTRY)
                found.append(body(frame))
        return found

    return made


_ENTRY = 41
"""Bytes of an entry of a list that is made, and of a number in it."""

LOOPS: Mapping[str, Callable[[MacroLoop], Step]] = {
    "all": _all,
    "exists": _exists,
    "exists_one": _exists_one,
    "existsOne": _exists_one,
    "filter": _filter,
    "map": _map,
}


class EvaluationFrame:
    """The variables of one evaluation, those of its loops, and what is left of its budget."""

    __slots__ = ("slots", "values", "work")

    def __init__(self, values: Mapping[str, Any], slots: int, work: Budget) -> None:
        self.values = values
        self.slots: list[Any] = [None] * slots
        self.work = work


Run = Callable[[EvaluationFrame], Any]
Step = Callable[[EvaluationFrame, Any], Any]
"""Takes the value of what is before it."""


def chained(first: Run, steps: Sequence[Step]) -> Run:
    """Return what takes one step after another of a value."""
    if not steps:
        return first

    def taken_of(frame: EvaluationFrame) -> Any:
        value = first(frame)
        for step in steps:
            value = step(frame, value)
        return value

    return taken_of


def path(root: str, keys: Sequence[Any]) -> Run:
    """Return what reads a variable from outside, and what is under its keys."""

    def found(frame: EvaluationFrame) -> Any:
        value = frame.values.get(root, frame)
        if value is frame:
            value = _type_named(root)
        elif value.__class__ is int and not MIN_INT <= value <= MAX_INT:
            value = normalize_number(value)
        for key in keys:
            value = get_entry(value, key)
        return value

    return found


def bound_path(slot: int, keys: Sequence[Any]) -> Run:
    if not keys:
        return lambda frame: frame.slots[slot]

    def found(frame: EvaluationFrame) -> Any:
        value = frame.slots[slot]
        for key in keys:
            value = get_entry(value, key)
        return value

    return found


def _type_named(name: str) -> Any:
    if name not in TYPES:
        raise CelError(f"there is no variable or function {name}")
    return TYPES[name]
