"""`failurePolicy` and `continueOnFailure`: what a failure stops, aborts and holds up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jobflow.api.control import ForEach, Retry
from support.plan.plan_world import World, flow
from support.plan.steps import after, step


def two_branches(policy: str | None) -> World:
    """a -> b and x -> y; a runs, x runs."""
    world = flow("a", "x", b="a", y="x").with_spec(failure_policy=policy)
    return world.with_jobs(a="Running", x="Running").settled()


@pytest.mark.parametrize("policy", [None, "Stop", "stop"])
def test_stop_lets_what_runs_run_out(policy: str | None) -> None:
    world = two_branches(policy).ended("f-a", "Failed").settled()
    planned = world.plan()
    assert planned.phases == {"a": "Failed", "x": "Running", "b": "Skipped", "y": "Waiting"}
    assert (planned.aborts, planned.phase, planned.reason) == ([], "Running", "StepFailed")
    planned = world.ended("f-x", "Completed").plan()
    assert planned.skipped == {"b": "UpstreamFailed", "y": "Stopped"}
    assert planned.phase == "Failed"


def test_continue_goes_on_with_independent_branches() -> None:
    world = two_branches("Continue").ended("f-a", "Failed").settled()
    assert world.plan().skipped == {"b": "UpstreamFailed"}
    world = world.ended("f-x", "Completed").settled()
    assert world.plan().phases["y"] == "Pending"
    planned = world.ended("f-y", "Completed").plan()
    assert (planned.phase, planned.reason) == ("Failed", "StepFailed")


def test_continue_starts_entries_that_have_not_begun() -> None:
    world = flow("a", "x").with_spec(failure_policy="Continue").without_template("x")
    world = world.with_jobs(a="Failed").settled()
    assert world.plan().held_up == {"x": "WaitingForTemplate"}
    assert world.with_template("x").plan().creates == ["f-x"]


def test_a_step_that_fails_by_itself_stops_nobody_under_continue() -> None:
    world = flow("p", a="p", b=step("p", when="1 / 0 == 1"))
    world = world.with_spec(failure_policy="Continue").with_jobs(p="Completed")
    assert world.plan().failed == {"b": "ExpressionError"}
    assert world.plan().creates == ["f-a"]


def test_abort_ends_what_runs() -> None:
    world = two_branches("Abort").ended("f-a", "Failed")
    planned = world.plan()
    assert (planned.aborts, planned.plan.urgent) == ([], True)
    assert planned.conditions["x"].reason == "FailurePolicy"
    assert planned.conditions["x"].message == "is being aborted: a failed"
    world = world.stored()
    assert (world.plan().aborts, world.plan().reason) == (["f-x"], "StepFailed")
    planned = world.settled().ended("f-x", "Aborted").plan()
    assert planned.failed == {"a": "JobFailed", "x": "FailurePolicy"}
    assert planned.conditions["x"].message == "a failed; the job f-x ended Aborted"
    assert planned.skipped == dict.fromkeys("by", "UpstreamFailed")
    assert (planned.phase, planned.reason) == ("Failed", "StepFailed")


def test_what_completes_all_the_same_has_completed() -> None:
    world = two_branches("Abort").ended("f-a", "Failed").settled().ended("f-x", "Completed")
    assert world.plan().phases["x"] == "Completed"
    assert world.plan().skipped == {"b": "UpstreamFailed", "y": "Stopped"}


def test_a_restart_of_the_controller_aborts_once_more_and_nothing_else() -> None:
    world = two_branches("Abort").ended("f-a", "Failed").stored()
    assert world.plan().plan == world.with_status(world.flow.status).plan().plan
    assert world.settled().later(10).plan().aborts == ["f-x"]
    assert world.settled().later(60).plan().deletes == ["f-x"]


def test_handlers_and_what_is_behind_them_start_and_are_not_aborted() -> None:
    world = flow(
        "a",
        "x",
        mend=after("a", condition="Failed"),
        report="mend",
        tidy=after("x", condition="Finished"),
    ).with_spec(failure_policy="Abort")
    world = world.with_jobs(a="Running", x="Running").settled().ended("f-a", "Failed").settled()
    assert world.plan().phases["mend"] == "Pending"
    world = world.with_jobs(mend="Running").ended("f-x", "Aborted").settled()
    assert world.plan().phases["tidy"] == "Pending"
    world = world.with_jobs(mend="Completed", tidy="Running").settled()
    assert world.plan().phases["report"] == "Pending"
    world = world.with_jobs(report="Running").settled()
    assert {c.reason for c in world.plan().conditions.values()} == {
        "",
        "JobFailed",
        "FailurePolicy",
    }
    assert world.plan().aborts == []


def test_who_runs_behind_an_ordinary_target_of_a_handler_too_is_aborted() -> None:
    world = flow(
        "a", "x", "h", late=after("h", condition="Failed"), y=after("x late", strategy="any")
    ).with_spec(failure_policy="Abort")
    world = world.with_jobs(a="Running", x="Completed", h="Running", y="Running").settled()
    planned = world.ended("f-a", "Failed").plan()
    assert planned.conditions["y"].reason == "FailurePolicy"


def test_a_step_that_fails_before_it_begins_aborts_too() -> None:
    world = flow("x", "a", b=step("a", when="1 / 0 == 1")).with_spec(failure_policy="Abort")
    world = world.with_jobs(x="Running", a="Running").settled().ended("f-a", "Completed")
    assert world.plan().conditions["x"].reason == "FailurePolicy"
    assert world.plan().conditions["x"].message == "is being aborted: b failed"


@pytest.mark.parametrize("condition", [None, "Completed", "Failed", "Finished", "Running"])
@pytest.mark.parametrize("end", ["Failed", "Terminated"])
def test_a_forgiven_failure_holds_nobody_up(condition: str | None, end: str) -> None:
    world = flow(a=step(continue_on_failure=True), b=after("a", condition=condition))
    world = world.with_jobs(a=end)
    assert world.plan().creates == ["f-b"]
    end_of_it = world.run()
    assert end_of_it.flow.status.state.phase == "Succeed"
    assert end_of_it.flow.status.state.reason == ""
    assert end_of_it.plan().phases["a"] == "Failed"


def test_it_forgives_errors_of_its_own_and_its_own_alone() -> None:
    world = flow(
        a=step(continue_on_failure=True, when="1 / 0 == 1"), b="a", x=step(), y="x"
    ).with_jobs(x="Failed")
    planned = world.plan()
    assert planned.failed == {"a": "ExpressionError", "x": "JobFailed"}
    assert planned.skipped == {"b": "Stopped", "y": "UpstreamFailed"}
    assert planned.message.startswith("step x failed")


def test_a_step_skipped_behind_a_failure_is_not_forgiven() -> None:
    """It has not failed itself, so it holds up what is behind it."""
    world = flow("a", b=step("a", continue_on_failure=True), c="b").with_jobs(a="Failed")
    assert world.plan().skipped == dict.fromkeys("bc", "UpstreamFailed")


@pytest.mark.parametrize("policy", ["Stop", "Abort"])
def test_a_forgiven_failure_stops_and_aborts_nothing(policy: str) -> None:
    world = flow("x", a=step(continue_on_failure=True), y="x").with_spec(failure_policy=policy)
    world = world.with_jobs(a="Running", x="Running").settled().ended("f-a", "Failed").settled()
    assert (world.plan().aborts, world.plan().waiting) == ([], {"y": "waits for x (Running)"})
    assert world.run().flow.status.state.phase == "Succeed"


def test_a_forgiven_step_that_is_cancelled_makes_nobody_start() -> None:
    world = flow(a=step(continue_on_failure=True), b="a").with_jobs(a="Running").cancelled()
    world = world.ended("f-a", "Aborted")
    assert (world.plan().skipped, world.plan().phase) == ({"b": "Stopped"}, "Failed")


@pytest.mark.parametrize("policy", ["Stop", "Abort", "Continue"])
def test_what_a_failure_is_behind_is_not_stopped_by_it(policy: str) -> None:
    """a has no items, so b begins in the same plan, and fails for its expression."""
    nothing = step(for_each=ForEach(count=0), when="true")
    bad = step("a", when='steps["a"].items[0].phase == "Completed"')
    world = flow(a=nothing, b=bad, c=step(for_each=ForEach(count=0), when="true"))
    world = world.with_spec(failure_policy=policy).settled()
    assert world.plan().phases["a"] == "Completed"
    assert world.plan().failed == {"b": "ExpressionError"}


@pytest.mark.parametrize(("forgiven", "creates"), [(True, ["f-b"]), (False, [])])
def test_only_a_failure_that_counts_holds_others_up_while_its_reason_is_read(
    forgiven: bool, creates: list[str]
) -> None:
    a = step(continue_on_failure=forgiven, retry=Retry(limit=0))
    world = flow("x", a=a, b="x").with_jobs(x="Running", a="Running").settled()
    world = replace(world, asked_before=False).with_jobs(x="Completed", a="Failed")
    assert (world.plan().phases["x"], world.plan().creates) == ("Completed", creates)
