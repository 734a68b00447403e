"""`spec.finally`: its steps run when the rest is over, whatever came of it, and not before that is
stored."""

from __future__ import annotations

import pytest

from support.plan.plan_world import World, flow
from support.plan.steps import after, step

FLOW_FAILED = 'flow.phase == "Failed"'


def tidied(**said: object) -> World:
    """a -> b, and in the end z; a runs."""
    world = flow("a", b="a").with_last(z=step(**said))
    return world.with_jobs(a="Running").settled()


def a_ends(world: World, phase: str) -> World:
    return world.ended("f-a", phase)


def test_it_waits_until_all_other_steps_are_over() -> None:
    world = tidied()
    assert world.plan().waiting["z"] == "waits until all other steps have ended"
    assert world.flow.status.progress == "0/3"
    world = a_ends(world, "Completed").settled()
    assert world.plan().phases["z"] == "Waiting"
    world = world.ended("f-b", "Completed")
    assert world.plan().creates == []


@pytest.mark.parametrize(("end", "phase"), [("Completed", "Succeed"), ("Failed", "Failed")])
def test_it_starts_only_after_the_status_that_says_so(end: str, phase: str) -> None:
    world = flow("a").with_last("z").with_jobs(a="Running").settled().ended("f-a", end)
    planned = world.plan()
    assert (planned.creates, planned.phase, planned.plan.urgent) == ([], "Running", True)
    assert planned.phases == {"a": end, "z": "Waiting"}
    world = world.stored()
    assert (world.plan().creates, world.flow.status.progress) == (["f-z"], "1/2")
    world = world.settled().ended("f-z", "Completed").settled()
    assert (world.flow.status.state.phase, world.flow.status.progress) == (phase, "2/2")


def test_a_job_of_the_rest_that_was_resumed_is_waited_for() -> None:
    world = flow("a").with_last("z").with_jobs(a="Aborted").stored().ended("f-a", "Running")
    assert (world.plan().creates, world.plan().phases["z"]) == ([], "Waiting")
    assert world.ended("f-a", "Aborted").plan().creates == ["f-z"]


@pytest.mark.parametrize("policy", [None, "Abort", "Continue"])
def test_it_runs_after_a_failure_whatever_the_policy(policy: str | None) -> None:
    world = a_ends(tidied().with_spec(failure_policy=policy), "Failed").stored()
    assert (world.plan().creates, world.plan().skipped) == (["f-z"], {"b": "UpstreamFailed"})
    world = world.settled().ended("f-z", "Running").settled()
    assert (world.plan().aborts, world.plan().reason) == ([], "StepFailed")


def test_it_runs_after_a_cancel() -> None:
    world = tidied().cancelled()
    assert (world.plan().phases["z"], world.plan().phase) == ("Waiting", "Running")
    world = a_ends(world, "Aborted").settled()
    assert (world.plan().phases["z"], world.plan().reason) == ("Pending", "Cancelled")
    world = world.ended("f-z", "Completed").settled()
    assert (world.flow.status.state.phase, world.flow.status.state.reason) == (
        "Failed",
        "Cancelled",
    )


def test_a_flow_that_is_cancelled_before_it_ran_anything_is_tidied_up_too() -> None:
    world = flow("a").with_last("z").without_template("a").settled().with_command().settled()
    assert world.plan().skipped == {"a": "Stopped"}
    assert world.plan().phases["z"] == "Pending"


def test_a_cancel_while_it_runs_does_not_abort_it() -> None:
    world = a_ends(flow("a").with_last("z").with_jobs(a="Running").settled(), "Completed")
    world = world.settled().cancelled()
    assert (world.plan().aborts, world.plan().reason) == ([], "Cancelled")
    world = world.ended("f-z", "Completed").settled()
    assert world.flow.status.state.phase == "Failed"


def test_it_waits_while_the_flow_is_suspended() -> None:
    world = flow("a").with_last("z").with_jobs(a="Running").settled()
    world = a_ends(world.with_command("SuspendFlow").settled(), "Completed").settled()
    assert world.plan().held_up == {"z": "Suspended"}
    assert (world.plan().phase, world.plan().reason) == ("Running", "Suspended")
    assert world.with_command("ResumeJob").settled().plan().phases["z"] == "Pending"


def test_it_does_not_run_in_a_flow_that_is_being_deleted() -> None:
    world = a_ends(flow("a").with_last("z").with_jobs(a="Running").settled(), "Completed")
    assert world.stored().being_deleted().plan().held_up == {"z": "Terminating"}


def test_a_failed_one_fails_the_flow_and_stops_no_other() -> None:
    world = flow("a").with_last("x", "y", "z").with_jobs(a="Completed").without_template("z")
    world = world.with_spec(failure_policy="Abort").settled()
    world = world.ended("f-x", "Failed").with_template("z").settled()
    assert world.plan().phases == {"a": "Completed", "x": "Failed", "y": "Pending", "z": "Pending"}
    world = world.ended("f-y", "Completed").ended("f-z", "Completed").settled()
    assert (world.flow.status.state.phase, world.flow.status.state.reason) == (
        "Failed",
        "StepFailed",
    )


def test_a_forgiven_one_does_not() -> None:
    world = flow("a").with_last(z=step(continue_on_failure=True))
    assert world.run(lambda name: "Failed" if name == "z" else "Completed").plan().phase == (
        "Succeed"
    )


@pytest.mark.parametrize(("end", "skipped"), [("Completed", {"z": "NotTaken"}), ("Failed", {})])
def test_it_sees_how_the_flow_would_end(end: str, skipped: dict[str, str]) -> None:
    world = flow("a").with_last(z=step(when=FLOW_FAILED)).with_jobs(a="Running").settled()
    world = world.ended("f-a", end).settled()
    assert world.plan().skipped == skipped
    assert world.plan().phases["z"] == ("Skipped" if skipped else "Pending")


def test_a_cancelled_flow_would_end_failed_though_no_step_has() -> None:
    world = flow("a").with_last(z=step(when=FLOW_FAILED)).with_jobs(a="Running").cancelled()
    assert world.ended("f-a", "Completed").settled().plan().phases["z"] == "Pending"


def test_what_becomes_of_one_does_not_change_what_the_others_see() -> None:
    world = flow("a").with_last(y=step(), z=step(when=FLOW_FAILED)).with_jobs(a="Completed")
    world = world.stored().stored().with_jobs(y="Failed")
    assert world.plan().skipped == {"z": "NotTaken"}


def test_it_sees_every_step() -> None:
    said = 'steps["a"].phase == "Failed" && steps["b"].reason == "UpstreamFailed"'
    world = a_ends(tidied(when=said), "Failed").settled()
    assert world.plan().phases["z"] == "Pending"


def test_what_comes_next_is_told() -> None:
    world = flow("a", b=after("a", condition="Failed")).with_last("z").with_jobs(a="Running")
    assert world.settled().flow.status.next_jobs == ["f-z"]
    assert tidied().flow.status.next_jobs == ["f-b"]
    assert tidied().cancelled().flow.status.next_jobs == ["f-z"]
