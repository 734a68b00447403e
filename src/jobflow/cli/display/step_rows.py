"""What a flow's status says of each step, as rows to show: phase, times, what to tell. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from jobflow.api.flow_status import (
    ENDED_STEP_PHASES,
    JobRecord,
    RunCondition,
    StepCondition,
    StepFailure,
    StepPhase,
)
from jobflow.api.job import TaskState
from jobflow.api.jobflow import JobFlow, Step
from jobflow.cli.display.report import visible
from jobflow.core.explain.progress import format_case, format_run_progress
from jobflow.core.names import format_job_name
from jobflow.core.text import join_names

_LONGEST_OUTPUTS = 60
"""Characters of outputs that are shown."""


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step as it stands."""

    step: str
    job: str
    """Its current or last vcjob, of a forEach all of them; empty where none was made."""
    last_job: str
    """The vcjob by which it stands as it does, of a forEach that failed the item's."""
    phase: str
    reason: str
    message: str
    attempts: int
    start: datetime | None
    """When its current or last vcjob was made; of forEach and repeat the first."""
    end: datetime | None
    since: datetime | None
    """Since when it is in this phase for this reason."""
    pods: Mapping[str, TaskState] | None
    """By task, while it runs."""
    failure: StepFailure | None
    outputs: str
    """`acc=0.9, epochs=3`, where they are short; of a repeat those of its last run."""
    next_attempt: datetime | None
    """When it runs again, while it waits for that."""
    runs: str
    """`12/40 items done, 3 running, 1 failed`; empty where it has but one run."""
    few_runs: str
    """The same in fewer words."""
    case: str
    """`case 2 of 3: price-large`, where it has a switch."""

    def duration(self, now: datetime) -> timedelta | None:
        """How long its vcjobs took, or take at `now`; None where none was made."""
        if self.start is None:
            return None
        return max((self.end or now) - self.start, timedelta())

    def lasting(self, now: datetime) -> timedelta | None:
        """How long its vcjob took or takes, or how long the step has waited for one."""
        if self.phase == StepPhase.WAITING:
            return None if self.since is None else max(now - self.since, timedelta())
        return self.duration(now)

    @property
    def told(self) -> str:
        """Reason and message, as far as there are any."""
        return told(self.reason, self.message)

    @property
    def brief(self) -> str:
        """The same in fewer words, for where there is little room: what is in the way, or by what
        it failed."""
        if self.phase == StepPhase.WAITING:
            return self._failed_by or self.message.partition(": ")[2] or self.message
        if self.phase != StepPhase.FAILED:
            return self.told
        ended = self.message.partition(f"the job {self.last_job} ended ")[2]
        return self._failed_by or ended or self.told

    @property
    def _failed_by(self) -> str:
        """`exit code 3 (Error): pod train-worker-1`, where a pod is known by which it failed."""
        if (by := self.failure) is None or not by.pod:
            return ""
        code = "" if by.exit_code is None else f"exit code {by.exit_code}"
        how = f"{code} ({by.reason})" if code and by.reason else code or by.reason or "failed"
        return f"{how}: pod {by.pod}"

    @property
    def result(self) -> str:
        """What a step that has completed has come to."""
        return "; ".join(filter(None, (self.told, self.case, self.runs, self.outputs)))


def told(reason: str, message: str) -> str:
    """`Reason: message`, as far as there is any."""
    return ": ".join(part for part in (reason, message) if part)


def rows(flow: JobFlow) -> list[StepRow]:
    """A row for each step, in the order of `spec.flows`; those of `finally` behind them."""
    return list(_rows(flow))


def _rows(flow: JobFlow) -> Iterator[StepRow]:
    conditions = flow.status.conditions or {}
    records = {record.name: record for record in flow.status.job_status_list or ()}
    nothing = StepCondition(phase=StepPhase.WAITING)
    for step in flow.all_steps:
        key = format_job_name(flow.metadata.name, step.name)
        condition = conditions.get(key, nothing)
        if condition.runs:
            yield _row(step, condition, _jobs(key, step, condition), _span(condition, records))
        else:
            yield _row(step, condition, condition.job, _times(condition, records))


Times = tuple[datetime | None, datetime | None]
"""Of a start and an end."""


def _times(condition: RunCondition, records: Mapping[str, JobRecord]) -> Times:
    """Of the current or last vcjob of a run."""
    record = records.get(condition.job)
    start = record.start_timestamp if record else None
    return start or condition.create_time, record.end_timestamp if record else None


def _span(condition: StepCondition, records: Mapping[str, JobRecord]) -> Times:
    """From the first vcjob of a forEach or repeat to the end of the last."""
    times = [_times(run, records) for run in condition.runs or ()]
    start = min((start for start, _ in times if start), default=None)
    if condition.phase not in ENDED_STEP_PHASES:
        return start, None
    return start, max((end for _, end in times if end), default=condition.last_transition_time)


def _jobs(key: str, step: Step, condition: StepCondition) -> str:
    """`train-0 … 39` of a forEach; of a repeat the vcjob of its last run."""
    indices = [run.index for run in condition.runs or () if run.index is not None]
    if step.repeat is not None or not indices:
        return condition.job
    last = f" … {max(indices)}" if len(indices) > 1 else ""
    return f"{key}-{min(indices)}{last}"


def _row(step: Step, condition: StepCondition, job: str, times: Times) -> StepRow:
    start, end = times
    last = (condition.runs or (condition,))[-1]
    alone = condition if step.for_each is not None else last
    return StepRow(
        step=step.name,
        job=job,
        last_job=condition.job,
        phase=condition.phase or StepPhase.WAITING,
        reason=condition.reason,
        message=visible(_message(step, condition)),
        attempts=0 if step.for_each is not None else last.attempts,
        start=start,
        end=end,
        since=condition.last_transition_time,
        pods=condition.task_status_count if _runs(condition) and not step.for_each else None,
        failure=condition.failure,
        outputs=_outputs(alone.outputs or {}),
        next_attempt=condition.next_attempt_time,
        runs=format_run_progress(step, condition),
        few_runs=format_run_progress(step, condition, brief=True),
        case=format_case(step, condition),
    )


def _message(step: Step, condition: StepCondition) -> str:
    """What the status says; of items that run only what is in the way of one, for the rest is said
    by their numbers."""
    if step.for_each is not None and condition.runs and _runs(condition):
        return condition.message.partition("; ")[2]
    return condition.message


def _runs(condition: StepCondition) -> bool:
    return condition.phase not in ENDED_STEP_PHASES and condition.phase != StepPhase.WAITING


def _outputs(outputs: Mapping[str, Any]) -> str:
    said = ", ".join(f"{name}={_value(value)}" for name, value in outputs.items())
    return said if len(said) <= _LONGEST_OUTPUTS else ""


def _value(value: Any) -> str:
    return value if isinstance(value, str) and value.isprintable() else json.dumps(value)


def requested_hours(flow: JobFlow) -> str:
    """`1.25 core hours, 2.5 GiB hours and 0.5 GPU hours`: what its jobs held of the cluster, as far
    as they have ended; empty where that is nothing."""
    hours = [c.requested_hours for c in (flow.status.conditions or {}).values()]
    known = [each for each in hours if each is not None]
    totals = [
        (sum(float(each.cpu or 0) for each in known), "core"),
        (sum(float(each.memory or 0) for each in known), "GiB"),
        (sum(float(each.gpu or 0) for each in known), "GPU"),
    ]
    said = [
        f"{total:.4f}".rstrip("0").rstrip(".") + f" {unit} hours"
        for total, unit in totals
        if total >= 0.00005
    ]
    return join_names(said)
