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
    StepCondition,
    StepFailure,
    StepPhase,
)
from jobflow.api.job import TaskState
from jobflow.api.jobflow import JobFlow, Step
from jobflow.cli.report import visible
from jobflow.core.names import job_name
from jobflow.core.wording import listed

_LONGEST_OUTPUTS = 60
"""Characters of outputs that are shown."""


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step as it stands."""

    step: str
    job: str
    """Its current or last vcjob; empty where none was made."""
    phase: str
    reason: str
    message: str
    attempts: int
    start: datetime | None
    """When its current or last vcjob was made."""
    end: datetime | None
    since: datetime | None
    """Since when it is in this phase for this reason."""
    pods: Mapping[str, TaskState] | None
    """By task, while it runs."""
    failure: StepFailure | None
    outputs: str
    """`acc=0.9, epochs=3`, where they are short."""

    def duration(self, now: datetime) -> timedelta | None:
        """How long its vcjob took, or takes at `now`; None where none was made."""
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
            return self.message.partition(": ")[2] or self.message
        if self.phase != StepPhase.FAILED:
            return self.told
        if (by := self.failure) is not None and by.pod:
            code = "" if by.exit_code is None else f"exit code {by.exit_code}"
            how = f"{code} ({by.reason})" if code and by.reason else code or by.reason or "failed"
            return f"{how}: pod {by.pod}"
        return self.message.partition(f"the job {self.job} ended ")[2] or self.told


def told(reason: str, message: str) -> str:
    """`Reason: message`, as far as there is any."""
    return ": ".join(part for part in (reason, message) if part)


def rows(flow: JobFlow) -> list[StepRow]:
    """A row for each step, in the order of `spec.flows`."""
    return list(_rows(flow))


def _rows(flow: JobFlow) -> Iterator[StepRow]:
    conditions = flow.status.conditions or {}
    records = {record.name: record for record in flow.status.job_status_list or ()}
    nothing = StepCondition(phase=StepPhase.WAITING)
    for step in flow.steps:
        condition = conditions.get(job_name(flow.metadata.name, step.name), nothing)
        yield _row(step, condition, records.get(condition.job))


def _row(step: Step, condition: StepCondition, record: JobRecord | None) -> StepRow:
    start = record.start_timestamp if record else None
    return StepRow(
        step=step.name,
        job=condition.job,
        phase=condition.phase or StepPhase.WAITING,
        reason=condition.reason,
        message=visible(condition.message),
        attempts=condition.attempts,
        start=start or condition.create_time,
        end=record.end_timestamp if record else None,
        since=condition.last_transition_time,
        pods=condition.task_status_count if _runs(condition) else None,
        failure=condition.failure,
        outputs=_outputs(condition.outputs or {}),
    )


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
    return listed(said)
