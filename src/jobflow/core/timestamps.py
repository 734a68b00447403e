"""Moments that are computed from those of others, which may be any that can be written down: those
of a status, of a vcjob, of a spec."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

THE_END = datetime.max.replace(microsecond=0, tzinfo=UTC)


def add(moment: datetime, wait: timedelta | float) -> datetime:
    """So long, or so many seconds, after a moment; THE_END where that would be beyond it."""
    try:
        return moment + (wait if isinstance(wait, timedelta) else timedelta(seconds=wait))
    except OverflowError:
        return THE_END


def truncate_to_second(moment: datetime) -> datetime:
    """The second that has begun: timestamps in a status are whole seconds."""
    return moment.replace(microsecond=0)


def ceil_to_second(moment: datetime) -> datetime:
    """The first whole second at or after `moment`."""
    begun = truncate_to_second(moment)
    return begun if begun == moment else add(begun, 1)
