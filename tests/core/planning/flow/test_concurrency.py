"""`spec.concurrency`: when a flow starts, and what it does without a place."""

from datetime import timedelta

import pytest

from jobflow.api.flow.control import Concurrency, Param
from support.plan.plan_world import World, flow
from support.plan.steps import step
from support.plan.world_state import NOW


def grouped(world: World, policy: str | None = None, limit: int | None = None) -> World:
    return world.with_spec(concurrency=Concurrency(group="g", policy=policy, limit=limit))


ONE = grouped(flow("a", b="a").with_finally("z"))
REPLACING = grouped(flow("a"), "Replace")
FORBIDDEN = grouped(flow("a", b="a").with_finally("z"), "Forbid")


def test_a_flow_takes_its_place_before_it_creates_anything() -> None:
    planned = ONE.plan()
    assert planned.creates == []
    assert planned.plan.urgent
    assert (planned.status.start_time, planned.phase, planned.reason) == (NOW, "Pending", "")
    assert ONE.stored().plan().creates == ["f-a"]


def test_a_flow_waits_while_others_hold_all_places() -> None:
    world = ONE.with_group("x").settled()
    assert world.end == ("Pending", "Concurrency")
    status = world.flow.status
    assert status.start_time is None and not status.duration
    why = 'waits for a place in the concurrency group "g": at most 1 flow at once'
    assert status.state.message == why
    assert world.plan().held_up == {"a": "Concurrency"}
    assert world.jobs == {}


def test_the_message_of_a_waiting_flow_does_not_change_with_the_group() -> None:
    world = ONE.with_group("x", before=["y", "v"]).settled()
    assert world.with_group("y", before=["v"]).plan().nothing


@pytest.mark.parametrize(
    ("limit", "holders", "before", "starts"),
    [
        (None, "", "", True),
        (None, "x", "", False),
        (None, "", "w", False),
        (2, "x", "", True),
        (2, "x y", "", False),
        (2, "x", "w", False),
    ],
)
def test_a_flow_starts_when_there_is_room_and_none_waits_before_it(
    limit: int | None, holders: str, before: str, starts: bool
) -> None:
    world = grouped(flow("a"), limit=limit).with_group(*holders.split(), before=before.split())
    assert (world.plan().status.start_time is not None) == starts


def test_a_place_is_held_to_the_end_and_nothing_waits_again() -> None:
    world = ONE.settled().with_group("x", "y")
    assert world.run().end == ("Succeed", "")


def test_a_flow_that_is_created_suspended_is_not_started() -> None:
    world = ONE.with_spec(suspend=True)
    suspended = world.settled()
    assert suspended.end == ("Pending", "Suspended")
    assert suspended.flow.status.start_time is None
    resumed = suspended.later(50).with_command("ResumeJob").settled()
    status = resumed.flow.status
    assert status.start_time == NOW + timedelta(seconds=50)
    assert status.suspended_seconds is None
    assert "f-a" in resumed.jobs


def test_a_waiting_flow_can_be_suspended() -> None:
    world = ONE.with_group("x").settled().with_command("SuspendFlow").settled()
    assert world.end == ("Pending", "Suspended")
    assert world.with_group().plan().status.start_time is None


@pytest.mark.parametrize("command", ["TerminateJob", "TerminateNow"])
def test_a_flow_that_is_cancelled_before_its_start_runs_nothing(command: str) -> None:
    world = ONE.with_group("x").settled().with_command(command).settled()
    assert world.end == ("Failed", "Cancelled")
    assert world.jobs == {}
    conditions = world.flow.status.conditions or {}
    assert {condition.phase for condition in conditions.values()} == {"Skipped"}
    assert world.flow.status.start_time is None


def test_the_timeout_counts_from_the_start() -> None:
    world = grouped(flow("a").with_spec(timeout="9s")).with_group("x").settled().later(60)
    assert world.settled().end == ("Pending", "Concurrency")
    started = world.with_group().settled()
    assert started.plan().plan.requeue_after == timedelta(seconds=10)
    assert started.later(10).plan().reason == "Timeout"


def test_a_waiting_flow_that_is_deleted_does_not_start() -> None:
    world = ONE.with_group("x").settled().being_deleted().with_group()
    assert world.plan().status.start_time is None


def test_a_retried_flow_waits_again() -> None:
    failed = ONE.run(lambda name: "Failed")
    retried = failed.later(30).with_command("RestartJob").stored().with_group("x").settled()
    assert retried.end == ("Pending", "Concurrency")
    status = retried.flow.status
    assert (status.start_time, status.queued_time) == (None, retried.now)
    started = retried.with_group().settled()
    assert started.flow.status.start_time == retried.now
    assert "f-a-r1" in started.jobs


def test_events_say_that_a_flow_waits_and_starts() -> None:
    assert ONE.with_group("x").plan().events == ["FlowWaiting"]
    assert "FlowStarted" in ONE.with_group("x").settled().with_group().plan().events
    assert ONE.plan().events == []


# ---------------------------------------------------------------------------------- Replace


def test_a_flow_cancels_those_that_it_replaces_once_it_is_stored_that_it_waits() -> None:
    world = REPLACING.with_group("x", before=["w"])
    planned = world.plan()
    assert (planned.cancels, planned.phase, planned.reason) == ([], "Pending", "Concurrency")
    assert world.stored().plan().cancels == ["x", "w"]


def test_a_flow_waits_until_those_that_it_replaces_have_ended() -> None:
    world = REPLACING.with_group("x").settled()
    assert world.plan().creates == []
    assert "f-a" in world.with_group().settled().jobs


def test_a_flow_asks_again_if_another_one_does_not_end() -> None:
    world = REPLACING.with_group("x").settled()
    assert world.plan().plan.requeue_after == timedelta(seconds=10)
    assert world.later(9).plan().cancels == []
    assert world.later(10).plan().cancels == ["x"]


def test_a_flow_replaces_nobody_if_there_is_room() -> None:
    world = grouped(flow("a"), "Replace", limit=2).with_group("x").settled()
    assert "f-a" in world.jobs


def test_a_flow_replaces_nobody_while_another_one_is_about_to_start() -> None:
    world = REPLACING.with_group(before=["w"], moves=True).settled()
    assert world.end == ("Pending", "Concurrency")
    assert world.plan().cancels == []
    assert world.with_group("w").plan().cancels == ["w"]


def test_a_suspended_flow_replaces_nobody() -> None:
    world = REPLACING.with_group("x").stored().with_command("SuspendFlow").settled()
    assert world.cancels == {}


# ----------------------------------------------------------------------------------- Forbid


def test_a_flow_without_a_place_ends_at_once_if_it_may_not_wait() -> None:
    world = FORBIDDEN.with_group("x").settled()
    assert world.end == ("Succeed", "Concurrency")
    assert world.flow.status.state.message == 'no place in the concurrency group "g" because of x'
    conditions = (world.flow.status.conditions or {}).values()
    assert [(c.phase, c.reason) for c in conditions] == [("Skipped", "Stopped")] * 3
    assert (world.jobs, world.flow.status.start_time) == ({}, None)
    assert "FlowSkipped" in FORBIDDEN.with_group("x").plan().events


def test_a_flow_with_a_place_runs_although_it_may_not_wait() -> None:
    assert FORBIDDEN.run().end == ("Succeed", "")


def test_a_flow_that_may_not_wait_lets_another_one_start_first() -> None:
    world = FORBIDDEN.with_group(before=["w"], moves=True).settled()
    assert world.end == ("Pending", "Concurrency")
    assert world.with_group("w").plan().phase == "Succeed"


def test_outputs_of_a_flow_that_did_not_run_are_left_out() -> None:
    world = FORBIDDEN.with_spec(outputs={"x": 'steps["a"].outputs.x'}).with_group("x").settled()
    assert world.end == ("Succeed", "Concurrency")
    assert world.flow.status.outputs is None


def test_a_retry_is_refused_if_there_is_no_place_and_the_flow_may_not_wait() -> None:
    failed = FORBIDDEN.run(lambda name: "Failed").with_command("RestartJob")
    (why,) = failed.with_group("x").plan().refused_commands
    assert "no place in the concurrency group" in why
    retried = failed.stored().with_group("x").settled()
    assert retried.end == ("Pending", "Concurrency"), "another flow was faster"


def test_a_flow_without_a_group_does_not_ask_who_else_runs() -> None:
    world = flow("a").with_group("x", before=["y"])
    assert world.plan().creates == ["f-a"]


def test_a_reference_in_the_group_has_its_value() -> None:
    world = flow(a=step()).with_spec(
        params=[Param(name="env", value="prod"), Param(name="n", value=3)],
        concurrency=Concurrency(group="deploy-$(params.env)-$(params.n)"),
    )
    assert '"deploy-prod-3"' in world.with_group("x").plan().message
