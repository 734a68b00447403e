"""The functions that an expression may call: one row for each type of argument, with its cost.

`cost` takes from the budget before `run` makes anything. A new function is a new row.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from jobflow.core.cel.language.budget import Budget, CelError
from jobflow.core.cel.language.syntax import Uint
from jobflow.core.cel.language.times import (
    duration_of,
    duration_text,
    milliseconds,
    seconds,
    timestamp_of,
    timestamp_text,
)
from jobflow.core.cel.language.values import (
    NUMBERS,
    check_int,
    check_uint,
    make_type_error,
    normalize_number,
    type_of,
)

_NUMERAL = re.compile(r"[-+]?[0-9]{1,20}")
_DECIMAL = re.compile(
    r"[-+]?(?:[0-9]{1,400}\.?[0-9]{0,400}|\.[0-9]{1,400})(?:[eE][-+]?[0-9]{1,4})?"
)
_ALIKE = 128
"""Python's search is linear if the text that it searches for has more characters than this."""


class Row(NamedTuple):
    """A function for arguments of these types."""

    takes: tuple[type, ...]
    """`object` for any."""
    run: Callable[..., Any]
    cost: Callable[..., None] = lambda work, *given: work.spend(1)
    """Called with the budget and the arguments."""


def call(name: str, given: Sequence[Any], of: bool, work: Budget) -> Any:
    """Call a function; `of`: on the first argument. Raises CelError and TooMuchError."""
    rows = (_METHODS if of else _GLOBALS).get(name)
    if rows is None:
        raise _no_function(name, of)
    row = rows.get(tuple([each.__class__ for each in given])) or rows.get((object,) * len(given))
    if row is None:
        raise make_type_error(name, *given)
    row.cost(work, *given)
    return row.run(*given)


def _no_function(name: str, of: bool) -> CelError:
    if name not in FUNCTIONS:
        return CelError(f"there is no variable or function {name}")
    call = f"{name}(x)" if of else f"x.{name}(…)"
    return CelError(f"{name} is called as {call}")


# ---------------------------------------------------------------------------- costs


def _reads(work: Budget, text: str | bytes) -> None:
    work.read(text)


def _copies(work: Budget, text: str | bytes) -> None:
    work.write(len(text), wide=True)


def _compares(work: Budget, text: str, part: str) -> None:
    work.read(part)


def _looks_for(work: Budget, text: str, part: str) -> None:
    """Python compares at each character; it is linear if what it looks for is long."""
    work.read(text)
    work.spend(len(text) * min(len(part), _ALIKE) // 500)


def _goes_over(work: Budget, entries: list[Any]) -> None:
    work.spend(1 + 2 * len(entries))
    work.spend(sum([len(each) for each in entries if each.__class__ is str]) // 64)


def _goes_along(work: Budget, entries: list[Any], path: str) -> None:
    """A step for each key of each entry, and for the entry itself; texts are compared."""
    work.read(path)
    keys = path.split(".")
    work.spend((3 + 2 * len(keys)) * (1 + len(entries)))
    ranks = [_along(each, keys) for each in entries]
    work.spend(sum([len(each) for each in ranks if each.__class__ is str]) // 64)


# ----------------------------------------------------------------------- conversions


def _int_of(value: float) -> int:
    if not -(2.0**63) < value < 2.0**63:
        raise CelError(f"int takes a number of 64 bits, not {value}")
    return int(value)


def _uint_of(value: float) -> Uint:
    if not 0 <= value < 2.0**64:
        raise CelError(f"uint takes a number from 0 to 2^64, not {value}")
    return check_uint(int(value))


def _whole(text: str) -> int:
    if not _NUMERAL.fullmatch(text):
        raise CelError(f"{_cut(text)} is not a whole number")
    return int(text)


def _double(text: str) -> float:
    if not _DECIMAL.fullmatch(text):
        raise CelError(f"{_cut(text)} is not a number")
    return float(text)


def _decoded(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise CelError("string takes bytes that are UTF-8") from None


def _encoded(value: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise CelError("bytes takes a text without halves of surrogate pairs") from None


def _written(value: float) -> str:
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return str(int(value)) if value.is_integer() and abs(value) < 1e16 else repr(value)


def _cut(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:39] + "…")


# --------------------------------------------------------------------- of a whole list


def _added(entries: list[Any]) -> Any:
    """`[].sum()` is 0."""
    if not all(type(each) in NUMBERS for each in entries):
        raise CelError("sum adds up a list of numbers")
    total = sum([normalize_number(each) if each.__class__ is int else each for each in entries])
    return total if isinstance(total, float) else check_int(total)


def _best_of(name: str, best: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    def found(entries: list[Any]) -> Any:
        if not entries:
            raise CelError(f"an empty list has no {name}", missing=True)
        _check_comparable(name, entries)
        value = best(entries)
        return normalize_number(value) if value.__class__ is int else value

    return found


def _best_by(name: str, best: Callable[..., Any]) -> Callable[[list[Any], str], Any]:
    """Return the first entry with the largest or smallest value under a path. Entries without the
    path are skipped, such as items that failed and have no outputs."""

    def found(entries: list[Any], path: str) -> Any:
        keys = path.split(".")
        ranked = [(rank, each) for each in entries if (rank := _along(each, keys)) is not None]
        if not ranked:
            raise CelError(f"no entry of the list has {_cut(path)}", missing=True)
        _check_comparable(name, [rank for rank, _ in ranked])
        return best(ranked, key=lambda each: each[0])[1]

    return found


def _along(value: Any, keys: Sequence[str]) -> Any:
    for key in keys:
        if value.__class__ is not dict:
            return None
        value = value.get(key)
    return None if value != value else value  # NaN is neither more nor less


def _check_comparable(name: str, values: Sequence[Any]) -> None:
    if not all(type(each) in NUMBERS for each in values):
        if not all(each.__class__ is str for each in values):
            raise CelError(f"{name} compares a list of numbers or a list of texts")


# ---------------------------------------------------------------------------- the table


def _getters() -> Mapping[str, tuple[Row, ...]]:
    """Return the getters: parts of a timestamp in UTC, and totals of a duration."""
    of_times: Mapping[str, Callable[[datetime], int]] = {
        "getFullYear": lambda time: time.year,
        "getMonth": lambda time: time.month - 1,
        "getDate": lambda time: time.day,
        "getDayOfMonth": lambda time: time.day - 1,
        "getDayOfWeek": lambda time: time.isoweekday() % 7,
        "getDayOfYear": lambda time: time.timetuple().tm_yday - 1,
        "getHours": lambda time: time.hour,
        "getMinutes": lambda time: time.minute,
        "getSeconds": lambda time: time.second,
        "getMilliseconds": lambda time: time.microsecond // 1000,
    }
    of_durations: Mapping[str, Callable[[timedelta], int]] = {
        "getHours": lambda duration: seconds(duration, 3600),
        "getMinutes": lambda duration: seconds(duration, 60),
        "getSeconds": seconds,
        "getMilliseconds": milliseconds,
    }
    rows = {name: (Row((datetime,), run),) for name, run in of_times.items()}
    return rows | {
        name: (*rows[name], Row((timedelta,), run)) for name, run in of_durations.items()
    }


_SIZE = tuple(Row((kind,), len) for kind in (str, bytes, list, dict))

GLOBALS: Mapping[str, tuple[Row, ...]] = {
    "size": _SIZE,
    "dyn": (Row((object,), lambda value: value),),
    "type": (Row((object,), type_of),),
    "int": (
        Row((bool,), int),
        Row((int,), int),
        Row((Uint,), lambda value: check_int(int(value))),
        Row((float,), _int_of),
        Row((str,), lambda text: check_int(_whole(text)), _reads),
        Row((datetime,), lambda time: int(time.timestamp() // 1)),
    ),
    "uint": (
        Row((int,), check_uint),
        Row((Uint,), Uint),
        Row((float,), _uint_of),
        Row((str,), lambda text: check_uint(_whole(text)), _reads),
    ),
    "double": (
        Row((int,), float),
        Row((Uint,), float),
        Row((float,), float),
        Row((str,), _double, _reads),
    ),
    "string": (
        Row((str,), str),
        Row((bool,), lambda value: "true" if value else "false"),
        Row((int,), str),
        Row((Uint,), lambda value: str(int(value))),
        Row((float,), _written),
        Row((bytes,), _decoded, _copies),
        Row((datetime,), timestamp_text),
        Row((timedelta,), duration_text),
    ),
    "bytes": (Row((bytes,), bytes), Row((str,), _encoded, _copies)),
    "timestamp": (
        Row((datetime,), lambda time: time),
        Row((str,), timestamp_of, _reads),
        Row((int,), timestamp_of),
    ),
    "duration": (Row((timedelta,), lambda value: value), Row((str,), duration_of, _reads)),
}
"""Functions by name: `size(x)`."""

METHODS: Mapping[str, tuple[Row, ...]] = {
    "size": _SIZE,
    "contains": (Row((str, str), lambda text, part: part in text, _looks_for),),
    "startsWith": (Row((str, str), str.startswith, _compares),),
    "endsWith": (Row((str, str), str.endswith, _compares),),
    "min": (Row((list,), _best_of("min", min), _goes_over),),
    "max": (Row((list,), _best_of("max", max), _goes_over),),
    "sum": (Row((list,), _added, _goes_over),),
    "minBy": (Row((list, str), _best_by("minBy", min), _goes_along),),
    "maxBy": (Row((list, str), _best_by("maxBy", max), _goes_along),),
    **_getters(),
}
"""Functions that are called on something: `x.size()`."""

_GLOBALS, _METHODS = (
    {name: {row.takes: row for row in rows} for name, rows in table.items()}
    for table in (GLOBALS, METHODS)
)

LOOPS: Mapping[str, tuple[int, ...]] = {
    "all": (2,),
    "exists": (2,),
    "exists_one": (2,),
    "existsOne": (2,),
    "filter": (2,),
    "map": (2, 3),
}
"""Macros that go over a list or a map and bind a name, with how many arguments they have."""

FUNCTIONS = frozenset({"has", "matches", *GLOBALS, *METHODS, *LOOPS})
"""All that may be called."""
