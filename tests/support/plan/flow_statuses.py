"""Flows with handwritten statuses, for tests of the text and the drawings that show them."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from jobflow.api.flow.control import ForEach, Repeat
from jobflow.api.flow.jobflow import JobFlow, JobFlowSpec
from jobflow.api.flow.status import (
    Decisions,
    FlowState,
    JobFlowStatus,
    JobRecord,
    RunCondition,
    StepCondition,
    StepFailure,
)
from jobflow.api.flow.step import DependsOn, Step
from jobflow.api.resources import ObjectMeta

START = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
NOW = START + timedelta(seconds=75)
FAILURE = StepFailure(task="main", pod="f-a-main-0", container="main", exit_code=3, reason="Error")
SOON = NOW + timedelta(seconds=12)


def one(step: Step, condition: StepCondition, phase: str = "Running", **spec: Any) -> JobFlow:
    return several([(step, condition)], phase, **spec)


def several(
    steps: Iterable[tuple[Step, StepCondition]],
    phase: str = "Running",
    *,
    name: str = "f",
    last: Iterable[tuple[Step, StepCondition]] = (),
    status: dict[str, Any] | None = None,
    **spec: Any,
) -> JobFlow:
    """A flow of these steps, `last` in its finally. `status`: fields of its own status."""
    steps, last = list(steps), list(last)
    conditions = {f"{name}-{step.name}": condition for step, condition in (*steps, *last)}
    flow_status = JobFlowStatus(
        state=FlowState(phase=phase),
        start_time=START,
        conditions=conditions,
        job_status_list=list(_records(conditions.values())) or None,
    )
    return JobFlow(
        metadata=ObjectMeta(name=name, namespace="default", creation_timestamp=START),
        spec=JobFlowSpec(
            flows=[step for step, _ in steps], finally_=[step for step, _ in last] or None, **spec
        ),
        status=msgspec.structs.replace(flow_status, **(status or {})),
    )


def _records(conditions: Iterable[StepCondition]) -> Iterable[JobRecord]:
    for condition in conditions:
        for run in condition.runs or (condition,):
            if run.job:
                ended = run.phase in ("Completed", "Failed")
                end = START + timedelta(seconds=2) if ended else None
                yield JobRecord(
                    name=run.job, state=run.phase, start_timestamp=START, end_timestamp=end
                )


def run(index: int, phase: str, step: str = "a", **fields: Any) -> RunCondition:
    return RunCondition(index=index, phase=phase, job=f"f-{step}-{index}", attempts=1, **fields)


def items(phases: str, total: int, phase: str = "Running", **fields: Any) -> JobFlow:
    """A forEach of `total` items; `phases` are those of the started ones: `Completed Running`."""
    runs = [run(index, word) for index, word in enumerate(phases.split())]
    step = Step(name="a", for_each=ForEach(count=total))
    return one(step, StepCondition(phase=phase, runs=runs, attempts=len(runs), **fields))


def repeat(phases: str, phase: str = "Running", **fields: Any) -> JobFlow:
    """A repeat of at most 10 runs; `phases` are those of the started ones."""
    outputs = {"accuracy": 0.9}
    runs = [
        run(index, word, outputs=outputs if word == "Completed" else None)
        for index, word in enumerate(phases.split())
    ]
    step = Step(name="a", repeat=Repeat(until="outputs.accuracy > 0.95", max=10))
    condition = StepCondition(
        phase=phase, runs=runs, attempts=len(runs), job=runs[-1].job, **fields
    )
    return one(step, condition)


def retrying(**fields: Any) -> StepCondition:
    return StepCondition(
        phase="Waiting",
        reason="Retrying",
        message="runs again (1 of 3): the job f-a ended Failed: pod f-a-main-0 (task main): exit "
        "code 3 (Error)",
        job="f-a",
        attempts=1,
        failures=1,
        failure=FAILURE,
        next_attempt_time=SOON,
        last_transition_time=NOW - timedelta(seconds=3),
        **fields,
    )


TAKEN = Decisions(case=1)


Standing = str | tuple[str, str, str]
"""A phase, or a phase with reason and message."""


def standing(
    name: str, phase: str, /, *, after: dict[str, str] | None = None, **steps: Standing
) -> JobFlow:
    """A flow with these steps; `after` has the targets of a step as words."""
    pairs, done = [], 0
    for step, entry in steps.items():
        step_phase, reason, message = entry if isinstance(entry, tuple) else (entry, "", "")
        job = "" if step_phase in ("Waiting", "Skipped") else f"{name}-{step}"
        done += step_phase in ("Completed", "Failed", "Skipped")
        condition = StepCondition(
            phase=step_phase, reason=reason, message=message, job=job, attempts=int(bool(job))
        )
        targets = (after or {}).get(step)
        depends_on = DependsOn(targets=targets.split()) if targets else None
        pairs.append((Step(name=step, depends_on=depends_on), condition))
    return several(pairs, phase, name=name, status={"progress": f"{done}/{len(steps)}"})


def with_conditions(flow: JobFlow, **changes: dict[str, Any]) -> JobFlow:
    """Return the flow with other fields in its steps' conditions."""
    conditions = dict(flow.status.conditions or {})
    for step, fields in changes.items():
        key = f"{flow.metadata.name}-{step}"
        conditions[key] = msgspec.structs.replace(conditions[key], **fields)
    status = msgspec.structs.replace(flow.status, conditions=conditions)
    return msgspec.structs.replace(flow, status=status)


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
