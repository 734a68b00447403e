"""The times at which something happened in a flow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import ENDED_STEP_PHASES, StepCondition, StepPhase
from jobflow.api.volcano.job import JobPhase
from jobflow.core.names import format_job_name
from jobflow.core.text import join_names
from jobflow.core.timelines.spans import last_retry
from jobflow.core.timelines.timeline import StepTimeline, Timeline


class MomentKind(StrEnum):
    """The most important thing that happened at a time."""

    FAILED = "failed"
    RETRIED = "retried"
    STARTED = "started"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Moment:
    """A time at which something happened."""

    time: datetime
    kind: MomentKind
    words: str
    """`a failed; b and c started`, or `the flow was retried`."""


def moments(flow: JobFlow, found: Timeline) -> list[Moment]:
    """Return the times at which steps and attempts started, failed or ended, and the last retry, in
    their order, one for each second. `found`: the timeline of the flow."""
    by_time: dict[datetime, dict[MomentKind, dict[str, None]]] = {}
    retry = last_retry(flow)
    if retry is not None and found.start <= retry <= found.end:
        by_time[retry] = {MomentKind.RETRIED: {"the flow was": None}}
    conditions = flow.status.conditions or {}
    for line in found.steps:
        key = format_job_name(flow.metadata.name, line.step)
        for time, kind in _of_step(line, conditions.get(key, StepCondition())):
            if found.start <= time <= found.end:
                by_time.setdefault(time, {}).setdefault(kind, {})[line.step] = None
    return [Moment(time, *_describe(by_time[time])) for time in sorted(by_time)]


def _of_step(line: StepTimeline, condition: StepCondition) -> Iterator[tuple[datetime, MomentKind]]:
    last = {span.job: span for span in line.spans if span.job}
    seen = {""}
    for span in line.spans:
        if span.job not in seen:
            seen.add(span.job)
            yield span.start, MomentKind.STARTED
        if span.outcome == JobPhase.FAILED and span is last[span.job]:
            yield span.end, MomentKind.FAILED
    if line.phase in ENDED_STEP_PHASES:
        jobs = [span.end for span in line.spans if span.job]
        time = max(jobs, default=condition.last_transition_time)
        if time is not None:
            is_bad = line.phase == StepPhase.FAILED
            yield time, MomentKind.FAILED if is_bad else MomentKind.ENDED


def _describe(kinds: dict[MomentKind, dict[str, None]]) -> tuple[MomentKind, str]:
    present = [kind for kind in MomentKind if kind in kinds]
    return present[0], "; ".join(f"{join_names(kinds[kind])} {kind}" for kind in present)
