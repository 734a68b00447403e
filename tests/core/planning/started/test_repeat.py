"""`repeat`: one run after another until an expression holds."""

from datetime import timedelta
from typing import Any

import pytest

from jobflow.api.flow.control import Patch, Repeat
from jobflow.api.flow.step import DependsOn, Probe, Step, TaskStatusProbe
from jobflow.core.planning.actions import CreateJob
from support.plan.loop_worlds import (
    end_jobs,
    finish,
    jobs_in,
    repeated,
    run,
    runs,
    two_steps,
    with_step,
)
from support.plan.plan_world import World, flow, world_of
from support.plan.steps import step

NOT_YET = '{"done": false, "acc": 0.1}'
DONE = '{"done": true, "acc": 0.9}'


def after_runs(*messages: str, most: int = 3, **fields: object) -> World:
    world = repeated(most=most, **fields).settled()  # type: ignore[arg-type]
    for index, message in enumerate(messages):
        world = finish(world, f"f-a-{index}", message).settled()
    return world


def test_the_next_run_starts_only_after_the_end_of_the_last_is_stored() -> None:
    world = finish(repeated().settled(), "f-a-0", NOT_YET)
    planned = world.plan()
    assert planned.creates == []
    assert planned.plan.urgent
    condition = planned.conditions["a"]
    assert (condition.phase, condition.reason) == ("Waiting", "Starting")
    assert condition.message == "the job f-a-0 has ended, and the next one follows"
    assert world.plan().creates == []
    assert world.stored().plan().creates == ["f-a-1"]


def test_a_repeat_fails_if_until_never_holds() -> None:
    world = after_runs(NOT_YET, NOT_YET, NOT_YET)
    condition = world.plan().conditions["a"]
    assert (condition.phase, condition.reason) == ("Failed", "UntilNotReached")
    assert condition.message == "`outputs.done` does not hold after 3 runs"
    assert world.plan().skipped == {"b": "UpstreamFailed"}
    assert condition.attempts == 3


@pytest.mark.parametrize(
    ("until", "messages", "count"),
    [
        ("index == 1", ("", ""), 2),
        ("phase == 'Completed'", ("",), 1),
        ("outputs.acc > 0.5", (NOT_YET, DONE), 2),
        ("has(outputs.done) && outputs.done", ("nothing", DONE), 2),
    ],
)
def test_until_uses_the_run_that_has_just_ended(
    until: str, messages: tuple[str, ...], count: int
) -> None:
    world = repeated(until).settled()
    for index, message in enumerate(messages):
        world = finish(world, f"f-a-{index}", message).settled()
    assert world.plan().phases["a"] == "Completed"
    assert len(runs(world.plan())) == count


def test_a_failed_run_ends_the_repeat() -> None:
    world = end_jobs(after_runs(NOT_YET), "Failed", "f-a-1")
    condition = world.plan().conditions["a"]
    assert (condition.phase, condition.reason) == ("Failed", "JobFailed")
    assert condition.message.startswith("the job f-a-1 ended Failed")
    assert list(jobs_in(world)) == ["f-a-0", "f-a-1"]


def test_earlier_runs_count_if_max_was_reduced_without_admission() -> None:
    world = with_step(after_runs(NOT_YET), "a", repeat=Repeat(until="outputs.done", max=1))
    assert world.plan().phases["a"] == "Pending"
    condition = finish(world, "f-a-1", NOT_YET).settled().plan().conditions["a"]
    assert (condition.phase, condition.reason) == ("Failed", "UntilNotReached")
    assert condition.message == "`outputs.done` does not hold after 2 runs"
    assert finish(world, "f-a-1", DONE).settled().plan().phases["a"] == "Completed"


def test_a_run_without_a_value_in_its_patch_fails_the_repeat() -> None:
    patch = Patch(job_spec={"queue": "$(steps.z.outputs.queue)"})
    again = Repeat(until="outputs.done", max=3)
    world = flow("z", a=step("z", repeat=again, patch=patch), b="a").with_jobs(z="Completed")
    planned = world.apply().plan()
    assert planned.failed == {"a": "ExpressionError"}
    assert (planned.creates, planned.skipped) == ([], {"b": "UpstreamFailed"})


def test_an_expression_without_a_value_fails_the_repeat() -> None:
    world = after_runs("no JSON")
    condition = world.plan().conditions["a"]
    assert (condition.phase, condition.reason) == ("Failed", "ExpressionError")
    assert condition.message.startswith("repeat.until `outputs.done`: ")
    assert runs(world.plan()) == {0: "Completed"}


def test_a_repeat_shows_its_current_run() -> None:
    world = after_runs(NOT_YET)
    world = world.later(1).ended("f-a-1", "Running").settled()
    condition = world.plan().conditions["a"]
    assert (condition.phase, condition.job, condition.attempts) == ("Running", "f-a-1", 2)
    assert run(world.plan(), 0).outputs == {"done": False, "acc": 0.1}


def test_no_further_run_starts_after_a_cancel() -> None:
    world = finish(repeated().settled(), "f-a-0", NOT_YET).stored().with_command().settled()
    assert list(jobs_in(world)) == ["f-a-0"]
    condition = world.plan().conditions["a"]
    assert (condition.phase, condition.reason) == ("Failed", "Cancelled")
    assert condition.message == "the flow was cancelled; 1 of at most 3 runs had ended"


def test_a_lost_run_is_repeated_before_the_next() -> None:
    world = after_runs(NOT_YET)
    jobs = {name: job for name, job in world.jobs.items() if name == "f-a-0"}
    world = World(world.flow, world.templates, jobs, now=world.now).settled()
    assert world.plan().held_up == {"a": "JobLost"}
    world = world.later(2).settled()
    assert list(jobs_in(world)) == ["f-a-0", "f-a-1-r1"]


def test_a_probe_checks_the_current_run() -> None:
    probe = Probe(task_status_list=[TaskStatusProbe(task_name="t", phase="Running")])
    steps = [
        Step(name="a", repeat=Repeat(until="index == 1", max=2)),
        Step(name="b", depends_on=DependsOn(targets=["a"], probe=probe)),
    ]
    world = end_jobs(world_of(steps).settled(), "Completed", "f-a-0")
    assert "f-b" not in jobs_in(world)
    world = world.ended("f-a-1", "Running").settled()
    assert "f-b" in jobs_in(world)


def pausing(pause: str = "10s", until: str = "false") -> World:
    """A repeat whose first run has just completed."""
    world = two_steps(repeat=Repeat(until=until, max=3, pause=pause)).settled()
    return finish(world, "f-a-0", "")


def test_the_next_run_starts_after_the_pause() -> None:
    world = pausing().settled()
    condition = world.plan().conditions["a"]
    assert (condition.phase, condition.reason) == ("Waiting", "Repeating")
    assert condition.message == "runs again after a pause of 10s: the job f-a-0 has completed"
    assert condition.next_attempt_time == world.now + timedelta(seconds=10)
    assert world.plan().plan.requeue_after == timedelta(seconds=10)
    assert list(jobs_in(world.later(9.5).settled())) == ["f-a-0"]
    world = world.later(10).settled()
    assert list(jobs_in(world)) == ["f-a-0", "f-a-1"]
    assert world.plan().conditions["a"].next_attempt_time is None


def test_the_end_of_the_pause_is_stored_with_the_end_of_the_run() -> None:
    world = pausing().stored()
    until = world.plan().conditions["a"].next_attempt_time
    assert until == world.now + timedelta(seconds=10)
    assert world.later(4).settled().plan().conditions["a"].next_attempt_time == until


def test_no_pause_follows_the_last_run() -> None:
    assert pausing(until="true").settled().plan().phases["a"] == "Completed"


@pytest.mark.parametrize("pause", ["0s", "soon"])
def test_a_pause_of_no_time_is_none(pause: str) -> None:
    world = pausing().settled()
    changed = with_step(world, "a", repeat=Repeat(until="false", max=3, pause=pause))
    world = finish(changed.later(10).settled(), "f-a-1", "").settled()
    assert "f-a-2" in jobs_in(world)


def test_a_suspended_flow_keeps_its_pause() -> None:
    world = pausing().with_command("SuspendFlow").settled()
    assert world.plan().conditions["a"].next_attempt_time == world.now + timedelta(seconds=10)
    world = world.later(60).settled()
    assert list(jobs_in(world)) == ["f-a-0"]
    assert "f-a-1" in jobs_in(world.with_command("ResumeJob").settled())


def test_a_cancel_ends_the_pause() -> None:
    world = pausing().settled().cancelled().settled()
    assert world.plan().failed == {"a": "Cancelled"}


def env_of(world: World, name: str) -> Any:
    """The variables of a vcjob that is created now."""
    actions = world.plan().plan.actions
    specs = {each.name: each.manifest["spec"] for each in actions if isinstance(each, CreateJob)}
    return specs[name]["tasks"][0]["template"]["spec"]["containers"][0].get("env")


def test_a_run_is_given_the_outputs_of_the_run_before() -> None:
    env = {"FROM": "$(last.outputs.ckpt)", "N": "run-$(last.index)", "ROUND": "$(index)"}
    world = two_steps(repeat=Repeat(until="false", max=3), env=env)
    assert env_of(world, "f-a-0") == [
        {"name": "N", "value": "run-"},
        {"name": "ROUND", "value": "0"},
    ]
    world = finish(world.settled(), "f-a-0", '{"ckpt": "s3://x/1"}').stored()
    assert env_of(world, "f-a-1") == [
        {"name": "FROM", "value": "s3://x/1"},
        {"name": "N", "value": "run-0"},
        {"name": "ROUND", "value": "1"},
    ]


def test_a_patch_without_the_outputs_of_the_run_before_leaves_a_variable_out() -> None:
    container = {"name": "c", "args": ["$(last.outputs.ckpt)"]}
    container["env"] = [{"name": "FROM", "value": "$(last.outputs.ckpt)"}]  # type: ignore[assignment]
    task = {"name": "t", "template": {"spec": {"containers": [container]}}}
    patch = Patch(job_spec={"tasks": [task]})
    world = two_steps(repeat=Repeat(until="false", max=3), patch=patch)
    assert not env_of(world, "f-a-0")


@pytest.mark.parametrize(
    ("until", "messages", "count"),
    [
        (
            "has(last.outputs) && last.outputs.n == outputs.n",
            ('{"n": 1}', '{"n": 2}', '{"n": 2}'),
            3,
        ),
        ("size(last) > 0 && last.index == 0", ("", ""), 2),
    ],
)
def test_until_can_compare_a_run_with_the_one_before(
    until: str, messages: tuple[str, ...], count: int
) -> None:
    world = repeated(until).settled()
    for index, message in enumerate(messages):
        world = finish(world, f"f-a-{index}", message).settled()
    assert world.plan().phases["a"] == "Completed"
    assert len(runs(world.plan())) == count
