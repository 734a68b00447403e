"""The values of CEL: types, comparison, arithmetic and conversion from JSON.

JSON values are used as they are. A whole number that 64 bits with a sign do not hold becomes an
unsigned number or a double (`normalize_number`). A value is copied or compared only after its cost
is taken from the budget.
"""

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from jobflow.api.nesting import MAX_DEPTH
from jobflow.core.cel.budget import Budget, CelError
from jobflow.core.cel.language.tree import Uint

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
"""Types by name, as in `type(x) == int`."""
NUMBERS = frozenset({int, Uint, float})


def type_of(value: Any) -> TypeOf:
    kind = _KINDS.get(type(value))
    return TypeOf(kind[0] if kind is not None else "unknown")


def describe_type(value: Any) -> str:
    """Return the type of a value for a message: `a whole number`."""
    kind = _KINDS.get(type(value))
    return kind[1] if kind is not None else f"a {type(value).__name__}"


def make_type_error(name: str, *given: Any) -> CelError:
    """Return the error of an operator or function that does not take values of these types."""
    kinds = [describe_type(value) for value in given]
    words = " and ".join([", ".join(kinds[:-1]), kinds[-1]] if len(kinds) > 1 else kinds)
    hint = ""
    if len(given) == 2 and {type(value) for value in given} == {int, float}:
        hint = "; write double(…) around the whole number"
    return CelError(f"{name} does not take {words or 'nothing'}{hint}")


def normalize_number(value: int) -> int | float:
    """Return a whole number of JSON as an int, Uint or float."""
    if MIN_INT <= value <= MAX_INT:
        return value
    if 0 <= value <= _UNSIGNED:
        return Uint(value)
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def get_entry(value: Any, key: Any) -> Any:
    """Return the entry of a map or a list. Raises CelError."""
    kind = value.__class__
    if kind is dict:
        try:
            found = value[to_key(key)]
        except KeyError:
            raise CelError(f"there is no {format_key(key)}", missing=True) from None
    elif kind is list:
        if type(key) not in NUMBERS or (type(key) is float and not key.is_integer()):
            raise CelError(f"a list has no {format_key(key)}; it takes an index from 0")
        if not 0 <= key < len(value):
            raise CelError(f"index out of bounds: {key}", missing=True)
        found = value[int(key)]
    else:
        raise CelError(f"{describe_type(value)} has no entries, so there is no {format_key(key)}")
    if found.__class__ is not int or MIN_INT <= found <= MAX_INT:
        return found
    return normalize_number(found)


def format_key(key: Any) -> str:
    """Return a key for a message. Lists and maps are not written out, which nothing would bound."""
    if key.__class__ is str:
        return repr(key if len(key) < 100 else key[:99] + "…")
    return str(key) if type(key) in NUMBERS else describe_type(key)


def to_key(value: Any) -> Any:
    """Return a value as a key of a dict, in which booleans are wrapped: for Python, true is 1."""
    # for Python, the keys true and 1 are the same
    if value.__class__ is bool:
        return (value,)
    if type(value) not in (str, int, Uint, float):
        raise CelError(f"{describe_type(value)} cannot be a key of a map")
    return value


def iterate_keys(value: dict[Any, Any]) -> Iterator[Any]:
    """Yield the keys of a map as values: the inverse of `to_key`."""
    return (key[0] if key.__class__ is tuple else key for key in value)


def is_equal(one: Any, other: Any, budget: Budget, depth: int = 1) -> bool:
    """Return whether two values are equal. Only numbers may be equal to another type."""
    kind = one.__class__
    # a number may equal one of another type, nothing else may
    if kind is not other.__class__:
        return kind in NUMBERS and other.__class__ in NUMBERS and one == other
    if kind is str or kind is bytes:
        if len(one) != len(other):
            return False  # which costs nothing, so the budget is not asked
        budget.read(one)
        return bool(one == other)
    if kind is not list and kind is not dict:
        return bool(one == other)
    if len(one) != len(other):
        return False
    # Python's own comparison would recurse without a limit
    if depth >= MAX_DEPTH:
        raise make_depth_error()
    budget.spend(3 + 3 * len(one))
    if kind is list:
        return all(is_equal(a, b, budget, depth + 1) for a, b in zip(one, other, strict=True))
    for key, entry in one.items():
        if key.__class__ is str:
            budget.read(key)
        if key not in other or not is_equal(entry, other[key], budget, depth + 1):
            return False
    return True


def make_depth_error() -> CelError:
    return CelError(f"it looks at a value that is nested deeper than {MAX_DEPTH}")


def is_in(entry: Any, within: Any, budget: Budget) -> bool:
    """Return `entry in within`: an entry of a list, or a key of a map."""
    if within.__class__ is dict:
        if entry.__class__ is str:
            budget.read(entry)
        return to_key(entry) in within
    if within.__class__ is not list:
        raise make_type_error("in", entry, within)
    budget.spend(1 + 2 * len(within))
    return any(is_equal(entry, each, budget) for each in within)


_ORDERED = frozenset({str, bytes, bool, datetime, timedelta})


def compare(sign: str, one: Any, other: Any, budget: Budget) -> bool:
    """Return `one < other`; `sign` is any of the four order operators."""
    if type(one) in NUMBERS and type(other) in NUMBERS:
        return bool(_ORDERS[sign](one, other))
    if type(one) is not type(other) or type(one) not in _ORDERED:
        raise make_type_error(sign, one, other)
    if isinstance(one, str | bytes):
        budget.read(one if len(one) < len(other) else other)
    return bool(_ORDERS[sign](one, other))


_ORDERS: Mapping[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def calculate(sign: str, one: Any, other: Any, budget: Budget) -> Any:
    """Return `one + other`; `sign` is any arithmetic operator. Raises CelError."""
    operation = _OPERATIONS[sign].get((type(one), type(other)))
    if operation is None:
        raise make_type_error(sign, one, other)
    return operation(one, other, budget)


def negate(value: Any) -> Any:
    if type(value) is float:
        return -value
    if type(value) is not int:
        raise make_type_error("-", value)
    return check_int(-value)


def invert(value: Any) -> bool:
    if value.__class__ is not bool:
        raise make_type_error("!", value)
    return not value


SIGNS: Mapping[str, Callable[[Any], Any]] = {"-": negate, "!": invert}


def check_int(value: int) -> int:
    """Return a number that 64 bits hold. Raises CelError."""
    if MIN_INT <= value <= MAX_INT:
        return value
    raise CelError(f"an integer of more than 64 bits: {value}")


def check_uint(value: int) -> Uint:
    """Return a number that 64 bits hold without a sign. Raises CelError."""
    if 0 <= value <= _UNSIGNED:
        return Uint(value)
    raise CelError(f"an unsigned integer is from 0 to {_UNSIGNED}")


def check_time(compute: Callable[[], Any]) -> Any:
    """Return a computed timestamp or duration. Raises CelError if it is out of range."""
    try:
        return compute()
    except OverflowError:
        raise CelError("a timestamp or duration that is out of range") from None


def divide_ints(one: int, other: int) -> int:
    """Return the quotient, rounded towards 0."""
    if not other:
        raise CelError("division by zero")
    found = abs(one) // abs(other)
    return found if (one < 0) == (other < 0) else -found


def _divide_floats(one: float, other: float) -> float:
    if other:
        return one / other
    if not one or math.isnan(one):
        return math.nan
    return math.copysign(math.inf, one) * math.copysign(1, other)


def _join(one: Any, other: Any, budget: Budget) -> Any:
    if one.__class__ is list:
        budget.add_list(len(one) + len(other))
    else:
        budget.add_text(len(one) + len(other), wide=not (one.isascii() and other.isascii()))
    return one + other


_Operation = Callable[[Any, Any, Budget], Any]


def _plain(compute: Callable[[Any, Any], Any]) -> _Operation:
    return lambda one, other, budget: compute(one, other)


def _times(compute: Callable[[Any, Any], Any]) -> _Operation:
    return lambda one, other, budget: check_time(lambda: compute(one, other))


def _integers(compute: Callable[[Any, Any], Any]) -> dict[tuple[type, type], _Operation]:
    return {
        (int, int): lambda one, other, budget: check_int(compute(one, other)),
        (Uint, Uint): lambda one, other, budget: check_uint(compute(int(one), int(other))),
    }


_OPERATIONS: Mapping[str, Mapping[tuple[type, type], _Operation]] = {
    "+": {
        **_integers(operator.add),
        (float, float): _plain(operator.add),
        **{(kind, kind): _join for kind in (str, bytes, list)},
        (datetime, timedelta): _times(operator.add),
        (timedelta, datetime): _times(operator.add),
        (timedelta, timedelta): _times(operator.add),
    },
    "-": {
        **_integers(operator.sub),
        (float, float): _plain(operator.sub),
        (datetime, datetime): _plain(operator.sub),
        (datetime, timedelta): _times(operator.sub),
        (timedelta, timedelta): _times(operator.sub),
    },
    "*": _integers(operator.mul) | {(float, float): _plain(operator.mul)},
    "/": _integers(divide_ints) | {(float, float): _plain(_divide_floats)},
    "%": _integers(lambda one, other: one - other * divide_ints(one, other)),
}

OPERATORS: Mapping[str, Callable[[str, Any, Any, Budget], Any]] = {
    "==": lambda sign, one, other, budget: is_equal(one, other, budget),
    "!=": lambda sign, one, other, budget: not is_equal(one, other, budget),
    "in": lambda sign, one, other, budget: is_in(one, other, budget),
    **dict.fromkeys(_ORDERS, compare),
    **dict.fromkeys(_OPERATIONS, calculate),
}
"""Operators of two operands, except && and ||, which do not always need both."""
