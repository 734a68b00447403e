"""When a flow has taken longer than `spec.timeout`: from its start, queueing included, the time
that it was suspended not. What becomes of it then is the same as when it is cancelled."""

from __future__ import annotations

from datetime import datetime

from jobflow.api.duration import parse_duration
from jobflow.core.planning.lifecycle import Course
from jobflow.core.timestamps import later


def deadline(timeout: str | None, course: Course) -> datetime | None:
    """When the flow's time is over; None: it is not limited, or does not run now.

    A timeout that is none came past admission, which names it where the flow has not begun.
    """
    if not timeout or course.halted_for or course.suspended_at is not None:
        return None
    try:
        allowed = parse_duration(timeout)
    except ValueError:
        return None
    return later(course.started, allowed + (course.suspended_seconds or 0))
