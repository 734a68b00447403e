"""Admission reserves enough room for the largest status that cannot be made smaller."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from jobflow.api.control import Case, ForEach, Param, Repeat, Retry
from jobflow.api.flow_status import (
    Decisions,
    FlowState,
    JobFlowStatus,
    JobRecord,
    RunCondition,
    StepCondition,
    StepFailure,
)
from jobflow.api.jobflow import DependsOn, JobFlow, JobFlowSpec, Probe, Step, TaskStatusProbe
from jobflow.api.meta import ObjectMeta
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.rules.size_limits import FIXED_STATUS, least_status
from jobflow.core.admission.validate import Known
from jobflow.core.cel.scope import MAX_ITEMS_SIZE
from jobflow.core.limits import MAX_FLOW_OUTPUTS, MAX_STEP_OUTPUTS
from jobflow.core.names import format_latest_name
from jobflow.core.planning.status.size_limit import DROPS, fitted
from jobflow.core.pods.outputs import FIELD_BYTES
from jobflow.core.pods.outputs import measure_outputs as size_of_outputs
from jobflow.core.reasons import StepReason
from support.admission.reviewed import faults, flow_of
from support.plan.plan_world import NOW, World, world_of

STEPS = 40
NAMES = [f"step-{n:02}" for n in range(STEPS)]
PROBE = Probe(task_status_list=[TaskStatusProbe(task_name="t", phase="Succeeded")])
FULL: dict[str, Any] = {
    "create_time": NOW,
    "running_duration": "3s",
    "last_transition_time": NOW,
    "message": "m",
}


@pytest.fixture(autouse=True)
def no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobflow.core.planning.status.size_limit.LIMIT", 0)
    monkeypatch.setattr("jobflow.core.planning.status.size_limit.MOST", 0)


def smallest_of(status: JobFlowStatus) -> int:
    return len(msgspec.json.encode(fitted(status, JobFlowStatus())))


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


RUNS = 50
FULL_RUN: dict[str, Any] = {
    **FULL,
    "avoid_nodes": ["n" * 63] * 10,
    "failure": StepFailure(task="t" * 63, pod="p" * 63, exit_code=1),
}


def room_of_runs(*steps: Step, params: list[Param] | None = None) -> int:
    spec = JobFlowSpec(flows=list(steps), params=params)
    flow = JobFlow(metadata=ObjectMeta(name="flow", namespace="n"), spec=spec)
    return least_status(FlowFacts(flow, Known())) - MAX_FLOW_OUTPUTS


def status_of_runs(runs: list[RunCondition], **step: Any) -> JobFlowStatus:
    jobs = [run.job for run in runs if run.job]
    return JobFlowStatus(
        conditions={"flow-a": StepCondition(phase="Running", runs=runs, **step)},
        job_status_list=[JobRecord(name=job, state="Running") for job in jobs],
        running_jobs=jobs,
        next_jobs=["x" * 63] * 100,
    )


CONDITIONS: dict[str, dict[str, Any]] = {
    "running": {"phase": "Running"},
    "aborting": {"phase": "Terminating", "reason": "FailurePolicy", "abort_time": NOW},
    "completed": {"phase": "Completed", "reason": "OutputsMissing"},
    "failed": {"phase": "Failed", "reason": "OutputsTooLarge"},
    "refused": {"phase": "Waiting", "reason": "CreateRefused", "next_attempt_time": NOW},
}


@pytest.mark.parametrize("condition", CONDITIONS.values(), ids=CONDITIONS.keys())
@pytest.mark.parametrize("again", [0, 100])
@pytest.mark.parametrize("timed", [False, True])
def test_there_is_room_for_runs_with_these_conditions(
    condition: dict[str, Any], again: int, timed: bool
) -> None:
    step = Step(
        name="a",
        for_each=ForEach(count=RUNS),
        retry=Retry(limit=again) if again else None,
        timeout="1h" if timed else None,
    )
    runs = [
        RunCondition(
            index=i,
            job=f"flow-a-{i}" + (f"-r{again}" if again else ""),
            attempts=again + 1,
            failures=again,
            past_attempts=again,
            deadline=NOW if timed else None,
            **FULL_RUN,
            **condition,
        )
        for i in range(RUNS)
    ]
    assert smallest_of(status_of_runs(runs, **FULL_RUN)) <= room_of_runs(step)


def test_ended_runs_need_less_room() -> None:
    """All but one run of a repeat, and all but `parallelism` items, have ended."""
    ended = [
        RunCondition(index=i, phase="Completed", job=f"flow-a-{i}", attempts=1, **FULL_RUN)
        for i in range(RUNS - 1)
    ]
    last = RunCondition(
        index=RUNS - 1, job=f"flow-a-{RUNS - 1}", attempts=1, **FULL_RUN, **CONDITIONS["aborting"]
    )
    size = smallest_of(status_of_runs([*ended, last], **FULL_RUN))
    repeated = room_of_runs(Step(name="a", repeat=Repeat(until="true", max=RUNS)))
    one_by_one = room_of_runs(Step(name="a", for_each=ForEach(count=RUNS, parallelism=1)))
    at_once = room_of_runs(Step(name="a", for_each=ForEach(count=RUNS)))
    assert size <= repeated == one_by_one < at_once


@pytest.mark.parametrize("reason", ["OutputsTooLarge", "ExpressionError", "NameConflict"])
def test_there_is_room_for_items_that_fail_one_after_another(reason: str) -> None:
    runs = [
        RunCondition(
            index=i, phase="Failed", reason=reason, job=f"flow-a-{i}", attempts=1, **FULL_RUN
        )
        for i in range(RUNS)
    ]
    step = Step(name="a", for_each=ForEach(count=RUNS, parallelism=1), continue_on_failure=True)
    assert smallest_of(status_of_runs(runs, **FULL_RUN)) <= room_of_runs(step)


def test_there_is_room_for_decisions() -> None:
    items = ["x" * 100] * 300
    decisions = Decisions(when=False, case=99, items=items)
    waiting = StepCondition(
        phase="Waiting", reason="CreateRefused", decisions=decisions, **FULL_RUN
    )
    size = smallest_of(JobFlowStatus(conditions={"flow-a": waiting}))
    assert size > len(msgspec.json.encode(items))
    cases = [Case(when="true")]
    dynamic = ForEach(from_="steps.b.outputs.items", parallelism=1)
    assert size <= room_of_runs(Step(name="a", when="true", switch=cases, for_each=dynamic))
    named = ForEach(from_="params.list", parallelism=1)
    known = [Param(name="list", value=items)]
    by_param = room_of_runs(Step(name="a", when="true", switch=cases, for_each=named), params=known)
    assert size <= by_param < size + 300 * 150 + MAX_ITEMS_SIZE


def test_the_items_of_each_step_need_room_even_if_they_are_one_param() -> None:
    params = [Param(name="list", value=["x" * 100] * 300)]

    def size_of(*names: str) -> int:
        loop = ForEach(from_="params.list", parallelism=1)
        return room_of_runs(*(Step(name=name, for_each=loop) for name in names), params=params)

    assert size_of("a", "b") - size_of("a") == size_of("a") - size_of() > 300 * 100


@pytest.mark.parametrize("drop", DROPS, ids=lambda drop: drop.__name__)
def test_fields_of_a_step_and_its_runs_are_dropped(drop: Any) -> None:
    run = RunCondition(index=0, phase="Completed", job="flow-a-0", attempts=1, **FULL_RUN)
    step = StepCondition(phase="Completed", job="flow-a-0", attempts=1, **FULL_RUN)
    conditions = {"flow-a": msgspec.structs.replace(step, runs=[run])}
    dropped = drop(JobFlowStatus(conditions=conditions))
    (condition,) = (dropped.conditions or {}).values()
    (after,) = condition.runs
    kept = {key for key in FULL_RUN if getattr(condition, key)}
    assert {key for key in FULL_RUN if getattr(after, key)} == kept


def test_five_thousand_runs_fit_and_more_are_refused() -> None:
    name = "n" * 15
    loops = [{"name": f"{name}{i}", "forEach": {"count": 1000}} for i in range(5)]
    parallel = [{**step, "forEach": {"count": 1000, "parallelism": 10}} for step in loops]
    many = [{**step, "name": f"{step['name']}x"} for step in loops]
    assert faults(flow_of(*parallel, name="f" * 20)) == []
    assert faults(flow_of(*parallel, *many, name="f" * 20)) == [
        (
            "spec.flows: Too many: 10 steps with up to 10,000 runs, so the status may "
            "reach 1.7 MiB of 1 MiB; split the flow, or reduce forEach.parallelism, "
            "forEach.count and repeat.max (forEach.from counts as 1,000 items unless it "
            "is a param)"
        )
    ]
