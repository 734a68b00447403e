"""Filters of templates (times, phases, addresses), and the style sheet of phases."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from jobflow.core.drawing.phase_looks import LOOKS, look_of
from jobflow.core.text import format_duration, format_elapsed, format_time


def look(phase: str) -> str:
    """Return the name of a phase's icon and class: `completed`, `failed`, … or `other`."""
    return look_of(phase).name


def elapsed(since: datetime | None, end: datetime | None = None) -> str:
    """Return the time from `since` to `end`, or to now: `3m20s`, or `4.2s` if the end has fractions
    of a second; "" for None."""
    if since is not None and end is not None:
        return format_duration(max(end - since, timedelta()), tenths=True)
    return "" if since is None else format_elapsed(since, datetime.now(UTC))


def iso(moment: datetime | None) -> str:
    """Return a time in RFC 3339; "" for None."""
    return "" if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def clock(moment: datetime) -> str:
    """Return a time as `12:00:03 UTC`, with its date if it is not today's."""
    return format_time(moment, datetime.now(UTC))


def remaining(moment: datetime) -> str:
    """Return the time until `moment`, at least `0s`."""
    return format_elapsed(datetime.now(UTC), moment)


def percent(since: datetime, seconds: float) -> float:
    """Return how much of a number of seconds has passed since a time, in percent up to 100."""
    passed = (datetime.now(UTC) - since).total_seconds()
    return round(min(max(passed / seconds * 100, 0.0), 100.0), 3)


def slider_value(slider: Any) -> int:
    """Return the value of a slider: the time that is shown, or the present one, in seconds."""
    # a slider that nobody has moved is at the end
    shown = slider.at or slider.end or datetime.now(UTC)
    passed = int((shown - slider.start).total_seconds())
    most: int = slider.seconds
    return min(max(passed, 0), most)


def flow_path(namespace: str, name: str) -> str:
    """Return the path of a flow's page."""
    return f"/flows/{quote(namespace, safe='')}/{quote(name, safe='')}"


_COMMAND = re.compile("`([^`]+)`")


def with_code(sentence: str) -> Markup:
    """Return a sentence as HTML whose commands in backquotes are code. All else is escaped."""
    parts = _COMMAND.split(sentence)
    code = Markup("<code>{}</code>")
    return Markup("").join(code.format(each) if at % 2 else each for at, each in enumerate(parts))


FILTERS: dict[str, Callable[..., Any]] = {
    "look": look,
    "elapsed": elapsed,
    "iso": iso,
    "clock": clock,
    "remaining": remaining,
    "percent": percent,
    "slider_value": slider_value,
    "flow_path": flow_path,
    "with_code": with_code,
    "duration": format_duration,
}


@cache
def phase_styles() -> str:
    """Return CSS with the colours of the table of looks, on light and on dark ground."""
    light = " ".join(f"--{each.name}: {each.text.light};" for each in LOOKS)
    dark = " ".join(f"--{each.name}: {each.text.dark};" for each in LOOKS)
    classes = (f".is-{each.name} {{ color: var(--{each.name}); }}" for each in LOOKS)
    return "\n".join(
        (
            f":root {{ {light} }}",
            f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}",
            *classes,
            "",
        )
    )
