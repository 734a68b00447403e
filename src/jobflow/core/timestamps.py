"""Arithmetic with timestamps of statuses and specs, which may be any that Kubernetes accepts."""

from datetime import UTC, datetime, timedelta

LATEST = datetime.max.replace(microsecond=0, tzinfo=UTC)


def add(moment: datetime, wait: timedelta | float) -> datetime:
    """Return the time after a wait, in seconds if it is a number; at most LATEST."""
    try:
        return moment + (wait if isinstance(wait, timedelta) else timedelta(seconds=wait))
    except OverflowError:
        return LATEST


def truncate_to_second(moment: datetime) -> datetime:
    return moment.replace(microsecond=0)


def ceil_to_second(moment: datetime) -> datetime:
    truncated = truncate_to_second(moment)
    return truncated if truncated == moment else add(truncated, 1)
