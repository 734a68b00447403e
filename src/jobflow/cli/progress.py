"""What a flow's status says of each step, as rows to show: phase, times, what to tell. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from jobflow.api.jobflow import JobFlow, JobRecord, Step, StepCondition, StepPhase
from jobflow.core.names import job_name


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

    def duration(self, now: datetime) -> timedelta | None:
        """How long its vcjob took, or takes at `now`; None where none was made."""
        if self.start is None:
            return None
        return max((self.end or now) - self.start, timedelta())

    @property
    def told(self) -> str:
        """Reason and message, as far as there are any."""
        return told(self.reason, self.message)


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
        message=condition.message,
        attempts=condition.attempts,
        start=start or condition.create_time,
        end=record.end_timestamp if record else None,
    )
