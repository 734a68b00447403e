"""Text for messages: lists of names, times, durations, commands and counts."""

from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta
from operator import attrgetter

from jobflow.api.duration import format_duration as format_precise_duration
from jobflow.api.flow.status import ENDED_STEP_PHASES, StepCondition
from jobflow.api.resources import ObjectMeta

MAX_MESSAGE = 256
"""Characters of a message in a status."""
MAX_NAMES = 3
"""Names in a message; others are counted."""


def shorten(text: str, most: int = MAX_MESSAGE) -> str:
    """Return the text, cut to so many characters with an ellipsis."""
    return text if len(text) <= most else text[: most - 1] + "…"


def join_names(
    names: Iterable[str], *, total: int | None = None, last: str = "and", shown: int = MAX_NAMES
) -> str:
    """Return `a`, `a and b`, `a, b and c`, or `a, b, c and 996 more`, with at most `shown` names.
    With `total`, the number of all names, `names` may be only the first ones."""
    listed = list(names)
    if (more := (len(listed) if total is None else total) - shown) > 0:
        listed[shown:] = [f"{more} more"]
    final = listed.pop() if listed else ""
    return f"{', '.join(listed)} {last} {final}" if listed else final


def format_go_duration(duration: timedelta) -> str:
    """Return whole seconds as Go prints a Duration: `3s`, `1m30s`, `2h0m0s`; `0s` if negative."""
    return format_precise_duration(timedelta(seconds=duration // timedelta(seconds=1)))


_UNITS = ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s"))


def format_duration(duration: timedelta | None, *, tenths: bool = False) -> str:
    """Return `45s`, `3m20s`, `2h5m` or `3d4h`, with at most two units; "" for None. With `tenths`,
    a duration under a minute that has a fraction of a second is `4.2s`."""
    if duration is None:
        return ""
    seconds = int(duration.total_seconds())
    if tenths and duration.microseconds and timedelta() < duration < timedelta(minutes=1):
        return f"{seconds}.{duration.microseconds // 100_000}s"
    for size, unit, inner_size, inner in _UNITS:
        if seconds >= size:
            inner_count = seconds % size // inner_size
            return f"{seconds // size}{unit}" + (f"{inner_count}{inner}" if inner_count else "")
    return f"{seconds}s"


def format_time(moment: datetime, now: datetime) -> str:
    """Return `12:00:03 UTC`, with the date if it is not that of `now`."""
    moment = moment.astimezone(UTC)
    day = "" if moment.date() == now.date() else f"{moment:%Y-%m-%d} "
    return f"{day}{moment:%H:%M:%S} UTC"


def format_elapsed(since: datetime, now: datetime) -> str:
    """Return the duration since a time, at least `0s`."""
    return format_duration(max(now - since, timedelta()))


def format_command(command: str, metadata: ObjectMeta, more: str = "", *, kind: str = "") -> str:
    """Return a command for an object in backquotes, with its namespace unless it is the default.
    `kind` is written before the name: `cjf/nightly`."""
    place = f" -n {metadata.namespace}" if metadata.namespace not in ("", "default") else ""
    name = f"{kind}/{metadata.name}" if kind else metadata.name
    return f"`{command} {name}{more}{place}`"


def format_count(number: int, noun: str) -> str:
    """Return `1 step` or `4,990 steps`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_progress(conditions: Collection[StepCondition]) -> str:
    """Return the progress of steps: `3/5` have ended."""
    ended = sum(map(ENDED_STEP_PHASES.__contains__, map(attrgetter("phase"), conditions)))
    return f"{ended}/{len(conditions)}"


def to_sentence(message: str) -> str:
    """Return `It waits.` for `it waits`."""
    return f"{message[:1].upper()}{message[1:]}."


def printable(text: str) -> str:
    """Replace characters that could move the cursor or change colours by one cell each."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else " " if char.isspace() else "\ufffd" for char in text
    )
