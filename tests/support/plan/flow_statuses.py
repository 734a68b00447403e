"""Flows as they stand, for tests of what is drawn of them: status objects made by hand."""

from datetime import UTC, datetime, timedelta

from jobflow.api.flow_status import FlowState, JobFlowStatus, JobRecord, StepCondition
from jobflow.api.jobflow import DependsOn, JobFlow, JobFlowSpec, Step
from jobflow.api.meta import ObjectMeta

START = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
NOW = START + timedelta(seconds=75)
_ENDED = {"Completed", "Failed"}
_NO_JOB = {"Waiting", "Skipped"}

Standing = str | tuple[str, str, str]
"""A phase, or a phase with reason and message."""


def standing(
    name: str, phase: str, /, *, after: dict[str, str] | None = None, **steps: Standing
) -> JobFlow:
    """A flow in `phase` with these steps; `after` says what they depend on, as words.

    Jobs were made at START; those that have ended took two seconds.
    """
    after = after or {}
    conditions, records = {}, []
    for step, given in steps.items():
        word, reason, message = given if isinstance(given, tuple) else (given, "", "")
        job = "" if word in _NO_JOB else f"{name}-{step}"
        conditions[f"{name}-{step}"] = StepCondition(
            phase=word, reason=reason, message=message, job=job, attempts=int(bool(job))
        )
        if job:
            end = START + timedelta(seconds=2) if word in _ENDED else None
            records.append(
                JobRecord(name=job, state=word, start_timestamp=START, end_timestamp=end)
            )
    done = sum(c.phase in _ENDED | {"Skipped"} for c in conditions.values())
    return JobFlow(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=JobFlowSpec(
            flows=[
                Step(
                    name=step,
                    depends_on=DependsOn(targets=after[step].split()) if step in after else None,
                )
                for step in steps
            ]
        ),
        status=JobFlowStatus(
            state=FlowState(phase=phase),
            progress=f"{done}/{len(steps)}",
            start_time=START,
            conditions=conditions,
            job_status_list=records,
        ),
    )


DIAMOND = standing(
    "test",
    "Running",
    after={"b": "a", "c": "b", "d": "b", "e": "c d"},
    a="Completed",
    b="Completed",
    c="Running",
    d="Pending",
    e=("Waiting", "", "waits for c (Running) and d (Pending)"),
)
FAILED = standing(
    "training",
    "Failed",
    after={"evaluate": "train", "alarm": "train"},
    train=("Failed", "JobFailed", "the job training-train ended Failed: task worker lost two pods"),
    evaluate=("Skipped", "UpstreamFailed", "train did not complete"),
    alarm="Completed",
)
