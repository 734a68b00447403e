"""One row per step of a flow, read from its status: phase, job, times and what to report."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from jobflow.api.flow_status import (
    ENDED_STEP_PHASES,
    JobRecord,
    RunCondition,
    StepCondition,
    StepPhase,
)
from jobflow.api.job import TaskState
from jobflow.api.jobflow import JobFlow, Step
from jobflow.cli.display.report import printable
from jobflow.core.explain.progress import format_case, format_run_progress
from jobflow.core.names import format_job_name
from jobflow.core.pods.failure import describe_end
from jobflow.core.text import join_names

_MAX_OUTPUTS = 60
"""Characters of outputs; longer ones are not shown."""


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step as it is now."""

    spec: Step
    condition: StepCondition
    job: str
    """The current or last job; all jobs of a forEach; "" before the first."""
    phase: str
    message: str
    attempts: int
    start: datetime | None
    """Creation of the current or last job; of forEach and repeat the first."""
    end: datetime | None
    pods: Mapping[str, TaskState] | None
    """Pods by task while the step runs."""
    outputs: str
    """`acc=0.9, epochs=3` if they are short; of a repeat those of its last run."""

    @property
    def step(self) -> str:
        return self.spec.name

    @property
    def is_completed(self) -> bool:
        return self.phase == StepPhase.COMPLETED

    def duration(self, now: datetime) -> timedelta | None:
        """Time from its first job's start to its end or `now`; None before the first job."""
        if self.start is None:
            return None
        return max((self.end or now) - self.start, timedelta())

    def time_in_phase(self, now: datetime) -> timedelta | None:
        """The duration, or how long a Waiting step has waited."""
        since = self.condition.last_transition_time
        if self.phase == StepPhase.WAITING:
            return None if since is None else max(now - since, timedelta())
        return self.duration(now)

    @property
    def with_reason(self) -> str:
        """`Reason: message`."""
        return with_reason(self.condition.reason, self.message)

    @property
    def brief(self) -> str:
        """A shorter form of `with_reason`: the blocker, or the cause of the failure."""
        failure = self.condition.failure
        if self.phase not in (StepPhase.WAITING, StepPhase.FAILED):
            return self.with_reason
        if failure is not None and failure.pod:
            return f"{describe_end(failure)}: pod {failure.pod}"
        if self.phase == StepPhase.WAITING:
            return self.message.partition(": ")[2] or self.message
        end = self.message.partition(f"the job {self.condition.job} ended ")[2]
        return end or self.with_reason

    def runs(self, *, brief: bool = False) -> str:
        """`12/40 items done, 3 running, 1 failed`; "" for a step with one run."""
        return format_run_progress(self.spec, self.condition, brief=brief)

    @property
    def case(self) -> str:
        """`case 2 of 3: price-large`, if it has a switch."""
        return format_case(self.spec, self.condition)

    @property
    def result(self) -> str:
        """Everything to report of a Completed step."""
        return "; ".join(filter(None, (self.with_reason, self.case, self.runs(), self.outputs)))


def with_reason(reason: str, message: str) -> str:
    """`Reason: message`, or the one that is not empty."""
    return ": ".join(filter(None, (reason, message)))


def step_rows(flow: JobFlow) -> list[StepRow]:
    """Return a row per step in spec order; the steps of `finally` last."""
    conditions = flow.status.conditions or {}
    records = {record.name: record for record in flow.status.job_status_list or ()}
    waiting = StepCondition(phase=StepPhase.WAITING)
    keys = (format_job_name(flow.metadata.name, step.name) for step in flow.all_steps)
    return [
        _row(key, step, conditions.get(key, waiting), records)
        for key, step in zip(keys, flow.all_steps, strict=True)
    ]


_Times = tuple[datetime | None, datetime | None]


def _times(condition: RunCondition, records: Mapping[str, JobRecord]) -> _Times:
    record = records.get(condition.job)
    start = record.start_timestamp if record else None
    return start or condition.create_time, record.end_timestamp if record else None


def _loop_times(condition: StepCondition, records: Mapping[str, JobRecord]) -> _Times:
    """Return the start of the first run, and the end of the last once the step has finished."""
    times = [_times(run, records) for run in condition.runs or ()]
    start = min((start for start, _ in times if start), default=None)
    if condition.phase not in ENDED_STEP_PHASES:
        return start, None
    return start, max((end for _, end in times if end), default=condition.last_transition_time)


def _jobs(key: str, step: Step, condition: StepCondition) -> str:
    """`train-0 … 39` of a forEach, else the current or last job."""
    indices = [run.index for run in condition.runs or () if run.index is not None]
    if step.repeat is not None or not indices:
        return condition.job
    last = f" … {max(indices)}" if len(indices) > 1 else ""
    return f"{key}-{min(indices)}{last}"


def _row(
    key: str, step: Step, condition: StepCondition, records: Mapping[str, JobRecord]
) -> StepRow:
    start, end = (_loop_times if condition.runs else _times)(condition, records)
    last = (condition.runs or (condition,))[-1]
    is_for_each = step.for_each is not None
    message = condition.message
    if is_for_each and condition.runs and _is_running(condition):
        message = message.partition("; ")[2]  # before it the counts of items, which `runs` shows
    return StepRow(
        spec=step,
        condition=condition,
        job=_jobs(key, step, condition),
        phase=condition.phase or StepPhase.WAITING,
        message=printable(message),
        attempts=0 if is_for_each else last.attempts,
        start=start,
        end=end,
        pods=condition.task_status_count if _is_running(condition) and not is_for_each else None,
        outputs=_outputs((condition if is_for_each else last).outputs or {}),
    )


def _is_running(condition: StepCondition) -> bool:
    return condition.phase not in ENDED_STEP_PHASES and condition.phase != StepPhase.WAITING


def _outputs(outputs: Mapping[str, Any]) -> str:
    text = ", ".join(f"{name}={_value(value)}" for name, value in outputs.items())
    return text if len(text) <= _MAX_OUTPUTS else ""


def _value(value: Any) -> str:
    return value if isinstance(value, str) and value.isprintable() else json.dumps(value)


def requested_hours(flow: JobFlow) -> str:
    """`1.25 core hours, 2.5 GiB hours and 0.5 GPU hours`: requests of all finished jobs."""
    conditions = (flow.status.conditions or {}).values()
    hours = [hours for each in conditions if (hours := each.requested_hours) is not None]
    totals = {
        unit: sum(float(getattr(each, field) or 0) for each in hours)
        for unit, field in (("core", "cpu"), ("GiB", "memory"), ("GPU", "gpu"))
    }
    return join_names(
        [
            f"{total:.4f}".rstrip("0").rstrip(".") + f" {unit} hours"
            for unit, total in totals.items()
            if total >= 0.00005
        ]
    )
