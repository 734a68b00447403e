"""The time that a flow still needs, in words."""

from __future__ import annotations

from jobflow.core.text import format_duration, join_names, printable
from jobflow.core.timelines.time_left import NoEstimate, TimeLeft


def describe_time_left(left: TimeLeft | NoEstimate) -> str:
    """Return `at least 12m to 20m, by 5 or more completed jobs of each template`."""
    if isinstance(left, NoEstimate):
        return printable(f"unknown, because {left.why}")
    low, high = format_duration(left.low), format_duration(left.high)
    text = f"{'at least ' if left.at_least else ''}{low}"
    text += f" to {high}" if low != high else ""
    text += f", by {left.runs} or more completed jobs of each template"
    if left.unknown:
        names = join_names([printable(name) for name in left.unknown])
        text += f"; without {names}, whose template has never completed"
    return text
