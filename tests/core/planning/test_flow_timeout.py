"""`spec.timeout`: from the start, queueing included, suspended time not; then as a cancel."""

from __future__ import annotations

from datetime import timedelta

import pytest

from support.plan.plan_world import World, flow


def timed(timeout: str = "60s") -> World:
    """a runs, b waits for it."""
    return flow("a", b="a").with_spec(timeout=timeout).with_jobs(a="Running").settled()


def test_it_is_looked_at_in_time() -> None:
    assert timed().later(10).plan().plan.requeue_after == timedelta(seconds=50)
    assert timed().later(59.9).plan().conditions["a"].reason == ""


def test_then_what_runs_is_aborted_and_the_rest_skipped() -> None:
    world = timed().later(60)
    planned = world.plan()
    assert (planned.phase, planned.reason) == ("Running", "Timeout")
    assert planned.message == "the flow took longer than its timeout of 60s"
    assert (planned.plan.urgent, planned.aborts) == (True, [])
    assert planned.events == ["StepSkipped", "FlowTimedOut"]
    assert planned.skipped == {"b": "Stopped"}
    assert planned.conditions["a"].reason == "Timeout"
    assert planned.conditions["a"].message == f"is being aborted: {planned.message}"
    world = world.stored()
    assert (world.plan().aborts, world.plan().plan.requeue_after) == (
        ["f-a"],
        timedelta(seconds=10),
    )
    planned = world.settled().ended("f-a", "Aborted").plan()
    assert planned.failed == {"a": "Timeout"}
    assert planned.conditions["a"].message == (
        "the flow took longer than its timeout of 60s; the job f-a ended Aborted"
    )
    assert (planned.phase, planned.reason) == ("Failed", "Timeout")


def test_queueing_counts() -> None:
    world = flow("a").with_spec(timeout="1m").without_template("a").settled().later(60)
    assert world.plan().skipped == {"a": "Stopped"}
    assert (world.plan().phase, world.plan().reason) == ("Failed", "Timeout")


def test_a_flow_that_ends_in_time_has() -> None:
    world = flow("a").with_spec(timeout="60s").with_jobs(a="Running").settled().later(60)
    assert world.ended("f-a", "Completed").plan().phase == "Succeed"


def test_finally_runs_after_it() -> None:
    world = timed().with_last("z").later(60).settled().ended("f-a", "Aborted").settled()
    assert world.plan().phases["z"] == "Pending"
    world = world.ended("f-z", "Completed").settled()
    assert (world.flow.status.state.phase, world.flow.status.state.reason) == ("Failed", "Timeout")


def test_finally_is_not_aborted_by_it() -> None:
    world = flow("a").with_last("z").with_spec(timeout="60s").with_jobs(a="Completed").settled()
    world = world.with_jobs(z="Running").settled().later(60).settled()
    assert (world.plan().aborts, world.plan().reason) == ([], "Timeout")
    assert world.ended("f-z", "Completed").plan().phase == "Failed"


@pytest.mark.parametrize("action", ["SuspendFlow", "AbortJob"])
def test_the_time_that_it_was_suspended_does_not_count(action: str) -> None:
    world = timed().later(40).with_command(action).settled().later(100)
    assert world.plan().reason == "Suspended"
    world = world.with_command("ResumeJob", name="again").settled()
    assert world.flow.status.suspended_seconds == 100
    assert world.later(19).plan().reason != "Timeout"
    assert world.later(20).plan().reason == "Timeout"


@pytest.mark.parametrize("action", ["SuspendFlow", "AbortJob"])
def test_a_suspension_in_the_last_second_keeps_what_is_left_of_the_time(action: str) -> None:
    """A Command that is there when the time is over comes first."""
    assert timed().later(60).with_command(action).settled().later(100).plan().reason == "Suspended"
    world = timed().later(59).with_command(action).settled().later(500)
    world = world.with_command("ResumeJob", name="again").settled()
    assert world.plan().reason != "Timeout"
    assert world.later(0.9).plan().reason != "Timeout"
    assert world.later(1).plan().reason == "Timeout"


def test_a_flow_that_is_resumed_when_its_time_is_over_is_out_of_time_at_once() -> None:
    world = timed().later(60).with_command("SuspendFlow").settled().later(500)
    assert world.with_command("ResumeJob", name="again").plan().reason == "Timeout"


def test_what_the_flow_was_cancelled_for_stays_its_reason() -> None:
    assert timed().cancelled().later(60).plan().reason == "Cancelled"
    assert timed().later(60).settled().cancelled().plan().reason == "Timeout"


def test_a_flow_that_is_being_deleted_is_aborted_too() -> None:
    world = timed().being_deleted().later(60)
    assert (world.plan().phase, world.plan().reason) == ("Terminating", "Timeout")


@pytest.mark.parametrize("timeout", ["", "soon"])
def test_what_is_no_time_limits_nothing(timeout: str) -> None:
    assert timed(timeout).later(10**6).plan().reason == ""


def test_a_flow_that_has_nothing_left_to_end_is_not_looked_at_for_its_timeout() -> None:
    """A finalizer keeps it, and its steps have ended: neither before the timeout nor after."""
    world = flow("a").with_spec(timeout="60s").with_jobs(a="Running").settled()
    world = world.being_deleted().later(10).ended("f-a", "Completed").settled()
    for seconds in (0, 50, 3600):
        planned = world.later(seconds).plan()
        assert planned.nothing
        assert planned.plan.requeue_after is None
