"""Ends of targets in an annotation of vcjobs: encoding, parsing and use in a plan."""

import json
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from jobflow.api import labels
from jobflow.api.flow.control import ForEach, Repeat
from jobflow.api.flow.status import JobFlowStatus, StepCondition
from jobflow.api.flow.step import Step
from jobflow.api.volcano.job import Job
from jobflow.core.planning.decision import TargetEnd
from jobflow.core.planning.target_ends import MOST_BYTES, encode_ends, parse_ends
from support.laws.effort_of_laws import tries
from support.laws.random_flows import flows_with_probes
from support.plan.loop_worlds import end_jobs, jobs_in, runs, two_steps
from support.plan.plan_world import World, after, flow, world_of
from support.plan.steps import step


def recorded_ends(world: World, name: str) -> Any:
    return json.loads((world.jobs[name].metadata.annotations or {})[labels.TARGET_ENDS])


def with_recorded_ends(world: World, name: str, value: object) -> World:
    """Set the annotation of a vcjob: a text unchanged, any other value as JSON."""
    text = value if isinstance(value, str) else json.dumps(value)
    known = world.jobs[name].metadata.annotations or {}
    return world.with_metadata(name, annotations={**known, labels.TARGET_ENDS: text})


def without_status(world: World) -> World:
    return world.with_status(JobFlowStatus())


def test_a_vcjob_records_the_ends_of_its_targets() -> None:
    world = flow("a", x=step(continue_on_failure=True), b=after("a x")).settled()
    assert recorded_ends(world, "f-a") == {}
    world = end_jobs(end_jobs(world, "Completed", "f-a"), "Failed", "f-x")
    assert recorded_ends(world, "f-b") == {
        "a": {"phase": "Completed", "attempts": 1},
        "x": {"phase": "Failed", "reason": "JobFailed", "attempts": 1},
    }


def test_skipped_targets_are_recorded_and_running_ones_are_not() -> None:
    world = flow("a", "s", no=after("a", condition="Failed"), b=after("a no", condition="Finished"))
    world = world.with_spec(
        flows=[*world.flow.steps, Step(name="c", depends_on=after("s a", strategy="any"))]
    )
    world = end_jobs(world.settled(), "Completed", "f-a")
    assert recorded_ends(world, "f-b")["no"] == {"phase": "Skipped", "reason": "NotTaken"}
    assert recorded_ends(world, "f-c") == {"a": {"phase": "Completed", "attempts": 1}}


def test_ends_beyond_the_size_limit_are_omitted() -> None:
    condition = StepCondition(phase="Completed", attempts=1)
    text = encode_ends({f"{n:04}{'x' * 59}": condition for n in range(1000)})
    assert MOST_BYTES - 120 < len(text) <= MOST_BYTES
    found = parse_ends(text)
    assert list(found) == [f"{n:04}{'x' * 59}" for n in range(len(found))]


END = {"phase": "Failed", "reason": "JobFailed", "attempts": 2}


def test_encoded_ends_are_parsed() -> None:
    condition = StepCondition(phase="Failed", reason="JobFailed", attempts=2)
    waits = StepCondition(phase="Waiting")
    assert parse_ends(encode_ends({"a": condition, "b": waits})) == {
        "a": TargetEnd("Failed", "JobFailed", 2)
    }


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "7", '"a"', "[" * 10_000, '{"a":' * 2_000, '{"a": {"phase": "\ud800"}}']
    + [json.dumps({"a": END}) + " " * MOST_BYTES],
)
def test_an_invalid_annotation_has_no_ends(text: str) -> None:
    assert parse_ends(text) == {}


@pytest.mark.parametrize(
    "entry",
    [
        None,
        [],
        "Failed",
        {},
        {**END, "phase": "Running"},
        {**END, "phase": 7},
        {**END, "reason": "Because"},
        {**END, "reason": None},
        {**END, "reason": ""},
        {"phase": "Skipped"},
        {**END, "attempts": -1},
        {**END, "attempts": 10**9},
        {**END, "attempts": 10**30},
        {**END, "attempts": 1.5},
        {**END, "attempts": True},
        [[[[[[{}]]]]]],
    ],
)
def test_an_impossible_end_is_ignored(entry: object) -> None:
    assert parse_ends(json.dumps({"a": entry, "b": END})).keys() == {"b"}


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 10**20)
    | st.floats()
    | st.sampled_from(["Completed", "Failed", "Skipped", "JobFailed", "a", "b", "\ud800"])
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["a", "b", "phase", "reason", "attempts"]) | st.text(max_size=3),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(values.map(json.dumps) | st.text(max_size=60), st.sampled_from(["Running", "Failed"]))
@tries(150)
def test_a_plan_accepts_any_annotation(text: str, phase: str) -> None:
    world = without_status(with_recorded_ends(flow("a", b="a").with_jobs(b=phase), "f-b", text))
    planned = world.plan()
    assert planned.phases["a"] in ("Waiting", "Completed", "Failed", "Skipped")
    assert planned.plan == world.plan().plan


def started(phase: str, *names: str, **fields: Any) -> World:
    """a ended in this phase, b has started, and the vcjobs of a no longer exist."""
    condition = "Finished" if phase != "Completed" else None
    world = world_of(
        [Step(name="a", **fields), Step(name="b", depends_on=after("a", condition=condition))]
    )
    for name in names or ("f-a",):
        world = end_jobs(world.settled(), phase, name)
    remaining = {name: job for name, job in world.jobs.items() if not name.startswith("f-a")}
    return replace(world, jobs=remaining)


@pytest.mark.parametrize(("phase", "reason"), [("Completed", ""), ("Failed", "JobFailed")], ids=str)
def test_a_step_whose_status_and_vcjob_are_lost_is_not_run_again(phase: str, reason: str) -> None:
    planned = without_status(started(phase)).plan()
    assert (planned.creates, planned.job_reads) == ([], [])
    assert planned.phases == {"a": phase, "b": "Pending"}
    condition = planned.conditions["a"]
    assert (condition.reason, condition.attempts, condition.job) == (reason, 1, "f-a")
    assert condition.message == "the job f-a is gone; a step that started after it recorded its end"
    world = end_jobs(planned.world.settled(), "Completed", "f-b")
    assert world.plan().phase == ("Succeed" if phase == "Completed" else "Failed")
    assert world.plan().nothing


def test_a_recorded_end_counts_if_the_status_has_only_the_start() -> None:
    """Its vcjob was created, ended and deleted before the next write of the status."""
    first = flow("a", b="a").stored()
    world = replace(first.apply().settled(), flow=first.flow)
    world = end_jobs(world, "Completed", "f-a").without_jobs("a")
    world = replace(world, flow=first.flow)
    assert world.plan().phases == {"a": "Completed", "b": "Pending"}
    assert world.plan().creates == []


def test_a_target_that_was_skipped_is_skipped_again() -> None:
    world = flow("x", a=after("x", condition="Failed"), b=after("a x", condition="Finished"))
    world = end_jobs(world.settled(), "Completed", "f-x").without_jobs("x")
    planned = without_status(world).plan()
    assert planned.phases == {"x": "Completed", "a": "Skipped", "b": "Pending"}
    assert planned.skipped == {"a": "NotTaken"}


def test_the_end_of_a_step_that_may_fail_is_not_inferred() -> None:
    world = end_jobs(flow(a=step(continue_on_failure=True), b="a").settled(), "Failed", "f-a")
    planned = without_status(world.without_jobs("a")).plan()
    assert planned.failed == {"a": "JobFailed"}


def test_the_job_of_a_step_counts_before_a_recorded_end() -> None:
    world = end_jobs(flow("a", b="a").settled(), "Completed", "f-a")
    again = without_status(world.with_jobs(a="Failed"))
    assert again.plan().failed == {"a": "JobFailed"}
    running = without_status(world.with_jobs(a="Running"))
    assert running.plan().phases["a"] == "Running"
    skipped = with_recorded_ends(running, "f-b", {"a": {"phase": "Skipped", "reason": "Stopped"}})
    assert skipped.plan().phases["a"] == "Running"


def test_a_later_attempt_makes_a_recorded_end_void() -> None:
    world = without_status(started("Completed"))
    later = world.with_job(world.job("a", "Running", run=1))
    assert later.plan().phases["a"] == "Running"
    runs_on = StepCondition(phase="Running", job="f-a-r1", attempts=2)
    deleted = world.with_status(JobFlowStatus(conditions={"f-a": runs_on}))
    assert deleted.plan().job_reads == ["f-a-r1"]


def test_an_earlier_attempt_does_not_make_a_recorded_end_void() -> None:
    world = with_recorded_ends(flow("a", b="a").with_jobs(a="Failed", b="Running"), "f-b", {"a": {
        "phase": "Completed", "attempts": 2}})  # fmt: skip
    planned = world.plan()
    assert planned.phases == {"a": "Completed", "b": "Running"}
    assert planned.conditions["a"].job == "f-a-r1"


def test_the_recorded_end_after_the_most_attempts_counts() -> None:
    world = flow("a", h=after("a", condition="Failed"), b="a").with_jobs(h="Completed", b="Running")
    world = with_recorded_ends(
        world, "f-h", {"a": {"phase": "Failed", "reason": "JobFailed", "attempts": 1}}
    )
    world = with_recorded_ends(world, "f-b", {"a": {"phase": "Completed", "attempts": 2}})
    assert world.plan().phases["a"] == "Completed"


@pytest.mark.parametrize(
    "end", [END, {"phase": "Skipped", "reason": "UpstreamFailed"}], ids=["failed", "skipped"]
)
def test_an_end_recorded_before_a_retry_of_the_flow_is_void(end: dict[str, Any]) -> None:
    """A create from before the end of the flow arrives after the retry."""
    attempts = end.get("attempts", 0)
    waits = StepCondition(phase="Waiting", attempts=attempts, past_attempts=attempts)
    world = flow("a", b=after("a", condition="Finished")).with_jobs(b="Running")
    world = with_recorded_ends(world, "f-b", {"a": end})
    conditions = {"f-a": waits, "f-b": StepCondition(phase="Waiting")}
    world = world.with_status(JobFlowStatus(conditions=conditions))
    assert world.plan().phases == {"a": "Waiting", "b": "Running"}


def test_a_vcjob_that_the_status_knows_records_nothing() -> None:
    world = with_recorded_ends(flow("a", b="a").with_jobs(b="Running"), "f-b", {"a": END})
    waiting = StepCondition(phase="Waiting")
    started_b = StepCondition(phase="Running", job="f-b", attempts=1)
    known = world.with_status_fields(conditions={"f-a": waiting, "f-b": started_b})
    assert world.plan().phases["a"] == "Failed"
    assert known.plan().phases["a"] == "Waiting"


def test_ends_of_steps_that_are_not_targets_are_ignored() -> None:
    recorded = {"a": END, "b": END, "x": END, "": END}
    world = with_recorded_ends(flow("a", "x", b="a").with_jobs(b="Running"), "f-b", recorded)
    assert world.plan().phases == {"a": "Failed", "x": "Skipped", "b": "Running"}
    assert world.plan().skipped == {"x": "Stopped"}


def step_of(job: Job) -> str:
    return (job.metadata.annotations or {})[labels.STEP]


def ends_recorded_by(job: Job, world: World) -> set[str]:
    recorded = parse_ends((job.metadata.annotations or {})[labels.TARGET_ENDS])
    now = {step: (world.flow.status.conditions or {})[f"f-{step}"] for step in recorded}
    return {
        step
        for step, end in recorded.items()
        if end.attempts and (end.phase, end.attempts) == (now[step].phase, now[step].attempts)
    }


def run_on(world: World, random: Random, count: int) -> World:
    world = world.settled()
    for _ in range(count):
        live = [name for name in jobs_in(world) if not world.jobs[name].ended]
        if not live:
            break
        world = end_jobs(world, random.choice(("Completed", "Completed", "Failed")), live[0])
    return world


@given(flows_with_probes(), st.randoms(use_true_random=False), st.integers(1, 7))
@tries(100)
def test_recorded_ends_survive_a_lost_status_and_lost_vcjobs(
    start: World, random: Random, count: int
) -> None:
    world = run_on(start, random, count)
    recorded = {step: job for job in world.jobs.values() for step in ends_recorded_by(job, world)}
    lost = {step for step, job in recorded.items() if step_of(job) not in recorded}
    remaining = {name: job for name, job in world.jobs.items() if step_of(job) not in lost}
    planned = without_status(replace(world, jobs=remaining)).plan()
    for name in lost:
        before = (world.flow.status.conditions or {})[f"f-{name}"]
        now = planned.conditions[name]
        assert (now.phase, now.attempts) == (before.phase, before.attempts)
        assert f"f-{name}" not in planned.creates
    event("some are lost" if lost else "none is lost")


@pytest.mark.parametrize(
    ("loop", "ended", "end"),
    [
        ({"for_each": ForEach(count=2)}, ["f-a-0 f-a-1"], "Completed"),
        ({"repeat": Repeat(until="index > 0", max=3)}, ["f-a-0", "f-a-1"], "Completed"),
        ({"for_each": ForEach(count=2), "continue_on_failure": True}, ["f-a-0 f-a-1"], "Failed"),
    ],
    ids=["items", "repeat", "failed items"],
)
@pytest.mark.parametrize("lost", ["f-a-0", "f-a-1", "f-a-0 f-a-1"])
def test_a_loop_that_has_ended_does_not_run_again(
    loop: dict[str, Any], ended: list[str], end: str, lost: str
) -> None:
    world = two_steps(**loop).settled()
    for names in ended:
        world = end_jobs(world, end, *names.split())
    recorded = {"phase": end, "attempts": 2} | ({"reason": "JobFailed"} if end == "Failed" else {})
    assert recorded_ends(world, "f-b") == {"a": recorded}
    remaining = {name: job for name, job in world.jobs.items() if name not in lost.split()}
    planned = without_status(replace(world, jobs=remaining)).plan()
    assert (planned.creates, planned.job_reads, planned.phases["a"]) == ([], [], end)
    found = {index: phase.split()[0] for index, phase in runs(planned).items()}
    assert found == {index: end for index in range(2) if f"f-a-{index}" in remaining}


def test_a_retry_runs_a_step_known_to_have_failed_by_a_recorded_end() -> None:
    world = without_status(started("Failed")).settled()
    world = end_jobs(world, "Completed", "f-b")
    assert world.plan().phase == "Failed"
    world = world.with_command("RestartJob").settled()
    assert [name for name in jobs_in(world) if name.startswith("f-a")] == ["f-a-r1"]
    world = end_jobs(world, "Completed", "f-a-r1")
    assert world.plan().phases["a"] == "Completed"
