"""`jobflow cancel --now`: a flow is cancelled, and its `finally` too."""

from __future__ import annotations

import msgspec
import pytest

from jobflow.api.control import ForEach
from support.plan.plan_world import World, flow
from support.plan.steps import step


def cancelled_now(world: World) -> World:
    """Somebody sends TerminateNow, and the controller does all that it can do at once."""
    return world.with_command("TerminateNow", name="now").settled()


def tidying(**said: object) -> World:
    """a has failed by the cancel, and z of `finally` runs."""
    world = flow("a").with_last(z=step(**said)).with_jobs(a="Running").settled().cancelled()
    return world.ended("f-a", "Aborted").settled()


def test_finally_runs_when_a_flow_is_cancelled_and_is_aborted_by_a_cancel_now() -> None:
    world = tidying()
    assert "f-z" in world.jobs
    world = world.ended("f-z", "Running").settled()
    world = cancelled_now(world)
    assert world.plan().conditions["z"].reason == "Cancelled"
    assert "uid-f-z" in world.aborts
    world = world.ended("f-z", "Aborted").settled()
    assert world.plan().failed == {"a": "Cancelled", "z": "Cancelled"}
    state = world.flow.status.state
    assert (state.phase, state.reason, state.message) == (
        "Failed", "Cancelled", "the flow was cancelled"
    )  # fmt: skip


def test_finally_that_has_not_begun_is_skipped() -> None:
    world = flow("a", b="a").with_last("z").with_jobs(a="Running").settled()
    world = cancelled_now(world)
    assert world.plan().skipped == {"b": "Stopped", "z": "Stopped"}
    assert world.aborts.keys() == {"uid-f-a"}
    world = world.ended("f-a", "Aborted").settled()
    state = world.flow.status.state
    assert (state.phase, state.reason) == ("Failed", "Cancelled")
    assert "f-z" not in world.jobs


def test_it_is_remembered_where_the_process_stops() -> None:
    """Items of `finally` that have not begun do not begin after a restart either."""
    world = tidying(for_each=ForEach(count=3, parallelism=1))
    world = cancelled_now(world)
    assert world.flow.status.finally_cancelled
    world = World(world.flow, world.templates, world.jobs, now=world.now)
    world = world.ended("f-z-0", "Completed").settled()
    assert sorted(world.jobs) == ["f-a", "f-z-0"]
    assert world.plan().failed["z"] == "Cancelled"


def test_a_flow_out_of_time_keeps_its_reason() -> None:
    world = flow("a").with_last("z").with_spec(timeout="1m").with_jobs(a="Running").settled()
    world = world.later(60).settled().ended("f-a", "Aborted").settled()
    assert "f-z" in world.jobs
    world = cancelled_now(world).ended("f-z", "Aborted").settled()
    assert world.flow.status.state.reason == "Timeout"
    assert world.plan().failed == {"a": "Timeout", "z": "Cancelled"}
    assert world.plan().conditions["z"].message.startswith("the flow was cancelled; ")


def test_a_flow_that_ends_by_itself_may_have_its_finally_ended() -> None:
    world = flow("a").with_last("z").with_jobs(a="Completed").settled()
    world = cancelled_now(world).ended("f-z", "Aborted").settled()
    assert world.plan().failed == {"z": "Cancelled"}
    assert world.flow.status.state.reason == "Cancelled"


def test_a_second_cancel_alone_leaves_finally_alone() -> None:
    world = tidying().with_command(name="again").settled()
    assert (world.aborts.keys(), world.flow.status.finally_cancelled) == ({"uid-f-a"}, False)


def test_a_retry_of_the_flow_runs_finally_again() -> None:
    world = cancelled_now(tidying()).ended("f-z", "Aborted").settled()
    world = world.with_command("RestartJob", name="retry").settled()
    assert not world.flow.status.finally_cancelled
    world = world.run()
    assert world.flow.status.state.phase == "Succeed"
    assert world.plan().phases == {"a": "Completed", "z": "Completed"}


@pytest.mark.parametrize("end", ["Completed", "Failed"])
def test_it_may_come_too_late(end: str) -> None:
    world = flow("a").with_last("z").with_jobs(a="Completed").settled().ended("f-z", end).settled()
    before = msgspec.structs.replace(world.flow.status, handled_commands=None)
    planned = world.with_command("TerminateNow").plan()
    assert "CommandRefused" in planned.events
    assert msgspec.structs.replace(planned.status, handled_commands=None) == before
