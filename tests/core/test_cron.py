"""The times of a schedule: syntax, daylight saving, and a reference that walks minute by minute."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobflow.core.cron import (
    MAX_MISSED,
    Schedule,
    ScheduleFault,
    normalize,
    parse_schedule,
    scheduled_name,
)

MINUTE = timedelta(minutes=1)
BERLIN = "Europe/Berlin"
SPRING, AUTUMN = datetime(2026, 3, 28, 12, tzinfo=UTC), datetime(2026, 10, 24, 12, tzinfo=UTC)
"""The days before Berlin changes its clocks."""


def local(text: str, zone: str, start: datetime, count: int) -> list[str]:
    """Return the next times as local times with their offset."""
    return shown(parse_schedule(text, zone).after(start), zone, count)


def shown(times: Iterator[datetime], zone: str, count: int) -> list[str]:
    return [f"{time.astimezone(ZoneInfo(zone)):%d %H:%M%z}" for time in islice(times, count)]


@pytest.mark.parametrize(
    ("text", "normalized"),
    [
        ("*/15 8-18/5 * * 1-5", "0,15,30,45 8,13,18 * * 1,2,3,4,5"),
        ("5/20 * ? JAN,dec MON-wed", "5,25,45 * * 1,12 1,2,3"),
        ("0 0 * * *,5", "0 0 * * *"),
        ("  0\t0 1 1 *  ", "0 0 1 1 *"),
        ("@hourly", "0 * * * *"),
        ("@weekly", "0 0 * * 0"),
        ("0 0 */10 * */2", "0 0 1,11,21,31 * 0,2,4,6"),
    ],
)
def test_a_schedule_is_written_out_as_numbers(text: str, normalized: str) -> None:
    assert normalize(text) == normalized


def test_a_step_of_days_is_no_star() -> None:
    """As in batch/v1, one of two restricted days is enough."""
    start = datetime(2026, 6, 1, tzinfo=UTC)  # a Monday
    assert local("0 0 */10 * 3", "UTC", start, 4) == [
        f"{day} 00:00+0000" for day in ("03", "10", "11", "17")
    ]
    assert local("0 0 * * 3", "UTC", start, 2) == ["03 00:00+0000", "10 00:00+0000"]


@pytest.mark.parametrize(
    ("text", "zone", "message"),
    [
        ("* * * *", None, "has 4 fields, not five: minute, hour, day of month, month and day of "
         "week, such as 30 2 * * 1-5"),
        ("0 0 0 * * *", None, "has 6 fields, not five: minute, hour, day of month, month and day "
         "of week, such as 30 2 * * 1-5; seconds are not supported"),
        ("60 * * * *", None, "minute 60 is not between 0 and 59"),
        ("0 0 * * 7", None, "day of week 7 is not between 0 and 6; write 0 for Sunday"),
        ("0 0 * * 5-1", None, 'day of week "5-1": the range ends before it begins'),
        ("*/0 * * * *", None, 'minute "*/0": a step is at least 1'),
        ("0 0 * janu *", None, 'month "janu": "janu" is not a value of it; did you mean "jan"?'),
        ("0 0 L * *", None, 'day of month "L": "L" is not a value of it, such as 5, 1-5 or */2'),
        ("1,,2 * * * *", None, 'minute "1,,2": "" is not a value of it, such as 5, 1-5 or */2'),
        ("*-5 * * * *", None, 'minute "*-5": "*-5" is not a value of it, such as 5, 1-5 or */2'),
        ("0 0 30 2 *", None, "matches no date: no such month has such a day"),
        ("@every 5m", None, "@every has no fixed times; write the times, such as */30 * * * *"),
        ("@dayly", None, 'there is no @dayly; did you mean "@daily"?'),
        ("TZ=UTC 0 0 * * *", None,
         "a schedule has no time zone of its own; write it to spec.timeZone"),
        ("0 0 * * *" + " " * 1000, None, "a schedule has at most 1,000 characters"),
        ("0 0 * * *", "", "is empty; remove the field for UTC"),
        ("0 0 * * *", "Local", "write the name of the zone, because machines differ"),
        ("0 0 * * *", "Europe/Berln",
         'there is no such time zone; did you mean "Europe/Berlin"?'),
        ("0 0 * * *", "../UTC", "there is no such time zone; write one such as Europe/Berlin"),
    ],
)  # fmt: skip
def test_a_text_that_is_no_schedule_is_explained(text: str, zone: str | None, message: str) -> None:
    with pytest.raises(ScheduleFault) as fault:
        parse_schedule(text, zone)
    assert str(fault.value) == message


def test_a_local_time_that_daylight_saving_leaves_out_does_not_exist() -> None:
    assert local("30 2 * * *", BERLIN, SPRING, 2) == ["30 02:30+0200", "31 02:30+0200"]
    assert local("30 * * * *", BERLIN, SPRING + timedelta(hours=12), 3) == [
        "29 01:30+0100",
        "29 03:30+0200",
        "29 04:30+0200",
    ]


@pytest.mark.parametrize(
    ("expression", "zone", "first", "last", "left_out"),
    [
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T23", "2026-03-30T00", ["2026-03-29T02:30"]),
        ("30 2 * * *", "Europe/Berlin", "2026-10-01T00", "2026-11-30T00", []),
        ("30 2 * * *", "UTC", "2026-03-28T00", "2026-03-30T00", []),
        # the first moment is the one at which the clocks change
        ("0,59 * * * *", "Europe/Berlin", "2026-03-29T00", "2026-03-29T01:01", [
            "2026-03-29T02:00", "2026-03-29T02:59"
        ]),
        ("0 * * * *", "Europe/Berlin", "2026-03-29T00", "2026-03-29T00:30", []),
        ("0 12 * * *", "Pacific/Apia", "2011-12-29T00", "2012-01-02T00", ["2011-12-30T12:00"]),
    ],
)  # fmt: skip
def test_local_times_that_do_not_exist_are_found(
    expression: str, zone: str, first: str, last: str, left_out: list[str]
) -> None:
    begin, end = (datetime.fromisoformat(each).replace(tzinfo=UTC) for each in (first, last))
    found = parse_schedule(expression, zone).left_out(begin, end)
    assert [each.isoformat(timespec="minutes") for each in found] == left_out


def test_a_local_time_that_daylight_saving_repeats_exists_twice() -> None:
    assert local("30 2 * * *", BERLIN, AUTUMN, 3) == [
        "25 02:30+0200",
        "25 02:30+0100",
        "26 02:30+0100",
    ]
    schedule = parse_schedule("30 2 * * *", BERLIN)
    last = schedule.until(datetime(2026, 10, 25, 12, tzinfo=UTC))
    assert shown(last, BERLIN, 3) == [
        "25 02:30+0100",
        "25 02:30+0200",
        "24 02:30+0200",
    ]
    assert len({scheduled_name("c", time) for time in islice(schedule.after(AUTUMN), 3)}) == 3


def test_a_zone_that_skips_a_day_skips_its_times() -> None:
    """Samoa had no 30 December 2011."""
    start = datetime(2011, 12, 29, tzinfo=UTC)
    assert local("0 12 * * *", "Pacific/Apia", start, 3) == [
        "29 12:00-1000",
        "31 12:00+1400",
        "01 12:00+1400",
    ]


def test_29_february_is_found_over_a_century_without_a_leap_day() -> None:
    schedule = parse_schedule("0 0 29 2 *", None)
    assert schedule.next(datetime(2096, 3, 1, tzinfo=UTC)) == datetime(2104, 2, 29, tzinfo=UTC)


def test_the_ends_of_the_calendar_are_no_error() -> None:
    schedule = parse_schedule("0 0 1 6 *", BERLIN)
    assert [*schedule.after(datetime(9999, 7, 1, tzinfo=UTC))] == []
    assert [*schedule.until(datetime(1, 3, 1, tzinfo=UTC))] == []


def test_of_a_year_of_missed_minutes_a_hundred_are_counted() -> None:
    schedule = parse_schedule("* * * * *", None)
    missed = schedule.missed(datetime(2025, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC))
    assert missed is not None
    assert (missed.last, missed.count) == (datetime(2026, 1, 1, tzinfo=UTC), MAX_MISSED + 1)


# ------------------------------------------------------------------ laws


def matches(expression: str, time: datetime) -> bool:
    """Whether a local time matches a normalized expression, by the definition of batch/v1."""
    minute, hour, day, month, weekday = expression.split()

    def fits(field: str, value: int) -> bool:
        return field == "*" or str(value) in field.split(",")

    days = fits(day, time.day), fits(weekday, time.isoweekday() % 7)
    return (
        fits(minute, time.minute)
        and fits(hour, time.hour)
        and fits(month, time.month)
        and (all(days) if "*" in (day, weekday) else any(days))
    )


def walk(schedule: Schedule, start: datetime, minutes: int) -> Iterator[datetime]:
    """Yield the times after `start` within so many minutes, minute by minute."""
    time = start.replace(second=0, microsecond=0)
    for _ in range(minutes):
        time += MINUTE
        if matches(schedule.expression, time.astimezone(schedule.zone)):
            yield time


def field(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    ranges = st.tuples(number, number).map(lambda ends: f"{min(ends)}-{max(ends)}")
    steps = st.builds("{}/{}".format, st.one_of(st.just("*"), ranges), st.integers(1, 9))
    term = st.one_of(number.map(str), ranges, steps)
    return st.one_of(st.just("*"), st.lists(term, min_size=1, max_size=3).map(",".join))


EXPRESSIONS = st.builds(
    "{} {} {} * {}".format, field(0, 59), field(0, 23), field(1, 28), field(0, 6)
)
CHANGES = {
    "UTC": ["2026-03-29T01:00"],
    BERLIN: ["2026-03-29T01:00", "2026-10-25T01:00"],
    "America/New_York": ["2026-03-08T07:00", "2026-11-01T06:00"],
    "Australia/Lord_Howe": ["2026-04-04T15:00", "2026-10-03T15:30"],
    "Africa/Casablanca": ["2026-02-15T02:00", "2026-03-22T02:00"],
    "America/St_Johns": ["2026-03-08T05:30", "2026-11-01T04:30"],
    "Pacific/Apia": ["2011-12-30T10:00"],
    "Asia/Kathmandu": ["1985-12-31T18:30"],
}
"""Moments in UTC at which zones change their offset, with half an hour, an hour and a day."""
MOMENTS = st.sampled_from(
    [(zone, datetime.fromisoformat(time + "+00:00")) for zone in CHANGES for time in CHANGES[zone]]
)
HOURS = 30


@given(EXPRESSIONS, MOMENTS, st.integers(-24 * 3600, 6 * 3600))
def test_the_times_are_those_of_a_walk_over_all_minutes(
    text: str, change: tuple[str, datetime], seconds: int
) -> None:
    schedule = Schedule(normalize(text), ZoneInfo(change[0]))
    start = change[1] + timedelta(seconds=seconds)
    end = start + timedelta(hours=HOURS)
    expected = [time for time in walk(schedule, start, HOURS * 60) if time <= end]
    found = []
    for time in schedule.after(start):
        if time > end:
            break
        found.append(time)
    assert found == expected
    backward = []
    for time in schedule.until(end):
        if time <= start:
            break
        backward.append(time)
    assert backward == expected[::-1]
    missed = schedule.missed(start, end)
    assert (missed.last if missed else None) == (expected[-1] if expected else None)
    assert (missed.count if missed else 0) == min(len(expected), MAX_MISSED + 1)
