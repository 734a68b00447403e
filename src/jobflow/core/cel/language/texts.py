"""Functions of texts (cel-go's extension for strings, `json`), and times as texts."""

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from jobflow.api.nesting import MAX_DEPTH, is_deeper
from jobflow.core.cel.budget import Budget, CelError
from jobflow.core.cel.language import values
from jobflow.core.cel.language.tree import Uint

_LONG_SEARCH = 128
"""Characters of a text above which Python's search for it is linear."""
_PART = 85
"""Bytes of an entry of a list that is a short text."""
_BLANKS = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
"""White space of Unicode. `str.strip` removes more characters."""


def cost_of_search(budget: Budget, text: str, part: str) -> None:
    budget.read(text)
    budget.spend(len(text) * min(len(part), _LONG_SEARCH) // 500)


def split(budget: Budget, text: str, separator: str, limit: int = -1) -> list[str]:
    """Return the parts of a text between separators, at most `limit` unless it is negative."""
    # once to count, once to split
    cost_of_search(budget, text, separator)
    cost_of_search(budget, text, separator)
    parts = 1 + text.count(separator) if separator else max(len(text), 1)
    # as in cel-go, a negative limit is none
    parts = parts if limit < 0 else min(parts, limit)
    budget.add_list(parts)
    budget.spend(parts // 4)
    budget.allocate(_PART * parts + (1 if text.isascii() else 4) * len(text))
    if not parts:
        return []
    if separator:
        return text.split(separator, parts - 1)
    return [*text[: parts - 1], text[parts - 1 :]]


def join(budget: Budget, parts: list[Any], separator: str = "") -> str:
    """Return a list of texts as one text. Raises CelError."""
    budget.spend(1 + 2 * len(parts))
    if not all(each.__class__ is str for each in parts):
        raise CelError("join takes a list of texts; write list.map(x, string(x)).join(…)")
    length = sum(map(len, parts)) + len(separator) * max(len(parts) - 1, 0)
    budget.add_text(length, wide=not (separator.isascii() and all(map(str.isascii, parts))))
    return separator.join(parts)


def replace(budget: Budget, text: str, old: str, new: str, limit: int = -1) -> str:
    """Return a text with `new` in place of `old`, at most `limit` times unless it is negative."""
    # once to count, once to replace
    cost_of_search(budget, text, old)
    cost_of_search(budget, text, old)
    times = text.count(old)
    times = times if limit < 0 else min(times, limit)
    budget.spend(times // 8)
    length = len(text) + times * (len(new) - len(old))
    budget.add_text(length, wide=not (text.isascii() and new.isascii()))
    return text.replace(old, new, times)


def change_ascii(change: Callable[[bytes], bytes], budget: Budget, text: str) -> str:
    budget.add_text(3 * len(text), wide=not text.isascii())  # and two of bytes, for a moment
    return change(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")


def trim(budget: Budget, text: str) -> str:
    budget.add_text(len(text), wide=not text.isascii())
    budget.spend(len(text) // 16)
    return text.strip(_BLANKS)


def parse_json(budget: Budget, text: str) -> Any:
    """Return the value of a JSON text. Raises CelError."""
    budget.add_text(len(text), wide=not text.isascii())
    try:
        raw = text.encode()
    except UnicodeEncodeError:
        raise CelError("json takes a text without halves of surrogate pairs") from None
    containers, entries = raw.count(b"[") + raw.count(b"{"), 1 + raw.count(b",") + raw.count(b":")
    budget.add_text(len(text), wide=not text.isascii())
    budget.spend(containers + entries)
    budget.allocate(240 * containers + _PART * entries)
    if is_deeper(raw, MAX_DEPTH):
        raise values.make_depth_error()
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, ValueError) as error:
        raise CelError(f"json takes a text of JSON: {error}") from None


# --------------------------------------------------------------------------- format

_CLAUSE = re.compile(r"%(?:\.(?P<precision>[0-9]{1,3}))?(?P<verb>.?)", re.DOTALL)
_DEFAULT_PRECISION = 6
_VERBS = frozenset("sdboxXfe")


def format_text(budget: Budget, text: str, given: list[Any]) -> str:
    """Return a text with a value in place of each clause such as `%d`. Raises CelError."""
    budget.read(text)
    pieces: list[str] = []
    end = used = 0
    for found in _CLAUSE.finditer(text):
        budget.spend(8)
        budget.add_text(found.start() - end, wide=not text.isascii())
        pieces.append(text[end : found.start()])
        end = found.end()
        if found.group() == "%%":
            pieces.append("%")
            continue
        if found["verb"] not in _VERBS:
            raise CelError(f"format does not know {found.group()!r}; write %s, %d, %.2f or %%%%")
        if used == len(given):
            raise CelError(f"format has no value for {found.group()!r}: {used} are given")
        precision = int(found["precision"] or _DEFAULT_PRECISION)
        pieces.append(_format(budget, found["verb"], precision, given[used]))
        used += 1
    pieces.append(text[end:])
    return join(budget, pieces)


def _format(budget: Budget, verb: str, precision: int, value: Any) -> str:
    if verb == "s":
        pieces: list[str] = []
        _write(budget, value, pieces, 1)
        return join(budget, pieces)
    if verb in "fe":
        if type(value) not in values.NUMBERS:
            raise values.make_type_error(f"%{verb}", value)
        budget.add_text(320 + precision)
        budget.spend(4 + precision // 8)
        number = float(values.normalize_number(value)) if value.__class__ is int else float(value)
        if math.isfinite(number):
            return f"{number:.{precision}{verb}}"
        return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    if verb in "xX" and isinstance(value, str | bytes):
        # four bytes of a character have two digits each
        budget.add_text(8 * len(value) if isinstance(value, str) else 2 * len(value))
        raw = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
        return raw.hex() if verb == "x" else raw.hex().upper()
    value = values.normalize_number(value) if value.__class__ is int else value
    if value.__class__ is bool and verb == "b":
        return "1" if value else "0"
    if value.__class__ is not int and value.__class__ is not Uint:
        raise values.make_type_error(f"%{verb}", value)
    budget.add_text(66)
    return format(int(value), verb)


def _write(budget: Budget, value: Any, pieces: list[str], depth: int) -> None:
    """Append a value as `%s` writes it."""
    if isinstance(value, str):
        budget.spend(1)
        pieces.append(value)
    elif isinstance(value, list | dict):
        if depth > MAX_DEPTH:
            raise values.make_depth_error()
        budget.add_list(4 * len(value))
        budget.spend(4 * len(value))
        if isinstance(value, list):
            for at, each in enumerate(value):
                pieces.append(", " if at else "[")
                _write(budget, each, pieces, depth + 1)
            pieces.append("]" if value else "[]")
            return
        keys = [
            (each if isinstance(each, str) else _scalar_to_text(each), stored)
            for each, stored in zip(values.iterate_keys(value), value, strict=True)
        ]
        budget.spend(len(keys) * (2 + len(keys).bit_length() // 4))
        budget.spend(sum([len(key) for key, _ in keys]) * len(keys).bit_length() // 64)
        # in the order of the keys, as cel-go does
        for at, (key, stored) in enumerate(sorted(keys, key=lambda each: each[0])):
            pieces += (", " if at else "{", key, ": ")
            _write(budget, value[stored], pieces, depth + 1)
        pieces.append("}" if value else "{}")
    else:
        budget.add_text(64 + (4 * len(value) if isinstance(value, bytes) else 0))
        pieces.append(_scalar_to_text(value))


def _scalar_to_text(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            number = values.normalize_number(value)
            return float_to_text(number) if isinstance(number, float) else str(int(number))
        case float():
            return float_to_text(value)
        case bytes():
            return value.decode("utf-8", "replace")
        case datetime():
            return format_timestamp(value)
        case timedelta():
            return format_duration(value)
        case values.TypeOf():
            return value.name
    raise values.make_type_error("%s", value)


def float_to_text(value: float) -> str:
    """Return a double with all its digits, and without any for a whole number."""
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return str(int(value)) if value.is_integer() and abs(value) < 1e16 else repr(value)


# --------------------------------------------------------- timestamps and durations


_LONGEST = 64
"""Characters of a text that may be a time."""
_TIMESTAMP = re.compile(
    r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[-+]\d\d:\d\d)", re.ASCII
)
_DURATION = re.compile(r"[-+]?(?:0|(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|ms|s|m|h))+)", re.ASCII)
_TIME_PART = re.compile(r"([\d.]+)(ns|us|µs|ms|s|m|h)", re.ASCII)
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


def read_timestamp(given: str | int) -> datetime:
    """Return the time of a text of RFC 3339, or of seconds since 1970. Raises CelError."""
    if isinstance(given, int):
        time: datetime = values.check_time(lambda: _EPOCH + timedelta(seconds=given))
        return time
    try:
        # fromisoformat takes more than RFC 3339
        if len(given) > _LONGEST or not _TIMESTAMP.fullmatch(given):
            raise ValueError
        return datetime.fromisoformat(given.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        why = f"timestamp takes a time such as 2026-01-01T00:00:00Z{_contrast(given)}"
        raise CelError(why) from None


def read_duration(text: str) -> timedelta:
    """Return the duration of a text such as 1h30m. Raises CelError."""
    if len(text) > _LONGEST or not _DURATION.fullmatch(text):
        raise CelError(f"duration takes a text such as 1h30m or 90s{_contrast(text)}")
    parts = _TIME_PART.findall(text)
    microseconds = sum([float(count) * _MICROSECONDS[unit] for count, unit in parts])
    found: timedelta = values.check_time(lambda: timedelta(microseconds=microseconds))
    return -found if text.startswith("-") else found


def format_timestamp(time: datetime) -> str:
    return f"{time.isoformat()[:19]}{_decimals(time.microsecond)}Z"


def format_duration(duration: timedelta) -> str:
    """Return a duration in seconds: 90s, 1.500s."""
    seconds, microseconds = divmod(abs(duration) // _MICROSECOND, 1_000_000)
    return f"{'-' if duration < timedelta() else ''}{seconds}{_decimals(microseconds)}s"


def _decimals(microseconds: int) -> str:
    return f".{microseconds:06}".removesuffix("000") if microseconds else ""


def count_seconds(duration: timedelta, unit: int = 1) -> int:
    """Return whole units of so many seconds, rounded towards 0."""
    return values.divide_ints(duration // _MICROSECOND, unit * 1_000_000)


def count_milliseconds(duration: timedelta) -> int:
    """Return the milliseconds beyond whole seconds."""
    return values.divide_ints(duration // _MICROSECOND, 1000) - 1000 * count_seconds(duration)


def _contrast(text: str) -> str:
    return f", not {text!r}" if len(text) <= _LONGEST else ""
