"""Timestamps and durations: read from texts, written as texts, and their parts."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from jobflow.core.cel.language.budget import CelError
from jobflow.core.cel.language.values import check_time, divide_ints

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


def read_timestamp(given: str | int) -> datetime:
    """Return the time of a text of RFC 3339, or of seconds since 1970. Raises CelError."""
    if isinstance(given, int):
        time: datetime = check_time(lambda: _EPOCH + timedelta(seconds=given))
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
    parts = _PART.findall(text)
    microseconds = sum([float(count) * _MICROSECONDS[unit] for count, unit in parts])
    found: timedelta = check_time(lambda: timedelta(microseconds=microseconds))
    return -found if text.startswith("-") else found


def format_timestamp(time: datetime) -> str:
    """Return a time as a text of RFC 3339."""
    return f"{time.isoformat()[:19]}{_decimals(time.microsecond)}Z"


def format_duration(duration: timedelta) -> str:
    """Return a duration in seconds: 90s, 1.500s."""
    seconds, microseconds = divmod(abs(duration) // _MICROSECOND, 1_000_000)
    return f"{'-' if duration < timedelta() else ''}{seconds}{_decimals(microseconds)}s"


def _decimals(microseconds: int) -> str:
    return f".{microseconds:06}".removesuffix("000") if microseconds else ""


def count_seconds(duration: timedelta, unit: int = 1) -> int:
    """Return whole units of so many seconds, rounded towards 0."""
    return divide_ints(duration // _MICROSECOND, unit * 1_000_000)


def count_milliseconds(duration: timedelta) -> int:
    """Return the milliseconds beyond whole seconds."""
    return divide_ints(duration // _MICROSECOND, 1000) - 1000 * count_seconds(duration)


def _contrast(text: str) -> str:
    return f", not {text!r}" if len(text) <= _LONGEST else ""
