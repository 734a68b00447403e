"""The timeline of a flow with the steps of its child flows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import StepCondition
from jobflow.core.names import format_job_name
from jobflow.core.timelines.spans import runs_of
from jobflow.core.timelines.timeline import StepTimeline, Timeline, timeline

MAX_CHILDREN = 8
"""Child flows of a step whose steps are shown."""


def with_children(
    found: Timeline, flow: JobFlow, children: Mapping[str, JobFlow], *, now: datetime
) -> Timeline:
    """Return the timeline of a flow with the steps of its child flows below the step that runs
    them, named `train/fit` or `train/0/fit`, except of child flows that ended before the timeline
    starts: they did not run again with their parent. `children`: by name. The critical path is
    that of the outer flow."""
    ran = {
        name: child
        for name, child in children.items()
        if child.status.completion_time is None or child.status.completion_time >= found.start
    }
    if not ran:
        return found
    rows = (row for step in found.steps for row in (step, *_below(step, flow, ran, now)))
    return replace(found, steps=tuple(rows))


def _below(
    row: StepTimeline, flow: JobFlow, children: Mapping[str, JobFlow], now: datetime
) -> Iterator[StepTimeline]:
    key = format_job_name(flow.metadata.name, row.step)
    condition = (flow.status.conditions or {}).get(key, StepCondition())
    runs = [run for run in runs_of(condition) if run.flow in children]
    for run in runs if len(runs) <= MAX_CHILDREN else ():
        child = children[run.flow]
        if (inner := timeline(child, now=now)) is None:
            continue
        place = row.step if run.index is None else f"{row.step}/{run.index}"
        for each in with_children(inner, child, children, now=now).steps:
            after = f"{place}/{each.after}" if each.after else ""
            yield replace(each, step=f"{place}/{each.step}", after=after, is_critical=False)
