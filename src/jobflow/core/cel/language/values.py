"""CEL's values: their types, how they compare, and how they calculate.

JSON is taken as it is: lists, maps, texts, numbers, true, false and null. A whole number of JSON
that a signed integer does not hold is an unsigned one, or a double (`normalize_number`). Nothing here
copies or walks a value before its cost is taken from the budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from jobflow.api.schema.nesting import MAX_DEPTH
from jobflow.core.cel.language.budget import Budget, CelError
from jobflow.core.cel.language.syntax import Uint

MIN_INT, MAX_INT = -(1 << 63), (1 << 63) - 1
_UNSIGNED = (1 << 64) - 1


class TypeOf(NamedTuple):
    """The value of `type(x)`."""

    name: str


_KINDS: Mapping[type, tuple[str, str]] = {
    type(None): ("null_type", "null"),
    bool: ("bool", "true or false"),
    int: ("int", "a whole number"),
    Uint: ("uint", "an unsigned number"),
    float: ("double", "a decimal number"),
    str: ("string", "a text"),
    bytes: ("bytes", "bytes"),
    list: ("list", "a list"),
    dict: ("map", "a map"),
    datetime: ("google.protobuf.Timestamp", "a timestamp"),
    timedelta: ("google.protobuf.Duration", "a duration"),
    TypeOf: ("type", "a type"),
}
TYPES: Mapping[str, TypeOf] = {
    name: TypeOf(name) for name, _ in _KINDS.values() if not name.startswith("google")
}
"""Names that stand for a type: `type(x) == int`."""
NUMBERS = frozenset({int, Uint, float})


def type_of(value: Any) -> TypeOf:
    """Return CEL's type of a value."""
    kind = _KINDS.get(type(value))
    return TypeOf(kind[0] if kind is not None else "unknown")


def describe_type(value: Any) -> str:
    """Return what a value is, in a word or two."""
    kind = _KINDS.get(type(value))
    return kind[1] if kind is not None else f"a {type(value).__name__}"


def make_type_error(name: str, *given: Any) -> CelError:
    """Return the error of an operator or a function that does not take these values."""
    kinds = [describe_type(value) for value in given]
    words = " and ".join([", ".join(kinds[:-1]), kinds[-1]] if len(kinds) > 1 else kinds)
    hint = ""
    if len(given) == 2 and {type(value) for value in given} == {int, float}:
        hint = "; write double(…) around the whole number"
    return CelError(f"{name} does not take {words or 'nothing'}{hint}")


# ------------------------------------------------------------------------ what is there


def normalize_number(value: int) -> int | float:
    """Return a whole number of JSON as CEL has it."""
    if MIN_INT <= value <= MAX_INT:
        return value
    if 0 <= value <= _UNSIGNED:
        return Uint(value)
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def get_entry(value: Any, key: Any) -> Any:
    """Return what is under a key or at an index. Raises CelError."""
    kind = value.__class__
    if kind is dict:
        try:
            found = value[to_key(key)]
        except KeyError:
            raise CelError(f"there is no {format_key(key)}", missing=True) from None
    elif kind is list:
        found = _entry(value, key)
    else:
        raise CelError(f"{describe_type(value)} has no entries, so there is no {format_key(key)}")
    return (
        found
        if found.__class__ is not int or MIN_INT <= found <= MAX_INT
        else normalize_number(found)
    )


def _entry(value: list[Any], key: Any) -> Any:
    if type(key) not in NUMBERS or (type(key) is float and not key.is_integer()):
        raise CelError(f"a list has no {format_key(key)}; it takes an index from 0")
    if not 0 <= key < len(value):
        raise CelError(f"index out of bounds: {key}", missing=True)
    return value[int(key)]


def format_key(key: Any) -> str:
    """Return a text or a number for a message, and of any other value what it is: writing a list
    out would cost as much as its entries, and those of their entries."""
    if key.__class__ is str:
        return repr(key if len(key) < 100 else key[:99] + "…")
    return str(key) if type(key) in NUMBERS else describe_type(key)


def to_key(value: Any) -> Any:
    """Return a value as the key of a map. Python takes true for 1, so booleans are wrapped."""
    if value.__class__ is bool:
        return (value,)
    if type(value) not in (str, int, Uint, float):
        raise CelError(f"{describe_type(value)} cannot be a key of a map")
    return value


def iterate_keys(value: dict[Any, Any]) -> Iterator[Any]:
    """Yield the keys of a map as values."""
    return (key[0] if key.__class__ is tuple else key for key in value)


# --------------------------------------------------------------------------- comparing


def is_equal(one: Any, other: Any, work: Budget, depth: int = 1) -> bool:
    """Return whether two values are equal; values of different types are not, but numbers are."""
    kind = one.__class__
    if kind is not other.__class__:
        return kind in NUMBERS and other.__class__ in NUMBERS and one == other
    if kind is str or kind is bytes:
        if len(one) != len(other):
            return False
        work.read(one)
        return bool(one == other)
    if kind is not list and kind is not dict:
        return bool(one == other)
    if len(one) != len(other):
        return False
    if depth >= MAX_DEPTH:
        raise make_depth_error()
    work.spend(3 + 3 * len(one))
    same = _equal_lists if kind is list else _equal_maps
    return same(one, other, work, depth)


def _equal_lists(one: list[Any], other: list[Any], work: Budget, depth: int) -> bool:
    for entry, opposite in zip(one, other, strict=True):
        if not is_equal(entry, opposite, work, depth + 1):
            return False
    return True


def _equal_maps(one: dict[Any, Any], other: dict[Any, Any], work: Budget, depth: int) -> bool:
    for key, entry in one.items():
        if key.__class__ is str:
            work.read(key)
        if key not in other or not is_equal(entry, other[key], work, depth + 1):
            return False
    return True


def make_depth_error() -> CelError:
    """Return the error of a value that is nested too deep to be gone over."""
    return CelError(f"it looks at a value that is nested deeper than {MAX_DEPTH}")


def is_in(entry: Any, within: Any, work: Budget) -> bool:
    """`entry in within`: of a list an entry, of a map a key."""
    if within.__class__ is dict:
        if entry.__class__ is str:
            work.read(entry)
        return to_key(entry) in within
    if within.__class__ is not list:
        raise make_type_error("in", entry, within)
    work.spend(1 + 2 * len(within))
    return any(is_equal(entry, each, work) for each in within)


_ORDERED = frozenset({str, bytes, bool, datetime, timedelta})


def compare(sign: str, one: Any, other: Any, work: Budget) -> bool:
    """`one < other` and its like."""
    if type(one) in NUMBERS and type(other) in NUMBERS:
        return _ORDERS[sign](one, other)
    if type(one) is not type(other) or type(one) not in _ORDERED:
        raise make_type_error(sign, one, other)
    if isinstance(one, str | bytes):
        work.read(one if len(one) < len(other) else other)
    return _ORDERS[sign](one, other)


_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": lambda one, other: bool(one < other),
    "<=": lambda one, other: bool(one <= other),
    ">": lambda one, other: bool(one > other),
    ">=": lambda one, other: bool(one >= other),
}


# ------------------------------------------------------------------------- calculating


def calculate(sign: str, one: Any, other: Any, work: Budget) -> Any:
    """`one + other` and its like. Raises CelError, also if an integer gets too large."""
    found = _OPERATIONS[sign].get((type(one), type(other)))
    if found is None:
        raise make_type_error(sign, one, other)
    return found(one, other, work)


def negate(value: Any) -> Any:
    """`-value`."""
    if type(value) is float:
        return -value
    if type(value) is not int:
        raise make_type_error("-", value)
    return check_int(-value)


def check_int(value: int) -> int:
    """Return it if 64 bits hold it. Raises CelError."""
    if MIN_INT <= value <= MAX_INT:
        return value
    raise CelError(f"an integer of more than 64 bits: {value}")


def check_uint(value: int) -> Uint:
    """Return it as an unsigned number if 64 bits hold it. Raises CelError."""
    if 0 <= value <= _UNSIGNED:
        return Uint(value)
    raise CelError(f"an unsigned integer is from 0 to {_UNSIGNED}")


def check_time(make: Callable[[], Any]) -> Any:
    """Return a timestamp or a duration. Raises CelError if it is out of range."""
    try:
        return make()
    except OverflowError:
        raise CelError("a timestamp or duration that is out of range") from None


def _quotient(one: int, other: int) -> int:
    """Towards 0."""
    if not other:
        raise CelError("division by zero")
    found = abs(one) // abs(other)
    return found if (one < 0) == (other < 0) else -found


def _rest(one: int, other: int) -> int:
    """It has the sign of the first."""
    if not other:
        raise CelError("division by zero")
    return one - other * _quotient(one, other)


def _divided(one: float, other: float) -> float:
    if other:
        return one / other
    if not one or math.isnan(one):
        return math.nan
    return math.copysign(math.inf, one) * math.copysign(1, other)


def _joined(one: Any, other: Any, work: Budget) -> Any:
    """Two texts."""
    work.write(len(one) + len(other), wide=not (one.isascii() and other.isascii()))
    return one + other


def _appended(one: list[Any], other: list[Any], work: Budget) -> list[Any]:
    work.entries(len(one) + len(other))
    return one + other


_Operation = Callable[[Any, Any, Budget], Any]
_OPERATIONS: Mapping[str, Mapping[tuple[type, type], _Operation]] = {
    "+": {
        (int, int): lambda one, other, work: check_int(one + other),
        (Uint, Uint): lambda one, other, work: check_uint(int(one) + int(other)),
        (float, float): lambda one, other, work: one + other,
        (str, str): _joined,
        (bytes, bytes): _joined,
        (list, list): _appended,
        (datetime, timedelta): lambda one, other, work: check_time(lambda: one + other),
        (timedelta, datetime): lambda one, other, work: check_time(lambda: one + other),
        (timedelta, timedelta): lambda one, other, work: check_time(lambda: one + other),
    },
    "-": {
        (int, int): lambda one, other, work: check_int(one - other),
        (Uint, Uint): lambda one, other, work: check_uint(int(one) - int(other)),
        (float, float): lambda one, other, work: one - other,
        (datetime, datetime): lambda one, other, work: one - other,
        (datetime, timedelta): lambda one, other, work: check_time(lambda: one - other),
        (timedelta, timedelta): lambda one, other, work: check_time(lambda: one - other),
    },
    "*": {
        (int, int): lambda one, other, work: check_int(one * other),
        (Uint, Uint): lambda one, other, work: check_uint(int(one) * int(other)),
        (float, float): lambda one, other, work: one * other,
    },
    "/": {
        (int, int): lambda one, other, work: check_int(_quotient(one, other)),
        (Uint, Uint): lambda one, other, work: check_uint(_quotient(int(one), int(other))),
        (float, float): lambda one, other, work: _divided(one, other),
    },
    "%": {
        (int, int): lambda one, other, work: _rest(one, other),
        (Uint, Uint): lambda one, other, work: check_uint(_rest(int(one), int(other))),
    },
}
