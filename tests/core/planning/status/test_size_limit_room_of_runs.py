"""Admission reserves enough room for the runs of forEach and repeat."""

from typing import Any

import msgspec
import pytest

from jobflow.api.flow.control import Case, ForEach, Param, Repeat, Retry
from jobflow.api.flow.jobflow import JobFlow, JobFlowSpec
from jobflow.api.flow.status import (
    Decisions,
    JobFlowStatus,
    JobRecord,
    RunCondition,
    StepCondition,
    StepFailure,
)
from jobflow.api.flow.step import Step
from jobflow.api.resources import ObjectMeta
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.rules.size_limits import least_status
from jobflow.core.admission.validate import Known
from jobflow.core.cel.scope import MAX_ITEMS_SIZE
from jobflow.core.limits import MAX_FLOW_OUTPUTS
from jobflow.core.planning.status.size_limit import DROPS
from support.admission.reviewed import faults, flow_of
from support.plan.status_room import FULL, drop_everything, smallest_of
from support.plan.world_state import NOW


@pytest.fixture(autouse=True)
def no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    drop_everything(monkeypatch)


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


@pytest.mark.parametrize("drop", DROPS)
def test_fields_of_a_step_and_its_runs_are_dropped(drop: Any) -> None:
    run = RunCondition(index=0, phase="Completed", job="flow-a-0", attempts=1, **FULL_RUN)
    step = StepCondition(phase="Completed", job="flow-a-0", attempts=1, **FULL_RUN)
    conditions = {"flow-a": msgspec.structs.replace(step, runs=[run])}
    dropped = drop(JobFlowStatus(conditions=conditions), {})
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
