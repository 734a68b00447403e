"""Cron expressions in the syntax of `batch/v1` (robfig/cron v3, ParseStandard).

An expression is written out as plain numbers before `cronsim` gets it, because both read some of
them differently: there, `*/2` in one day field and `1` in the other must both match, here one of
them is enough; there, 7 and `L` are days, here they are faults.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from jobflow.core.suggest import Suggester, did_you_mean
from jobflow.core.text import format_count

_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_DAYS = "sun mon tue wed thu fri sat".split()
_TERM = re.compile(r"(?P<first>[*?]|\w+)(?:-(?P<last>\w+))?(?:/(?P<step>\d+))?", re.ASCII)
_MAX_CHARACTERS = 1_000
"""Characters of an expression; all values of all fields have fewer."""

DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


class ScheduleFault(ValueError):
    """A text that is no schedule. The message says why, and what to write."""


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    lowest: int
    highest: int
    names: tuple[str, ...] = ()
    """Names of values, the first that of `lowest`."""

    def read(self, text: str) -> str:
        """Return the values as `*` or as numbers with commas. Raises ScheduleFault."""
        values: set[int] = set()
        every = False
        for term in text.split(","):
            found = _TERM.fullmatch(term)
            if found is None:
                raise ScheduleFault(f'{self.name} "{text}": {self._hint(term)}')
            every |= self._add(found, values)
        return "*" if every else ",".join(map(str, sorted(values)))

    def _add(self, term: re.Match[str], values: set[int]) -> bool:
        """Add the values of one term; return whether it is `*`."""
        first, last, step = term["first"], term["last"], int((term["step"] or "1")[:9])
        if step == 0:
            raise ScheduleFault(f'{self.name} "{term[0]}": a step is at least 1')
        if first in ("*", "?"):
            if last is not None:
                raise ScheduleFault(f'{self.name} "{term[0]}": {self._hint(term[0])}')
            start, end = self.lowest, self.highest
        else:
            start = self._number(first)
            end = self._number(last) if last else self.highest if term["step"] else start
        if start > end:
            raise ScheduleFault(f'{self.name} "{term[0]}": the range ends before it begins')
        values.update(range(start, end + 1, step))
        return first in ("*", "?") and step == 1

    def _number(self, text: str) -> int:
        if text.lower() in self.names:
            return self.names.index(text.lower()) + self.lowest
        if not text.isdigit():
            raise ScheduleFault(f'{self.name} "{text}": {self._hint(text)}')
        value = int(text[:9])
        if not self.lowest <= value <= self.highest:
            sunday = "; write 0 for Sunday" if self.names == tuple(_DAYS) and value == 7 else ""
            raise ScheduleFault(
                f"{self.name} {text} is not between {self.lowest} and {self.highest}{sunday}"
            )
        return value

    def _hint(self, text: str) -> str:
        guess = Suggester(self.names).nearest(text.lower()) if self.names else None
        return f'"{text}" is not a value of it{did_you_mean(guess) or ", such as 5, 1-5 or */2"}'


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, tuple(_MONTHS)),
    _Field("day of week", 0, 6, tuple(_DAYS)),
)
_SHAPE = "minute, hour, day of month, month and day of week, such as 30 2 * * 1-5"


@lru_cache(maxsize=4096)
def normalize(text: str) -> str:
    """Return five fields of numbers or `*`. Raises ScheduleFault."""
    if len(text) > _MAX_CHARACTERS:
        raise ScheduleFault(f"a schedule has at most {_MAX_CHARACTERS:,} characters")
    if text.startswith(("TZ=", "CRON_TZ=")):
        raise ScheduleFault("a schedule has no time zone of its own; write it to spec.timeZone")
    fields = DESCRIPTORS.get(text.strip(), text).split()
    if text.strip().startswith("@") and fields[0].startswith("@"):
        raise ScheduleFault(_no_descriptor(fields[0]))
    if len(fields) != len(_FIELDS):
        seconds = "; seconds are not supported" if len(fields) == len(_FIELDS) + 1 else ""
        raise ScheduleFault(
            f"has {format_count(len(fields), 'field')}, not five: {_SHAPE}{seconds}"
        )
    return " ".join(field.read(text) for field, text in zip(_FIELDS, fields, strict=True))


def _no_descriptor(word: str) -> str:
    if word == "@every":
        return "@every has no fixed times; write the times, such as */30 * * * *"
    guess = did_you_mean(Suggester(list(DESCRIPTORS)).nearest(word.lower()))
    return f"there is no {word}{guess or '; there are ' + ', '.join(DESCRIPTORS)}"
