"""The way back in time: a slider over the time of a flow, with marks where something happened."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from jobflow.api.flow.status import ENDED_STEP_PHASES
from jobflow.core.text import format_count, format_duration
from jobflow.core.timelines.past import Moment, forgotten, moments
from jobflow.core.timelines.timeline import timeline
from jobflow.page.flow_view import FlowView
from jobflow.page.panels.timeline import Axis
from jobflow.page.web.fragments import Fragment

MAX_MARKS = 200
"""Marks on the slider; of more, the most important ones of each part of the time are shown."""
NEAR = 30
"""Moments before and after the time that is shown to which a browser can go by itself."""
_ID = "scrubber"


@dataclass(frozen=True, slots=True)
class Slider:
    """The slider. Its value is the seconds since the start."""

    start: datetime
    seconds: int
    """The time that its whole width stands for."""
    end: datetime | None
    """The end of the flow; None while it runs: then the present time is the last one to choose."""
    marks: Sequence[dict[str, Any]]
    at: datetime | None = field(compare=False)
    """The time that is shown, which the browser itself keeps up to date."""


def scrubber(view: FlowView, then: FlowView) -> Fragment:
    """Return the slider for a flow now and at the time that is shown, once it has started."""
    found = timeline(view.flow, now=view.now, whole=True)
    if found is None:
        return Fragment(_ID, "empty.html", None)
    known = moments(view.flow, found)
    axis = Axis.of(found.start, found.end, is_open=found.is_open)
    marks: dict[int, dict[str, Any]] = {}
    for moment in known:
        x = axis.share(moment.time)
        # one mark for each part of the width, so that those of many steps are not one bar
        place = int(x / 100 * MAX_MARKS)
        before = marks.get(place)
        if before is None or (moment.kind == "failed" and before["kind"] != "failed"):
            marks[place] = {"x": x, "kind": moment.kind.value, "words": moment.words}
    ordered = [marks[place] for place in sorted(marks)]
    end = None if found.is_open else found.end
    slider = Slider(axis.start, int(axis.seconds), end, ordered, then.at)
    children = [
        Fragment("slider", "slider.html", slider),
        Fragment("as-of", "as-of.html", _as_of(view, then, found.start, known)),
    ]
    return Fragment(_ID, "scrubber.html", then.at is not None, children)


def _as_of(
    view: FlowView, then: FlowView, start: datetime, known: Sequence[Moment]
) -> dict[str, Any]:
    """Return the time that is shown, what happened then, and the moments around it."""
    at = then.at
    # the end itself is the present
    times = [moment.time for moment in known if moment.time < view.end]
    here = len(times) if at is None else bisect_left(times, at)
    behind = len(times) if at is None else bisect_right(times, at)
    shown: dict[str, Any] = {
        "at": at,
        "moments": times[max(here - NEAR, 0) : here + NEAR + 1],
        "before": times[here - 1] if here else None,
        "behind": times[behind] if behind < len(times) else None,
    }
    if at is not None:
        conditions = (then.flow.status.conditions or {}).values()
        ended = sum(each.phase in ENDED_STEP_PHASES for each in conditions)
        total = format_count(len(view.flow.all_steps), "step")
        shown |= {
            "after": format_duration(at - start),
            "happened": next((moment.words for moment in known if moment.time == at), ""),
            "counts": f"{ended} of {total} had finished",
            "forgotten": [*forgotten(view.flow)],
        }
    return shown
