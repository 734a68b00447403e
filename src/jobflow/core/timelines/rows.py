"""Timelines below that of a step: of its runs, and of the steps of its child flows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from operator import attrgetter

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import StepCondition, StepPhase
from jobflow.core.names import format_job_name
from jobflow.core.timelines.spans import RunSpans, Span, State, runs_of
from jobflow.core.timelines.timeline import StepTimeline, Timeline, timeline

MAX_CHILDREN = 8
"""Child flows of a step whose steps are shown."""


def run_timelines(flow: JobFlow, found: Timeline, step: str) -> Iterator[StepTimeline]:
    """Yield the timelines of the runs of a step with forEach or repeat that have begun, named
    `sweep/0`, in the order of their index. `found`: the timeline of the flow."""
    spans = RunSpans(flow, found.start, found.end)
    key = format_job_name(flow.metadata.name, step)
    condition = (flow.status.conditions or {}).get(key, StepCondition())
    for run in condition.runs or ():
        own = tuple(spans.of_run(key, run))
        yield StepTimeline(
            f"{step}/{run.index or 0}",
            run.phase or StepPhase.WAITING,
            len({span.job for span in own if span.job}),
            spans=own,
            ready=own[0].start if own else None,
        )


def merge_spans(spans: Collection[Span]) -> list[Span]:
    """Return spans of parallel runs as few spans: those of one state that overlap or touch are one,
    which has no vcjob unless it is of one only. They are in the order of their start."""
    merged: list[Span] = []
    for state in State:
        row: list[Span] = []
        for span in sorted(
            (each for each in spans if each.state is state), key=attrgetter("start")
        ):
            if row and span.start <= (last := row[-1]).end:
                row[-1] = replace(
                    last,
                    end=max(last.end, span.end),
                    is_open=last.is_open or span.is_open,
                    job=last.job if last.job == span.job else "",
                    outcome=last.outcome if last.outcome == span.outcome else "",
                )
            else:
                row.append(span)
        merged += row
    return sorted(merged, key=attrgetter("start"))


def with_children(
    found: Timeline, flow: JobFlow, children: Mapping[str, JobFlow], *, now: datetime
) -> Timeline:
    """Return the timeline of a flow with the steps of its child flows below the step that runs
    them, named `train/fit` or `train/0/fit`. `children`: by name. The critical path is that of the
    outer flow."""
    # a child flow that ended before the timeline starts did not run again with its parent
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
    # a step with many child flows has one row, or nobody could read the timeline
    runs = [run for run in runs_of(condition) if run.flow in children]
    for run in runs if len(runs) <= MAX_CHILDREN else ():
        child = children[run.flow]
        if (inner := timeline(child, now=now)) is None:
            continue
        place = row.step if run.index is None else f"{row.step}/{run.index}"
        for each in with_children(inner, child, children, now=now).steps:
            after = f"{place}/{each.after}" if each.after else ""
            yield replace(each, step=f"{place}/{each.step}", after=after, is_critical=False)
