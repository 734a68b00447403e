"""Durations in Go's notation, such as `1m30s`."""

import re
from datetime import timedelta

_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+")
_SECONDS = {
    "ns": 1e-9,
    "us": 1e-6,
    # the micro sign and the Greek letter, as in Go
    "µs": 1e-6,
    "μs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
}
MAX_SECONDS = 100 * 365 * 24 * 3600.0
"""A hundred years. A Go duration holds at most about 292."""


def parse_duration(text: str) -> float:
    """Return the seconds of a non-negative Go duration (Go's time.ParseDuration). Raises
    ValueError."""
    if text == "0":
        return 0.0
    if not _WHOLE.fullmatch(text):
        raise ValueError("is not a duration: write it like 2s, 500ms or 1m30s")
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
    if seconds > MAX_SECONDS:
        raise ValueError("is longer than a hundred years")
    return seconds


def format_duration(span: timedelta) -> str:
    """Return a time span as Go prints it (Duration.String): `4.023034s`, `1m30s`, `2h0m0s`."""
    micros = max(0, span // timedelta(microseconds=1))
    if 0 < micros < 1_000_000:
        return f"{micros / 1000:.3f}".rstrip("0").rstrip(".") + "ms"
    minutes, rest = divmod(micros, 60_000_000)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{rest / 1_000_000:.6f}".rstrip("0").rstrip(".") + "s"
    if hours:
        return f"{hours}h{minutes}m{seconds}"
    return f"{minutes}m{seconds}" if minutes else seconds
