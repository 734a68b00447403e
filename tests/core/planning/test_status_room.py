"""What admission counts for a status is enough for the largest that cannot be made smaller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from jobflow.api.flow_status import FlowState, JobFlowStatus, StepCondition, StepFailure
from jobflow.api.jobflow import DependsOn, Probe, Step, TaskStatusProbe
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.rules.size_limits import FIXED_STATUS, least_status
from jobflow.core.admission.validate import Known
from jobflow.core.limits import MAX_FLOW_OUTPUTS, MAX_STEP_OUTPUTS
from jobflow.core.names import format_latest_name
from jobflow.core.planning.status.size_limit import fitted
from jobflow.core.pods.outputs import FIELD_BYTES
from jobflow.core.pods.outputs import measure_outputs as size_of_outputs
from jobflow.core.reasons import StepReason
from support.plan.plan_world import NOW, World, world_of

STEPS = 40
NAMES = [f"step-{n:02}" for n in range(STEPS)]
PROBE = Probe(task_status_list=[TaskStatusProbe(task_name="t", phase="Succeeded")])
DEAR: dict[str, Any] = {
    "create_time": NOW,
    "running_duration": "3s",
    "last_transition_time": NOW,
    "message": "m",
}


def world(*steps: Step) -> World:
    return world_of(list(steps) or [Step(name=name) for name in NAMES], name="flow")


def room(of: World) -> int:
    return least_status(FlowFacts(of.flow, Known()))


def smallest(
    monkeypatch: pytest.MonkeyPatch, condition: Callable[[str], StepCondition], jobs: str = ""
) -> tuple[JobFlowStatus, int]:
    """A status whose steps all are like that, with all dropped that may be; and its bytes."""
    monkeypatch.setattr("jobflow.core.planning.status.size_limit.LIMIT", 0)
    monkeypatch.setattr("jobflow.core.planning.status.size_limit.MOST", 0)
    keys = [f"flow-{name}" for name in NAMES]
    status = JobFlowStatus(
        state=FlowState(phase="Running", reason="StepFailed", message="m" * 256),
        progress=f"{STEPS}/{STEPS}",
        start_time=NOW,
        completion_time=NOW,
        observed_generation=1,
        conditions={key: condition(key) for key in keys},
        next_jobs=["x" * 63] * 100,
        pod_failure_ratio="0.25",
    )
    made = [each.job for each in (status.conditions or {}).values()]
    status = msgspec.structs.replace(status, **{jobs: made}) if jobs else status
    found = fitted(status, JobFlowStatus())
    return found, len(msgspec.json.encode(found))


def test_the_room_of_a_step_is_the_same_with_any_number_of_steps() -> None:
    one, two = (room(world(*[Step(name=name) for name in NAMES[:n]])) for n in (1, 2))
    assert room(world()) == FIXED_STATUS + STEPS * (two - one)


@pytest.mark.parametrize(
    ("condition", "jobs"),
    [
        (StepCondition(phase="Running", attempts=1, **DEAR), "running_jobs"),
        (
            StepCondition(
                phase="Terminating", reason="Cancelled", attempts=1, abort_time=NOW, **DEAR
            ),
            "terminated_jobs",
        ),
        (StepCondition(phase="Completed", attempts=1, **DEAR), "completed_jobs"),
        *(
            (StepCondition(phase="Failed", reason=reason, attempts=1, **DEAR), "terminated_jobs")
            for reason in StepReason
        ),
        *((StepCondition(phase="Skipped", reason=reason, **DEAR), "") for reason in StepReason),
        (
            StepCondition(
                phase="Waiting", reason="CreateRefused", attempts=1, next_attempt_time=NOW, **DEAR
            ),
            "un_know_jobs",
        ),
        (StepCondition(phase="Waiting", reason="WaitingForTemplate", **DEAR), ""),
        *(
            (StepCondition(phase=phase, attempts=99, past_attempts=99, **DEAR), "un_know_jobs")
            for phase in ("Waiting", "Failed", "Skipped")
        ),
        *(
            (
                StepCondition(
                    phase="Waiting",
                    reason=reason,
                    attempts=99,
                    past_attempts=past,
                    next_attempt_time=NOW,
                    **DEAR,
                ),
                "un_know_jobs",
            )
            for reason in ("CreateRefused", "NameInUse", "JobLost", "Retrying")
            for past in (0, 98)
        ),
        (StepCondition(phase="Restarting", attempts=99, past_attempts=98, **DEAR), "running_jobs"),
        (
            StepCondition(
                phase="Terminating",
                reason="FailurePolicy",
                attempts=99,
                past_attempts=98,
                abort_time=NOW,
                **DEAR,
            ),
            "terminated_jobs",
        ),
        *(
            (
                StepCondition(phase=phase, reason=reason, attempts=99, past_attempts=99, **DEAR),
                "un_know_jobs",
            )
            for phase, reason in (
                ("Waiting", "WaitingForTemplate"),
                ("Failed", "ProbeUnsatisfiable"),
                ("Skipped", "UpstreamFailed"),
            )
        ),
    ],
)
def test_there_is_room_for_steps_that_stand_so(
    monkeypatch: pytest.MonkeyPatch, condition: StepCondition, jobs: str
) -> None:
    failure = StepFailure(task="t" * 63, pod="p" * 63, container="c" * 63, exit_code=1, node="n")

    def full(key: str) -> StepCondition:
        named = format_latest_name(key, condition.attempts) if condition.attempts else ""
        return msgspec.structs.replace(condition, job=named, failure=failure)

    _, size = smallest(monkeypatch, full, jobs)
    assert size <= room(world()) - MAX_FLOW_OUTPUTS


def test_there_is_room_for_all_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = MAX_FLOW_OUTPUTS // (MAX_STEP_OUTPUTS + FIELD_BYTES)
    outputs = {"text": "x" * (MAX_STEP_OUTPUTS - len('{"text":""}'))}
    assert size_of_outputs(outputs) == MAX_STEP_OUTPUTS

    def full(key: str) -> StepCondition:
        some = outputs if key < f"flow-step-{fit:02}" else None
        return StepCondition(
            phase="Failed", reason="JobTerminated", attempts=1, job=key, outputs=some, **DEAR
        )

    status, size = smallest(monkeypatch, full, "failed_jobs")
    assert sum(c.outputs is not None for c in (status.conditions or {}).values()) == fit
    assert room(world()) - MAX_FLOW_OUTPUTS < size <= room(world())


@pytest.mark.parametrize("targets", [0, 1, 5, 38])
@pytest.mark.parametrize(
    "depends_on", [DependsOn(probe=PROBE), DependsOn(condition="Running"), DependsOn()]
)
def test_there_is_room_for_targets_whose_probe_has_passed(
    monkeypatch: pytest.MonkeyPatch, depends_on: DependsOn, targets: int
) -> None:
    """They stay as long as the step has not begun; an ordinary step has none."""
    steps = [
        Step(name=name, depends_on=msgspec.structs.replace(depends_on, targets=NAMES[:targets]))
        for name in NAMES
    ]
    passed = NAMES[:targets] if depends_on != DependsOn() else None

    def full(key: str) -> StepCondition:
        return StepCondition(
            phase="Waiting",
            reason="CreateRefused",
            next_attempt_time=NOW,
            passed_targets=passed or None,
            **DEAR,
        )

    status, size = smallest(monkeypatch, full)
    assert {tuple(c.passed_targets or ()) for c in (status.conditions or {}).values()} == {
        tuple(passed or ())
    }
    needed = room(world(*steps))
    assert size <= needed - MAX_FLOW_OUTPUTS
    assert (needed > room(world())) == bool(passed)
