"""Frames, and the macros that bind a variable to each entry of a list or each key of a map.

`all` and `exists` have a value even if an entry fails, as long as another entry decides
(google/cel-spec doc/langdef.md, Macros).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from jobflow.core.cel.budget import COST_OF_ERROR, Budget, CelError
from jobflow.core.cel.language.values import (
    MAX_INT,
    MIN_INT,
    TYPES,
    describe_type,
    get_entry,
    iterate_keys,
    normalize_number,
)

_ENTRY = 41
"""Bytes of an entry of a new list, with a number in it."""


class EvaluationFrame:
    """The variables and the budget of one evaluation."""

    __slots__ = ("budget", "slots", "values")

    def __init__(self, values: Mapping[str, Any], slots: int, budget: Budget) -> None:
        self.values = values
        self.slots: list[Any] = [None] * slots
        """Variables of macros, by depth."""
        self.budget = budget


CompiledNode = Callable[[EvaluationFrame], Any]
CompiledSelector = Callable[[EvaluationFrame, Any], Any]
"""Takes the value before the selector."""


def read_variable(name: str, keys: Sequence[Any]) -> CompiledNode:
    """Compile a variable that no macro binds, and the keys after it."""

    def read(frame: EvaluationFrame) -> Any:
        # no variable can have the frame as its value
        value = frame.values.get(name, frame)
        if value is frame:
            if name not in TYPES:
                raise CelError(f"there is no variable or function {name}")
            value = TYPES[name]
        elif value.__class__ is int and not MIN_INT <= value <= MAX_INT:
            value = normalize_number(value)
        for key in keys:
            value = get_entry(value, key)
        return value

    return read


def read_slot(slot: int, keys: Sequence[Any]) -> CompiledNode:
    """Compile a variable of a macro, and the keys after it."""
    if not keys:
        return lambda frame: frame.slots[slot]

    def read(frame: EvaluationFrame) -> Any:
        value = frame.slots[slot]
        for key in keys:
            value = get_entry(value, key)
        return value

    return read


class MacroLoop(NamedTuple):
    """A call of a macro: `range.name(variable, body)`."""

    name: str
    slot: int
    """The slot of its variable."""
    bodies: list[CompiledNode]
    cost: int
    """Steps of the bodies for one entry, without macros in them."""

    def iterate(self, frame: EvaluationFrame, entries: Any) -> Iterator[Any]:
        """Bind and yield one entry after another, and take the cost of each."""
        slots, budget, slot = frame.slots, frame.budget, self.slot
        if entries.__class__ is dict:
            entries = iterate_keys(entries)
        elif entries.__class__ is not list:
            raise CelError(f"{self.name} goes over a list or a map, not {describe_type(entries)}")
        # taken before the body runs, so no loop is half paid
        cost = self.cost + 2
        for entry in entries:
            budget.spend(cost)
            if entry.__class__ is int and not MIN_INT <= entry <= MAX_INT:
                entry = normalize_number(entry)
            slots[slot] = entry
            yield entry

    def test(self, frame: EvaluationFrame) -> bool:
        """Return the first body's value. Raises CelError if it is not true or false."""
        value = self.bodies[0](frame)
        if value.__class__ is not bool:
            raise _make_test_error(value)
        return bool(value)


def _make_test_error(value: Any) -> CelError:
    return CelError(f"the test of a loop gives {describe_type(value)}, not true or false")


def decide(
    deciding: bool,
    make_error: Callable[[Any], CelError],
    operands: Iterable[CompiledNode],
    frame: EvaluationFrame,
) -> Any:
    """Return `deciding` if an operand has this value, even if another one fails, else the opposite.
    `make_error` is called for an operand that is neither true nor false."""
    first: CelError | None = None
    for operand in operands:
        try:
            value = operand(frame)
        except CelError as error:
            frame.budget.spend(COST_OF_ERROR)
            # only the first failure is told, and only if nothing decides
            first = first or error.bare()
            continue
        if value is deciding:
            return deciding  # whatever failed before
        if value.__class__ is not bool:
            first = first or make_error(value)
    if first is not None:
        raise first.bare()
    return not deciding


def _decide_loop(deciding: bool, loop: MacroLoop, frame: EvaluationFrame, entries: Any) -> Any:
    [test] = loop.bodies
    tests = (test for _ in loop.iterate(frame, entries))
    return decide(deciding, _make_test_error, tests, frame)


def _exists_one(loop: MacroLoop, frame: EvaluationFrame, entries: Any) -> bool:
    # every entry is tested, as the language definition wants: an error in any is that of the macro
    return sum([loop.test(frame) for _ in loop.iterate(frame, entries)]) == 1


def _filter(loop: MacroLoop, frame: EvaluationFrame, entries: Any) -> list[Any]:
    kept = []
    frame.budget.add_list(0)
    for entry in loop.iterate(frame, entries):
        if loop.test(frame):
            frame.budget.allocate(9)
            kept.append(entry)
    return kept


def _map(loop: MacroLoop, frame: EvaluationFrame, entries: Any) -> list[Any]:
    *tests, body = loop.bodies
    made = []
    frame.budget.add_list(0)
    for _ in loop.iterate(frame, entries):
        if not tests or loop.test(frame):
            frame.budget.allocate(_ENTRY)
            made.append(body(frame))
    return made


MACROS: Mapping[str, Callable[[MacroLoop, EvaluationFrame, Any], Any]] = {
    "all": partial(_decide_loop, False),
    "exists": partial(_decide_loop, True),
    "exists_one": _exists_one,
    "existsOne": _exists_one,
    "filter": _filter,
    "map": _map,
}
