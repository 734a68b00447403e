"""`daemon`: its dependants start once it runs, and it ends when all other steps are over."""

from __future__ import annotations

import pytest

from jobflow.api.jobflow import DependsOn, Probe, TaskStatusProbe
from support.plan.plan_world import World, flow
from support.plan.steps import after, step


def served(**said: object) -> World:
    """b needs the service a, and c comes after b."""
    return flow(a=step(daemon=True, **said), b="a", c="b")


def running() -> World:
    return served().with_jobs(a="Running", b="Running").settled()


def all_else_is_over() -> World:
    world = running().ended("f-b", "Completed").settled()
    return world.ended("f-c", "Completed")


@pytest.mark.parametrize("phase", ["Pending", "Running"])
def test_dependants_start_once_it_runs(phase: str) -> None:
    planned = served().with_jobs(a=phase).settled().plan()
    assert planned.phases["b"] == ("Pending" if phase == "Running" else "Waiting")


def test_a_dependant_that_waits_says_for_what() -> None:
    world = flow("x", a=step(daemon=True), b="a", c="a x").with_jobs(a="Pending", x="Running")
    assert world.plan().waiting == {
        "b": "waits for a (Pending) to run",
        "c": "waits for a (Pending) and x (Running)",
    }
    assert world.with_jobs(a="Running").plan().waiting == {"c": "waits for x (Running)"}


def test_that_it_has_run_is_remembered() -> None:
    world = flow("x", a=step(daemon=True), b="a x").with_jobs(a="Running", x="Running").settled()
    world = world.without_jobs("a").with_missing("f-a").settled()
    assert world.plan().held_up == {"a": "JobLost"}
    assert world.ended("f-x", "Completed").plan().creates == ["f-b"]


def test_with_a_probe_the_probe_decides() -> None:
    probe = Probe(task_status_list=[TaskStatusProbe(task_name="t", phase="Succeeded")])
    world = flow(a=step(daemon=True), b=DependsOn(targets=["a"], probe=probe))
    world = world.with_jobs(a="Running").settled()
    assert world.plan().phases["b"] == "Waiting"
    assert world.with_pods("a", t="Succeeded").plan().creates == ["f-b"]


def test_it_is_ended_when_all_other_steps_are_over() -> None:
    world = all_else_is_over()
    planned = world.plan()
    assert (planned.phase, planned.aborts, planned.plan.urgent) == ("Running", [], True)
    assert planned.conditions["a"].reason == "DaemonEnded"
    assert planned.conditions["a"].message == "is being aborted: all other steps have ended"
    world = world.stored()
    assert world.plan().aborts == ["f-a"]
    world = world.settled().ended("f-a", "Aborted").settled()
    condition = world.plan().conditions["a"]
    assert (condition.phase, condition.reason) == ("Completed", "DaemonEnded")
    assert (world.flow.status.state.phase, world.flow.status.state.reason) == ("Succeed", "")


def test_while_another_step_is_under_way_it_is_not() -> None:
    world = running().ended("f-b", "Completed").settled()
    assert world.plan().conditions["a"].reason == ""


@pytest.mark.parametrize("end", ["Failed", "Terminated", "Aborted", "Completed"])
def test_however_its_job_ends_then_it_has_completed(end: str) -> None:
    world = all_else_is_over().settled().ended("f-a", end)
    assert world.plan().phases["a"] == "Completed"
    assert world.plan().phase == "Succeed"


@pytest.mark.parametrize("resumed", [False, True])
def test_one_that_a_suspension_has_aborted_by_then_has_completed_too(resumed: bool) -> None:
    world = running().ended("f-b", "Completed").settled().with_command("AbortJob").settled()
    assert world.plan().conditions["a"].reason == "Suspended"
    world = world.ended("f-c", "Completed")
    world = (world.settled().with_command("ResumeJob") if resumed else world).settled()
    world = world.ended("f-a", "Aborted")
    condition = world.plan().conditions["a"]
    assert (condition.phase, condition.reason) == ("Completed", "DaemonEnded")
    assert condition.message == "all other steps have ended; the job f-a is over"
    assert world.plan().phase == "Succeed"


def test_one_whose_job_is_gone_then_has_completed() -> None:
    world = all_else_is_over().settled().without_jobs("a").with_missing("f-a")
    assert (world.plan().phases["a"], world.plan().phase) == ("Completed", "Succeed")


def test_one_between_two_attempts_is_not_made_again() -> None:
    world = running().without_jobs("a").with_missing("f-a").settled()
    assert world.plan().held_up["a"] == "JobLost"
    world = world.ended("f-b", "Completed").settled().ended("f-c", "Completed")
    assert (world.plan().phases["a"], world.plan().phase) == ("Completed", "Succeed")


@pytest.mark.parametrize(("end", "phase"), [("Failed", "Failed"), ("Completed", "Completed")])
def test_one_that_ends_earlier_counts_by_its_job(end: str, phase: str) -> None:
    world = running().ended("f-a", end)
    assert world.plan().phases["a"] == phase
    end_of_it = world.run()
    assert end_of_it.plan().skipped == ({} if end == "Completed" else {"c": "Stopped"})
    assert end_of_it.flow.status.state.phase == ("Succeed" if end == "Completed" else "Failed")


def test_several_are_ended_together_and_before_finally() -> None:
    world = flow(a=step(daemon=True), d=step("a", daemon=True), b="d").with_last("z")
    world = world.with_jobs(a="Running", d="Running", b="Running").settled()
    world = world.ended("f-b", "Completed").stored()
    assert world.plan().aborts == ["f-a", "f-d"]
    world = world.settled()
    assert world.plan().phases["z"] == "Waiting"
    world = world.ended("f-a", "Aborted").ended("f-d", "Aborted").settled()
    assert world.plan().phases["z"] == "Pending"


def test_after_a_failure_it_is_ended_too() -> None:
    world = running().ended("f-b", "Failed").settled()
    assert world.plan().conditions["a"].reason == "DaemonEnded"
    world = world.ended("f-a", "Aborted").settled()
    assert world.plan().phases == {"a": "Completed", "b": "Failed", "c": "Skipped"}


def test_when_all_is_aborted_so_is_it() -> None:
    world = running().with_spec(failure_policy="Abort").ended("f-b", "Failed").settled()
    assert world.plan().conditions["a"].reason == "FailurePolicy"
    assert running().cancelled().plan().conditions["a"].reason == "Cancelled"


def test_what_waits_for_its_end_otherwise_starts_when_it_ends_by_itself() -> None:
    world = flow(a=step(daemon=True), b=after("a", condition="Failed"), c="a")
    world = world.with_jobs(a="Running", c="Running").settled()
    assert world.plan().phases["b"] == "Waiting"
    assert world.ended("f-a", "Failed").plan().creates == ["f-b"]


def test_one_that_could_start_only_then_starts_and_is_ended() -> None:
    world = flow("b", a=step("b", daemon=True)).with_jobs(b="Running").settled()
    world = world.ended("f-b", "Completed").settled()
    assert world.plan().conditions["a"].reason == "DaemonEnded"
    assert world.ended("f-a", "Aborted").plan().phase == "Succeed"
