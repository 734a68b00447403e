"""Schedules: their times in a time zone, and the flows of CronJobFlows.

A time of the schedule is a minute whose local time matches the expression, as in `batch/v1`
(robfig/cron): a local time that daylight saving leaves out does not exist, and one that it repeats
exists twice. `cronsim` finds the local times, between two changes of the offset from UTC; its own
rules for daylight saving, those of Debian, are not used (docs/decisions/schedules.md).

An expression, in the syntax of `batch/v1` (ParseStandard), is written out as plain numbers before
`cronsim` gets it, because both read some of them differently: there, `*/2` in one day field and `1`
in the other must both match, here one of them is enough; there, 7 and `L` are days, here they are
faults.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from itertools import islice, takewhile
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

import msgspec
from cronsim import CronSim, CronSimError

from jobflow.api.flow.cronjobflow import CronJobFlow, FlowTemplateMetadata
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.labels import CRON, INSTANTIATE, SCHEDULED_TIME
from jobflow.api.resources import CRONJOBFLOWS, JOBFLOWS, ObjectMeta
from jobflow.core.names import predict_generated_name, to_label_value
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
        # nine digits are beyond every range; Python refuses to read thousands
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
            bounds = f"{self.lowest} and {self.highest}"
            raise ScheduleFault(f"{self.name} {text} is not between {bounds}{sunday}")
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
        if (word := fields[0]) == "@every":
            raise ScheduleFault("@every has no fixed times; write the times, such as */30 * * * *")
        guess = did_you_mean(Suggester(list(DESCRIPTORS)).nearest(word.lower()))
        known = "; there are " + ", ".join(DESCRIPTORS)
        raise ScheduleFault(f"there is no {word}{guess or known}")
    if len(fields) != len(_FIELDS):
        seconds = "; seconds are not supported" if len(fields) == len(_FIELDS) + 1 else ""
        count = format_count(len(fields), "field")
        raise ScheduleFault(f"has {count}, not five: {_SHAPE}{seconds}")
    return " ".join(field.read(text) for field, text in zip(_FIELDS, fields, strict=True))


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


@dataclass(frozen=True, slots=True)
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

    def left_out(self, first: datetime, last: datetime) -> Iterator[datetime]:
        """Yield the local times between two moments that clocks skip for summer time."""
        begin, end = (each.astimezone(self.zone).replace(tzinfo=None) for each in (first, last))
        for each in takewhile(lambda time: time <= end, _local_times(self.expression, begin, 1)):
            there_and_back = each.replace(tzinfo=self.zone).astimezone(UTC).astimezone(self.zone)
            if there_and_back.replace(tzinfo=None) != each:
                yield each

    def _walk(self, first: datetime, way: int) -> Iterator[datetime]:
        """Yield the times from `first` on, in whole seconds; `way` is 1 or -1."""
        try:
            while True:
                # between two changes of the offset from UTC, the local time is UTC and a constant
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
    """A time without a change of the offset from UTC, from `first` in one direction, whose end is
    looked for only as far as it is needed."""

    def __init__(self, zone: ZoneInfo, first: datetime, way: int) -> None:
        self._zone = zone
        self._known = first
        self._way = way
        self._end: datetime | None = None
        self.offset = self._offset_at(first)

    def end_before(self, moment: datetime) -> datetime | None:
        """Return the first moment with another offset if it is not beyond `moment`, else None."""
        second = _SECOND * self._way

        def has_changed(seconds: int) -> bool:
            return self._offset_at(self._known + seconds * second) != self.offset

        # by days: two changes that cancel each other within one do not occur
        while self._end is None and (moment - self._known) * self._way > timedelta():
            if has_changed(_DAY // _SECOND):
                seconds = bisect_left(range(_DAY // _SECOND), True, key=has_changed)
                self._end = self._known + seconds * second
            else:
                self._known += _DAY * self._way
        if self._end is not None and (moment - self._end) * self._way >= timedelta():
            return self._end
        return None

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
    """Return a schedule. Raises ScheduleFault."""
    schedule = Schedule(normalize(text), parse_zone(time_zone))
    # there is no 30 February
    if next(_local_times(schedule.expression, datetime(2000, 1, 1), 1), None) is None:
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
        hint = guess or "; write one such as Europe/Berlin"
        raise ScheduleFault(f"there is no such time zone{hint}") from None


def _in_seconds(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(microsecond=0)


_SOME_TIME = "2026-01-01T00:00:00+00:00"


class Instantiation(StrEnum):
    """Who creates a flow, if not the schedule."""

    MANUAL = "manual"
    BACKFILL = "backfill"


def scheduled_name(cron: str, time: datetime) -> str:
    """Return the name of the flow of a scheduled time, which ends with the minutes from 1970."""
    # a schedule and a backfill give a time the same name, so that it has only one flow
    return f"{cron}-{(time - _EPOCH) // _MINUTE}"


def time_of(name: str) -> datetime | None:
    """Return the scheduled time in the name of a flow; None if it has none."""
    minutes = name.rpartition("-")[2]
    return _EPOCH + int(minutes) * _MINUTE if re.fullmatch("[0-9]{1,9}", minutes) else None


def manual_prefix(cron: str) -> str:
    """Return the `generateName` of flows that are created by hand."""
    return f"{cron}-manual-"


def build_flow(
    cron: CronJobFlow, time: datetime, instantiation: Instantiation | None = None
) -> dict[str, Any]:
    """Return the manifest of the flow of a scheduled time. A manual flow has a generated name,
    because a time may have several. Raises ScheduleFault for a time zone that does not exist."""
    meta = cron.metadata
    local = time.astimezone(parse_zone(cron.spec.time_zone))
    template = cron.spec.job_flow_template
    own = (template.metadata if template is not None else None) or FlowTemplateMetadata()
    annotations = {CRON: meta.name, SCHEDULED_TIME: format_scheduled_time(local)}
    if instantiation is not None:
        annotations[INSTANTIATE] = str(instantiation)
    names = {"name": scheduled_name(meta.name, time)}
    if instantiation is Instantiation.MANUAL:
        names = {"generateName": manual_prefix(meta.name)}
    # our labels and annotations win, because flows are found and counted by them
    return {
        **JOBFLOWS.type_meta,
        "metadata": {
            **names,
            "namespace": meta.namespace,
            "labels": {**(own.labels or {}), CRON: to_label_value(meta.name)},
            "annotations": {**(own.annotations or {}), **annotations},
            "ownerReferences": [CRONJOBFLOWS.owner_reference(meta)],
        },
        "spec": msgspec.to_builtins(cron.flow_spec),
    }


def sample_flow(cron: CronJobFlow) -> JobFlow:
    """Return a flow as admission judges it: with the longest name and some scheduled time."""
    meta = cron.metadata
    name = meta.name or predict_generated_name(meta.generate_name)
    return JobFlow(
        metadata=ObjectMeta(
            # the longest one: made by hand, with characters that an API server appends
            name=f"{manual_prefix(name)}xxxxx" if name else "",
            namespace=meta.namespace,
            annotations={SCHEDULED_TIME: _SOME_TIME},
        ),
        spec=cron.flow_spec,
    )


def belongs_to(flow: JobFlow, cron: ObjectMeta) -> bool:
    """Whether the CronJobFlow with this metadata controls a flow."""
    # not only by the UID: the webhook checks the rights of who adds a flow by kind and name
    owner = flow.metadata.controller
    owned_by = owner is not None and (owner.kind, owner.name, owner.uid)
    return owned_by == (CRONJOBFLOWS.kind, cron.name, cron.uid)


def is_scheduled(flow: JobFlow) -> bool:
    """Whether the schedule has created a flow, which then counts for its concurrency policy."""
    return INSTANTIATE not in (flow.metadata.annotations or {})


def is_backfilled(flow: JobFlow) -> bool:
    """Whether `jobflow backfill` has created a flow, which the history limits keep."""
    # the same backfill would create it again
    return (flow.metadata.annotations or {}).get(INSTANTIATE) == Instantiation.BACKFILL


def format_scheduled_time(time: datetime) -> str:
    """Return RFC 3339, as `batch/v1` writes it: `2026-01-01T02:00:00+01:00`, Z for UTC."""
    return time.isoformat(timespec="seconds").replace("+00:00", "Z")
