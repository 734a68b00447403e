"""The times of a schedule in its time zone.

A time of the schedule is a minute whose local time matches the expression, as in `batch/v1`
(robfig/cron): a local time that daylight saving leaves out does not exist, and one that it repeats
exists twice. `cronsim` finds the local times, between two changes of the offset from UTC; its own
rules for daylight saving, those of Debian, are not used (docs/decisions/schedules.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from itertools import islice, takewhile
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from cronsim import CronSim, CronSimError

from jobflow.core.cron.expression import ScheduleFault, normalize
from jobflow.core.suggest import Suggester, did_you_mean

MAX_MISSED = 100
"""Missed times beyond which a warning says so, as `batch/v1` does."""
_SECOND, _MINUTE, _DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(days=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Missed:
    """The times of a schedule in an interval."""

    last: datetime
    count: int
    """How many there are, MAX_MISSED + 1 at most."""


@dataclass(frozen=True)
class Schedule:
    """A schedule. `expression` is normalized. All times that are returned are in UTC: two times of
    one zone compare by their local time, which daylight saving repeats."""

    expression: str
    zone: ZoneInfo

    def after(self, moment: datetime) -> Iterator[datetime]:
        """Yield the times after a moment, the earliest first."""
        return self._walk(_in_seconds(moment) + _SECOND, 1)

    def until(self, moment: datetime) -> Iterator[datetime]:
        """Yield the times at or before a moment, the latest first."""
        return self._walk(_in_seconds(moment), -1)

    def next(self, moment: datetime) -> datetime | None:
        """Return the first time after a moment, or None if there is none before the year 9999."""
        return next(self.after(moment), None)

    def missed(self, since: datetime, now: datetime) -> Missed | None:
        """Return the times after `since`, up to `now`; None if there are none."""
        times = takewhile(lambda time: time > since, self.until(now))
        found = list(islice(times, MAX_MISSED + 1))
        return Missed(found[0], len(found)) if found else None

    @cached_property
    def has_times(self) -> bool:
        """Whether any date matches: there is no 30 February."""
        return any(True for _ in _local_times(self.expression, datetime(2000, 1, 1), 1))

    def _walk(self, first: datetime, way: int) -> Iterator[datetime]:
        """Yield the times from `first` on, in whole seconds; `way` is 1 or -1. Between two changes
        of the offset from UTC, the local time is UTC and a constant."""
        try:
            while True:
                stretch = _Stretch(self.zone, first, way)
                local = first.replace(tzinfo=None) + stretch.offset
                for each in _local_times(self.expression, local, way):
                    moment = (each - stretch.offset).replace(tzinfo=UTC)
                    if (end := stretch.end_before(moment)) is not None:
                        first = end
                        break
                    yield moment
                else:
                    return
        except OverflowError:  # before the year 1 or after 9999
            return


class _Stretch:
    """A time without a change of the offset from UTC, from `first` in one direction. Its end is
    looked for only as far as it is needed. Two changes that cancel each other within a day do not
    occur."""

    def __init__(self, zone: ZoneInfo, first: datetime, way: int) -> None:
        self._zone = zone
        self._known = first
        self._way = way
        self._end: datetime | None = None
        self.offset = self._offset_at(first)

    def end_before(self, moment: datetime) -> datetime | None:
        """Return the first moment with another offset if it is not beyond `moment`, else None."""
        while self._end is None and (moment - self._known) * self._way > timedelta():
            further = self._known + _DAY * self._way
            if self._offset_at(further) == self.offset:
                self._known = further
            else:
                self._end = self._change(self._known, further)
        if self._end is not None and (moment - self._end) * self._way >= timedelta():
            return self._end
        return None

    def _change(self, same: datetime, other: datetime) -> datetime:
        while abs(other - same) > _SECOND:
            middle = same + timedelta(seconds=(other - same) // _SECOND // 2)
            if self._offset_at(middle) == self.offset:
                same = middle
            else:
                other = middle
        return other

    def _offset_at(self, moment: datetime) -> timedelta:
        offset = moment.astimezone(self._zone).utcoffset()
        assert offset is not None
        return offset


def _local_times(expression: str, first: datetime, way: int) -> Iterator[datetime]:
    """Yield the local times that match, from `first` on; no time within 50 years is the end."""
    try:
        return CronSim(expression, first - _SECOND * way, reverse=way < 0)
    except CronSimError:  # no month has this day: the fields themselves are normalized
        return iter(())


@lru_cache(maxsize=4096)
def parse_schedule(text: str, time_zone: str | None) -> Schedule:
    """Return a schedule. Raises ScheduleFault for an expression or a zone that is no such thing,
    or for an expression that matches no date."""
    schedule = Schedule(normalize(text), parse_zone(time_zone))
    if not schedule.has_times:
        raise ScheduleFault("matches no date: no such month has such a day")
    return schedule


def parse_zone(name: str | None) -> ZoneInfo:
    """Return a time zone; None is UTC. Raises ScheduleFault."""
    if name is None:
        return ZoneInfo("UTC")
    if not name:
        raise ScheduleFault("is empty; remove the field for UTC")
    if name.casefold() == "local":
        raise ScheduleFault("write the name of the zone, because machines differ")
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        guess = did_you_mean(Suggester(sorted(available_timezones())).nearest(name))
        raise ScheduleFault(
            f"there is no such time zone{guess or '; write one such as Europe/Berlin'}"
        ) from None


def _in_seconds(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(microsecond=0)


def minutes_of(moment: datetime) -> int:
    """Return the minutes from 1970 to a moment, which name a flow."""
    return int((moment - _EPOCH) // _MINUTE)
