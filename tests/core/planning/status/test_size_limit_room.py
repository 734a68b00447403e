"""Admission reserves enough room for the largest status that cannot be made smaller."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from jobflow.api.flow.control import ForEach, Patch, Retry
from jobflow.api.flow.status import (
    FlowState,
    JobFlowStatus,
    RunCondition,
    StepCondition,
    StepFailure,
)
from jobflow.api.flow.step import DependsOn, Probe, Step, TaskStatusProbe
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.rules.size_limits import FIXED_STATUS, least_status
from jobflow.core.admission.validate import Known
from jobflow.core.limits import MAX_FLOW_OUTPUTS, MAX_STEP_OUTPUTS
from jobflow.core.names import format_latest_name
from jobflow.core.planning.status.size_limit import fitted
from jobflow.core.pods.outputs import FIELD_BYTES
from jobflow.core.pods.outputs import measure_outputs as size_of_outputs
from jobflow.core.reasons import StepReason
from jobflow.core.spec.compiled import compile_flow
from support.plan.plan_world import World, world_of
from support.plan.status_room import FULL, drop_everything
from support.plan.world_state import NOW

STEPS = 40
NAMES = [f"step-{n:02}" for n in range(STEPS)]
PROBE = Probe(task_status_list=[TaskStatusProbe(task_name="t", phase="Succeeded")])


@pytest.fixture(autouse=True)
def no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    drop_everything(monkeypatch)


def world(*steps: Step) -> World:
    return world_of(list(steps) or [Step(name=name) for name in NAMES], name="flow")


def room(subject: World) -> int:
    return least_status(FlowFacts(subject.flow, Known()))


def smallest(
    condition: Callable[[str], StepCondition], jobs: str = ""
) -> tuple[JobFlowStatus, int]:
    """Return the smallest status in which all steps have this condition, and its bytes."""
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
    names = [entry.job for entry in (status.conditions or {}).values()]
    status = msgspec.structs.replace(status, **{jobs: names}) if jobs else status
    found = fitted(status, JobFlowStatus())
    return found, len(msgspec.json.encode(found))


def test_each_step_has_the_same_room_regardless_of_their_number() -> None:
    one, two = (room(world(*[Step(name=name) for name in NAMES[:n]])) for n in (1, 2))
    assert room(world()) == FIXED_STATUS + STEPS * (two - one)


def condition(phase: str, reason: str = "", attempts: int = 1, **fields: Any) -> StepCondition:
    return StepCondition(phase=phase, reason=reason, attempts=attempts, **FULL, **fields)


@pytest.mark.parametrize(
    ("condition", "jobs"),
    [
        (condition("Running"), "running_jobs"),
        (condition("Terminating", "Cancelled", abort_time=NOW), "terminated_jobs"),
        (condition("Completed"), "completed_jobs"),
        *((condition("Failed", reason), "terminated_jobs") for reason in StepReason),
        *((condition("Skipped", reason, 0), "") for reason in StepReason),
        (condition("Waiting", "CreateRefused", next_attempt_time=NOW), "un_know_jobs"),
        (condition("Waiting", "WaitingForTemplate", 0), ""),
        *(
            (condition(phase, reason, 99, past_attempts=99), "un_know_jobs")
            for phase, reason in (
                ("Waiting", ""),
                ("Failed", ""),
                ("Skipped", ""),
                ("Waiting", "WaitingForTemplate"),
                ("Failed", "ProbeUnsatisfiable"),
                ("Skipped", "UpstreamFailed"),
            )
        ),
        *(
            (
                condition("Waiting", reason, 99, past_attempts=past, next_attempt_time=NOW),
                "un_know_jobs",
            )
            for reason in ("CreateRefused", "NameInUse", "JobLost", "Retrying")
            for past in (0, 98)
        ),
        (condition("Restarting", "", 99, past_attempts=98), "running_jobs"),
        (
            condition("Terminating", "FailurePolicy", 99, past_attempts=98, abort_time=NOW),
            "terminated_jobs",
        ),
    ],
)
def test_there_is_room_for_steps_with_these_conditions(condition: StepCondition, jobs: str) -> None:
    failure = StepFailure(task="t" * 63, pod="p" * 63, container="c" * 63, exit_code=1, node="n")

    def full(key: str) -> StepCondition:
        named = format_latest_name(key, condition.attempts) if condition.attempts else ""
        return msgspec.structs.replace(condition, job=named, failure=failure)

    _, size = smallest(full, jobs)
    assert size <= room(world()) - MAX_FLOW_OUTPUTS


def test_there_is_room_for_all_outputs() -> None:
    fit = MAX_FLOW_OUTPUTS // (MAX_STEP_OUTPUTS + FIELD_BYTES)
    outputs = {"text": "x" * (MAX_STEP_OUTPUTS - len('{"text":""}'))}
    assert size_of_outputs(outputs) == MAX_STEP_OUTPUTS

    def full(key: str) -> StepCondition:
        some = outputs if key < f"flow-step-{fit:02}" else None
        return StepCondition(
            phase="Failed", reason="JobTerminated", attempts=1, job=key, outputs=some, **FULL
        )

    status, size = smallest(full, "failed_jobs")
    assert sum(c.outputs is not None for c in (status.conditions or {}).values()) == fit
    assert room(world()) - MAX_FLOW_OUTPUTS < size <= room(world())


RUNS_WITH_PATCH = 50
FAILURE = StepFailure(
    task="t" * 63,
    pod="p" * 63,
    container="c" * 63,
    exit_code=-(2**31),
    signal=2**31 - 1,
    reason="r" * 64,
    node="n" * 63,
    message="m" * 256,
    seconds=2**31 - 1,
    disruption=True,
)


def failed_with(failure: StepFailure, fields: str) -> StepFailure:
    return StepFailure(**{field: getattr(failure, field) for field in fields.split()})


@pytest.mark.parametrize(
    ("named", "fields"),
    [
        ("exitCode > 0", "exit_code"),
        ("signal > 0", "exit_code signal"),
        ("node == ''", "node"),
        ("message == ''", "message exit_code signal reason"),
        ("disruption && steps['step-00'].failure.seconds > 1", "disruption seconds"),
    ],
)
def test_there_is_room_for_facts_of_failures_that_are_named(named: str, fields: str) -> None:
    reader = Step(name=NAMES[1], when=f"steps['step-00'].failure.{named}")
    subject = world(Step(name=NAMES[0]), reader)
    status, size = _failed_status(subject)
    key, other = status.conditions or {}
    assert (status.conditions or {})[key].failure == failed_with(FAILURE, fields)
    assert (status.conditions or {})[other].failure is None
    assert size <= room(subject) - MAX_FLOW_OUTPUTS


def test_there_is_room_for_the_failures_of_all_steps() -> None:
    flows = [Step(name=name) for name in NAMES]
    last = Step(name="report", when="size(flow.failures) > 3")
    subject = world(*flows).with_spec(finally_=[last])
    status, size = _failed_status(subject)
    kept = [each.failure for each in (status.conditions or {}).values()]
    assert kept == [msgspec.structs.replace(FAILURE, container="")] * STEPS + [None]
    assert size <= room(subject) - MAX_FLOW_OUTPUTS


@pytest.mark.parametrize("loop", [None, ForEach(count=RUNS_WITH_PATCH)])
def test_there_is_room_for_the_failure_that_the_patch_of_a_retry_names(
    loop: ForEach | None,
) -> None:
    patch = Patch(job_spec={"queue": "$(failure.node)-$(failure.exitCode)"})
    subject = world(Step(name="a", for_each=loop, retry=Retry(limit=100, patch=patch)))
    waiting: dict[str, Any] = {
        **{"phase": "Waiting", "reason": "Retrying", "next_attempt_time": NOW, "attempts": 101},
        **{"failures": 100, "disruptions": 100, "failure": FAILURE, **FULL},
    }
    runs = [
        RunCondition(index=i, job=f"flow-a-{i}-r100", **waiting) for i in range(RUNS_WITH_PATCH)
    ]
    step = StepCondition(job="flow-a-r100", runs=runs if loop else None, **waiting)
    jobs = [run.job for run in runs] if loop else ["flow-a-r100"]
    status = JobFlowStatus(
        conditions={"flow-a": step}, failed_jobs=jobs, next_jobs=["x" * 63] * 100
    )
    named = compile_flow(subject.flow).named_failures
    found = fitted(status, JobFlowStatus(), lambda: named)
    kept = (found.conditions or {})["flow-a"]
    assert kept.failure == failed_with(FAILURE, "node exit_code")
    assert all(run.failure == kept.failure for run in kept.runs or ())
    assert len(msgspec.json.encode(found)) <= room(subject) - MAX_FLOW_OUTPUTS


def _failed_status(subject: World) -> tuple[JobFlowStatus, int]:
    """Return the smallest status in which all steps have failed, and its bytes."""
    keys = [f"flow-{step.name}" for step in subject.flow.all_steps]
    conditions = {
        key: condition("Failed", "JobTerminated", job=key, failure=FAILURE) for key in keys
    }
    status = JobFlowStatus(conditions=conditions, failed_jobs=keys, next_jobs=["x" * 63] * 100)
    named = compile_flow(subject.flow).named_failures
    found = fitted(status, JobFlowStatus(), lambda: named)
    return found, len(msgspec.json.encode(found))


@pytest.mark.parametrize("targets", [0, 1, 5, 38])
@pytest.mark.parametrize(
    "depends_on", [DependsOn(probe=PROBE), DependsOn(condition="Running"), DependsOn()]
)
def test_there_is_room_for_targets_whose_probe_has_passed(
    depends_on: DependsOn, targets: int
) -> None:
    """They are stored until the step starts; an ordinary step has none."""
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
            **FULL,
        )

    status, size = smallest(full)
    for stored in (status.conditions or {}).values():
        assert stored.passed_targets == (passed or None)
    needed = room(world(*steps))
    assert size <= needed - MAX_FLOW_OUTPUTS
    assert (needed > room(world())) == bool(passed)
