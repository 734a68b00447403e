"""The functions of CEL: a table with one row, an overload, for each type of arguments.

An overload takes its cost from the budget before it makes anything. To add a function, add its
overloads to GLOBALS (`size(x)`) or METHODS (`x.size()`).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from jobflow.core.cel.budget import Budget, CelError
from jobflow.core.cel.language import lists, texts
from jobflow.core.cel.language.macros import MACROS
from jobflow.core.cel.language.tree import Uint
from jobflow.core.cel.language.values import check_int, check_uint, make_type_error, type_of

_NUMERAL = re.compile(r"[-+]?[0-9]{1,20}")
_DECIMAL = re.compile(
    r"[-+]?(?:[0-9]{1,400}\.?[0-9]{0,400}|\.[0-9]{1,400})(?:[eE][-+]?[0-9]{1,4})?"
)
_BOOLS = {
    **dict.fromkeys(("1", "t", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "false", "FALSE", "False"), False),
}
"""Texts that `bool` reads."""


class Overload(NamedTuple):
    """A function for arguments of some types."""

    run: Callable[..., Any]
    cost: Callable[..., None] = lambda budget, *arguments: budget.spend(1)
    """Takes the budget and the arguments."""
    pays: bool = False
    """Whether `run` takes its cost from the budget: the arguments alone do not show it."""


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
    # a list, because a generator takes twice the time
    types = tuple([each.__class__ for each in arguments])
    overload = overloads.get(types) or overloads.get((object,) * len(types))
    if overload is None:
        raise make_type_error(name, *arguments)
    # the arguments alone do not show what it costs
    if overload.pays:
        return overload.run(budget, *arguments)
    overload.cost(budget, *arguments)
    return overload.run(*arguments)


def _cost_of_copy(budget: Budget, text: str | bytes) -> None:
    budget.add_text(len(text), wide=True)


def _cost_of_prefix(budget: Budget, text: str, part: str) -> None:
    budget.read(part)


def _float_to_int(value: float) -> int:
    if not -(2.0**63) < value < 2.0**63:
        raise CelError(f"int takes a number of 64 bits, not {value}")
    return int(value)


def _float_to_uint(value: float) -> Uint:
    if not 0 <= value < 2.0**64:
        raise CelError(f"uint takes a number from 0 to 2^64, not {value}")
    return check_uint(int(value))


def _read_number(pattern: re.Pattern[str], words: str, text: str) -> str:
    if not pattern.fullmatch(text):
        raise CelError(f"{_quote(text)} is not {words}")
    return text


_read_numeral = partial(_read_number, _NUMERAL, "a whole number")
_read_decimal = partial(_read_number, _DECIMAL, "a number")


def _recode(convert: Callable[[Any], Any], fault: str, value: str | bytes) -> str | bytes:
    try:
        recoded: str | bytes = convert(value)
    except UnicodeError:
        raise CelError(fault) from None
    return recoded


_to_text = partial(_recode, bytes.decode, "string takes bytes that are UTF-8")
_to_bytes = partial(_recode, str.encode, "bytes takes a text without halves of surrogate pairs")


def _text_to_bool(text: str) -> bool:
    if text not in _BOOLS:
        raise CelError(f"{_quote(text)} is neither true nor false")
    return _BOOLS[text]


def _quote(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:39] + "…")


def _paying(run: Callable[..., Any]) -> Overload:
    return Overload(run, pays=True)


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
        (str,): Overload(lambda text: check_int(int(_read_numeral(text))), Budget.read),
        (datetime,): Overload(lambda time: int(time.timestamp() // 1)),
    },
    "uint": {
        (int,): Overload(check_uint),
        (Uint,): Overload(Uint),
        (float,): Overload(_float_to_uint),
        (str,): Overload(lambda text: check_uint(int(_read_numeral(text))), Budget.read),
    },
    "double": {
        (int,): Overload(float),
        (Uint,): Overload(float),
        (float,): Overload(float),
        (str,): Overload(lambda text: float(_read_decimal(text)), Budget.read),
    },
    "string": {
        (str,): Overload(str),
        (bool,): Overload(lambda value: "true" if value else "false"),
        (int,): Overload(str),
        (Uint,): Overload(lambda value: str(int(value))),
        (float,): Overload(texts.float_to_text),
        (bytes,): Overload(_to_text, _cost_of_copy),
        (datetime,): Overload(texts.format_timestamp),
        (timedelta,): Overload(texts.format_duration),
    },
    "bool": {(bool,): Overload(bool), (str,): Overload(_text_to_bool, Budget.read)},
    "bytes": {(bytes,): Overload(bytes), (str,): Overload(_to_bytes, _cost_of_copy)},
    "timestamp": {
        (datetime,): Overload(lambda time: time),
        (str,): Overload(texts.read_timestamp, Budget.read),
        (int,): Overload(texts.read_timestamp),
    },
    "duration": {
        (timedelta,): Overload(lambda value: value),
        (str,): Overload(texts.read_duration, Budget.read),
    },
    "get": {(object, object, object): _paying(lists.get_or_default)},
    "range": {(int,): _paying(lists.make_range), (Uint,): _paying(lists.make_range)},
    "product": {(list, list): _paying(lists.make_pairs)},
    "json": {(str,): _paying(texts.parse_json)},
}
"""Functions by name and types, as in `size(x)`."""

METHODS: Mapping[str, Overloads] = {
    "size": _SIZE,
    "contains": {(str, str): Overload(lambda text, part: part in text, texts.cost_of_search)},
    "startsWith": {(str, str): Overload(str.startswith, _cost_of_prefix)},
    "endsWith": {(str, str): Overload(str.endswith, _cost_of_prefix)},
    "min": {(list,): Overload(partial(lists.find_best, "min", min), lists.cost_of_list)},
    "max": {(list,): Overload(partial(lists.find_best, "max", max), lists.cost_of_list)},
    "sum": {(list,): Overload(lists.add_up, lists.cost_of_list)},
    "minBy": {(list, str): Overload(partial(lists.find_best_by, "minBy", min), lists.cost_of_path)},
    "maxBy": {(list, str): Overload(partial(lists.find_best_by, "maxBy", max), lists.cost_of_path)},
    "flatten": {(list,): _paying(lists.flatten), (list, int): _paying(lists.flatten)},
    "distinct": {(list,): _paying(lists.distinct)},
    "sort": {(list,): _paying(lists.sort)},
    "join": {(list,): _paying(texts.join), (list, str): _paying(texts.join)},
    "split": {(str, str): _paying(texts.split), (str, str, int): _paying(texts.split)},
    "replace": {
        (str, str, str): _paying(texts.replace),
        (str, str, str, int): _paying(texts.replace),
    },
    "format": {(str, list): _paying(texts.format_text)},
    "lowerAscii": {(str,): _paying(partial(texts.change_ascii, bytes.lower))},
    "upperAscii": {(str,): _paying(partial(texts.change_ascii, bytes.upper))},
    "trim": {(str,): _paying(texts.trim)},
    # parts of a timestamp in UTC, and totals of a duration
    "getFullYear": {(datetime,): Overload(lambda time: time.year)},
    "getMonth": {(datetime,): Overload(lambda time: time.month - 1)},
    "getDate": {(datetime,): Overload(lambda time: time.day)},
    "getDayOfMonth": {(datetime,): Overload(lambda time: time.day - 1)},
    "getDayOfWeek": {(datetime,): Overload(lambda time: time.isoweekday() % 7)},
    "getDayOfYear": {(datetime,): Overload(lambda time: time.timetuple().tm_yday - 1)},
    "getHours": {
        (datetime,): Overload(lambda time: time.hour),
        (timedelta,): Overload(lambda duration: texts.count_seconds(duration, 3600)),
    },
    "getMinutes": {
        (datetime,): Overload(lambda time: time.minute),
        (timedelta,): Overload(lambda duration: texts.count_seconds(duration, 60)),
    },
    "getSeconds": {
        (datetime,): Overload(lambda time: time.second),
        (timedelta,): Overload(texts.count_seconds),
    },
    "getMilliseconds": {
        (datetime,): Overload(lambda time: time.microsecond // 1000),
        (timedelta,): Overload(texts.count_milliseconds),
    },
}
"""Functions that are called on a value, as in `x.size()`."""

FUNCTIONS = frozenset({"has", "matches", *GLOBALS, *METHODS, *MACROS})
"""The names that an expression may call."""
