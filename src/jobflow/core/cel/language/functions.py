"""The functions of CEL: a table with one row, an overload, for each type of arguments.

An overload takes its cost from the budget before it runs. To add a function, add its overloads to
GLOBALS (`size(x)`) or METHODS (`x.size()`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from jobflow.core.cel.language.budget import Budget, CelError
from jobflow.core.cel.language.macros import MACROS
from jobflow.core.cel.language.tree import Uint
from jobflow.core.cel.language.values import (
    NUMBERS,
    check_int,
    check_time,
    check_uint,
    divide_ints,
    make_type_error,
    normalize_number,
    type_of,
)

_NUMERAL = re.compile(r"[-+]?[0-9]{1,20}")
_DECIMAL = re.compile(
    r"[-+]?(?:[0-9]{1,400}\.?[0-9]{0,400}|\.[0-9]{1,400})(?:[eE][-+]?[0-9]{1,4})?"
)
_LONG_SEARCH = 128
"""Characters of a text above which Python's search for it is linear."""


class Overload(NamedTuple):
    """A function for arguments of some types."""

    run: Callable[..., Any]
    cost: Callable[..., None] = lambda budget, *arguments: budget.spend(1)
    """Takes the budget and the arguments."""


Overloads = Mapping[tuple[type, ...], Overload]
"""By the types of the arguments; `object` is any type."""


def call_function(name: str, arguments: Sequence[Any], is_method: bool, budget: Budget) -> Any:
    """Call a function, or a method of the first argument. Raises CelError, BudgetExceededError."""
    overloads = (METHODS if is_method else GLOBALS).get(name)
    if overloads is None and name in FUNCTIONS:
        call = f"{name}(x)" if is_method else f"x.{name}(…)"
        raise CelError(f"{name} is called as {call}")
    if overloads is None:
        raise CelError(f"there is no variable or function {name}")
    types = tuple([each.__class__ for each in arguments])
    overload = overloads.get(types) or overloads.get((object,) * len(types))
    if overload is None:
        raise make_type_error(name, *arguments)
    overload.cost(budget, *arguments)
    return overload.run(*arguments)


# ---------------------------------------------------------------------------- costs


def _cost_of_copy(budget: Budget, text: str | bytes) -> None:
    budget.add_text(len(text), wide=True)


def _cost_of_prefix(budget: Budget, text: str, part: str) -> None:
    budget.read(part)


def _cost_of_search(budget: Budget, text: str, part: str) -> None:
    budget.read(text)
    budget.spend(len(text) * min(len(part), _LONG_SEARCH) // 500)


def _cost_of_list(budget: Budget, entries: list[Any]) -> None:
    budget.spend(1 + 2 * len(entries))
    budget.spend(sum([len(each) for each in entries if each.__class__ is str]) // 64)


def _cost_of_path(budget: Budget, entries: list[Any], path: str) -> None:
    """Take steps for each entry and each key, and for the texts under the path."""
    budget.read(path)
    keys = path.split(".")
    budget.spend((3 + 2 * len(keys)) * (1 + len(entries)))
    ranks = [_follow(each, keys) for each in entries]
    budget.spend(sum([len(each) for each in ranks if each.__class__ is str]) // 64)


# ----------------------------------------------------------------------- conversions


def _float_to_int(value: float) -> int:
    if not -(2.0**63) < value < 2.0**63:
        raise CelError(f"int takes a number of 64 bits, not {value}")
    return int(value)


def _float_to_uint(value: float) -> Uint:
    if not 0 <= value < 2.0**64:
        raise CelError(f"uint takes a number from 0 to 2^64, not {value}")
    return check_uint(int(value))


def _text_to_int(text: str) -> int:
    if not _NUMERAL.fullmatch(text):
        raise CelError(f"{_quote(text)} is not a whole number")
    return int(text)


def _text_to_float(text: str) -> float:
    if not _DECIMAL.fullmatch(text):
        raise CelError(f"{_quote(text)} is not a number")
    return float(text)


def _bytes_to_text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise CelError("string takes bytes that are UTF-8") from None


def _text_to_bytes(value: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise CelError("bytes takes a text without halves of surrogate pairs") from None


def _float_to_text(value: float) -> str:
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return str(int(value)) if value.is_integer() and abs(value) < 1e16 else repr(value)


def _quote(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:39] + "…")


# --------------------------------------------------------------------------- lists


def _sum(entries: list[Any]) -> Any:
    if not all(type(each) in NUMBERS for each in entries):
        raise CelError("sum adds up a list of numbers")
    total = sum([normalize_number(each) if each.__class__ is int else each for each in entries])
    return total if isinstance(total, float) else check_int(total)


def _find_best(name: str, best: Callable[..., Any], entries: list[Any]) -> Any:
    if not entries:
        raise CelError(f"an empty list has no {name}", missing=True)
    _check_comparable(name, entries)
    value = best(entries)
    return normalize_number(value) if value.__class__ is int else value


def _find_best_by(name: str, best: Callable[..., Any], entries: list[Any], path: str) -> Any:
    """Return the first entry with the largest or smallest value under a path. Entries without the
    path are ignored, such as items that failed and have no outputs."""
    keys = path.split(".")
    ranked = [(rank, each) for each in entries if (rank := _follow(each, keys)) is not None]
    if not ranked:
        raise CelError(f"no entry of the list has {_quote(path)}", missing=True)
    _check_comparable(name, [rank for rank, _ in ranked])
    return best(ranked, key=lambda each: each[0])[1]


def _follow(value: Any, keys: Sequence[str]) -> Any:
    for key in keys:
        if value.__class__ is not dict:
            return None
        value = value.get(key)
    return None if value != value else value  # NaN cannot be ranked


def _check_comparable(name: str, values: Sequence[Any]) -> None:
    if not all(type(each) in NUMBERS for each in values):
        if not all(each.__class__ is str for each in values):
            raise CelError(f"{name} compares a list of numbers or a list of texts")


# ---------------------------------------------------------------------------- times

_LONGEST = 64
"""Characters of a text that may be a time."""
_TIMESTAMP = re.compile(
    r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[-+]\d\d:\d\d)", re.ASCII
)
_DURATION = re.compile(r"[-+]?(?:0|(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|ms|s|m|h))+)", re.ASCII)
_PART = re.compile(r"([\d.]+)(ns|us|µs|ms|s|m|h)", re.ASCII)
_MICROSECONDS = {
    "ns": 0.001,
    "us": 1,
    "µs": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def _read_timestamp(given: str | int) -> datetime:
    """Return the time of a text of RFC 3339, or of seconds since 1970. Raises CelError."""
    if isinstance(given, int):
        time: datetime = check_time(lambda: _EPOCH + timedelta(seconds=given))
        return time
    try:
        if len(given) > _LONGEST or not _TIMESTAMP.fullmatch(given):
            raise ValueError
        return datetime.fromisoformat(given.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        why = f"timestamp takes a time such as 2026-01-01T00:00:00Z{_contrast(given)}"
        raise CelError(why) from None


def _read_duration(text: str) -> timedelta:
    """Return the duration of a text such as 1h30m. Raises CelError."""
    if len(text) > _LONGEST or not _DURATION.fullmatch(text):
        raise CelError(f"duration takes a text such as 1h30m or 90s{_contrast(text)}")
    parts = _PART.findall(text)
    microseconds = sum([float(count) * _MICROSECONDS[unit] for count, unit in parts])
    found: timedelta = check_time(lambda: timedelta(microseconds=microseconds))
    return -found if text.startswith("-") else found


def _format_timestamp(time: datetime) -> str:
    """Return a time as a text of RFC 3339."""
    return f"{time.isoformat()[:19]}{_decimals(time.microsecond)}Z"


def _format_duration(duration: timedelta) -> str:
    """Return a duration in seconds: 90s, 1.500s."""
    seconds, microseconds = divmod(abs(duration) // _MICROSECOND, 1_000_000)
    return f"{'-' if duration < timedelta() else ''}{seconds}{_decimals(microseconds)}s"


def _decimals(microseconds: int) -> str:
    return f".{microseconds:06}".removesuffix("000") if microseconds else ""


def _count_seconds(duration: timedelta, unit: int = 1) -> int:
    """Return whole units of so many seconds, rounded towards 0."""
    return divide_ints(duration // _MICROSECOND, unit * 1_000_000)


def _count_milliseconds(duration: timedelta) -> int:
    """Return the milliseconds beyond whole seconds."""
    return divide_ints(duration // _MICROSECOND, 1000) - 1000 * _count_seconds(duration)


def _contrast(text: str) -> str:
    return f", not {text!r}" if len(text) <= _LONGEST else ""


# --------------------------------------------------------------------------- tables


_SIZE: Overloads = {(kind,): Overload(len) for kind in (str, bytes, list, dict)}

GLOBALS: Mapping[str, Overloads] = {
    "size": _SIZE,
    "dyn": {(object,): Overload(lambda value: value)},
    "type": {(object,): Overload(type_of)},
    "int": {
        (bool,): Overload(int),
        (int,): Overload(int),
        (Uint,): Overload(lambda value: check_int(int(value))),
        (float,): Overload(_float_to_int),
        (str,): Overload(lambda text: check_int(_text_to_int(text)), Budget.read),
        (datetime,): Overload(lambda time: int(time.timestamp() // 1)),
    },
    "uint": {
        (int,): Overload(check_uint),
        (Uint,): Overload(Uint),
        (float,): Overload(_float_to_uint),
        (str,): Overload(lambda text: check_uint(_text_to_int(text)), Budget.read),
    },
    "double": {
        (int,): Overload(float),
        (Uint,): Overload(float),
        (float,): Overload(float),
        (str,): Overload(_text_to_float, Budget.read),
    },
    "string": {
        (str,): Overload(str),
        (bool,): Overload(lambda value: "true" if value else "false"),
        (int,): Overload(str),
        (Uint,): Overload(lambda value: str(int(value))),
        (float,): Overload(_float_to_text),
        (bytes,): Overload(_bytes_to_text, _cost_of_copy),
        (datetime,): Overload(_format_timestamp),
        (timedelta,): Overload(_format_duration),
    },
    "bytes": {(bytes,): Overload(bytes), (str,): Overload(_text_to_bytes, _cost_of_copy)},
    "timestamp": {
        (datetime,): Overload(lambda time: time),
        (str,): Overload(_read_timestamp, Budget.read),
        (int,): Overload(_read_timestamp),
    },
    "duration": {
        (timedelta,): Overload(lambda value: value),
        (str,): Overload(_read_duration, Budget.read),
    },
}
"""Functions by name and types, as in `size(x)`."""

METHODS: Mapping[str, Overloads] = {
    "size": _SIZE,
    "contains": {(str, str): Overload(lambda text, part: part in text, _cost_of_search)},
    "startsWith": {(str, str): Overload(str.startswith, _cost_of_prefix)},
    "endsWith": {(str, str): Overload(str.endswith, _cost_of_prefix)},
    "min": {(list,): Overload(partial(_find_best, "min", min), _cost_of_list)},
    "max": {(list,): Overload(partial(_find_best, "max", max), _cost_of_list)},
    "sum": {(list,): Overload(_sum, _cost_of_list)},
    "minBy": {(list, str): Overload(partial(_find_best_by, "minBy", min), _cost_of_path)},
    "maxBy": {(list, str): Overload(partial(_find_best_by, "maxBy", max), _cost_of_path)},
    # parts of a timestamp in UTC, and totals of a duration
    "getFullYear": {(datetime,): Overload(lambda time: time.year)},
    "getMonth": {(datetime,): Overload(lambda time: time.month - 1)},
    "getDate": {(datetime,): Overload(lambda time: time.day)},
    "getDayOfMonth": {(datetime,): Overload(lambda time: time.day - 1)},
    "getDayOfWeek": {(datetime,): Overload(lambda time: time.isoweekday() % 7)},
    "getDayOfYear": {(datetime,): Overload(lambda time: time.timetuple().tm_yday - 1)},
    "getHours": {
        (datetime,): Overload(lambda time: time.hour),
        (timedelta,): Overload(lambda duration: _count_seconds(duration, 3600)),
    },
    "getMinutes": {
        (datetime,): Overload(lambda time: time.minute),
        (timedelta,): Overload(lambda duration: _count_seconds(duration, 60)),
    },
    "getSeconds": {
        (datetime,): Overload(lambda time: time.second),
        (timedelta,): Overload(_count_seconds),
    },
    "getMilliseconds": {
        (datetime,): Overload(lambda time: time.microsecond // 1000),
        (timedelta,): Overload(_count_milliseconds),
    },
}
"""Functions that are called on a value, as in `x.size()`."""

FUNCTIONS = frozenset({"has", "matches", *GLOBALS, *METHODS, *MACROS})
"""The names that an expression may call."""
