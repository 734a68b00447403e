"""Volume claims of the flow that is reused move before anything starts."""

from dataclasses import replace
from datetime import timedelta

import pytest

from jobflow.core.planning.actions import MoveClaim
from jobflow.core.planning.observed.view import ClaimHolder, CreateError, Refusal
from support.plan.plan_world import World, flow
from support.plan.planned import Planned
from support.plan.reusing_worlds import reusing
from support.plan.steps import mounting, template
from support.plan.world_state import NOW

DATA = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def moves(planned: Planned) -> list[str]:
    return [a.name for a in planned.plan.actions if isinstance(a, MoveClaim)]


@pytest.fixture
def before() -> World:
    """A flow that has failed: of two steps that mount a claim, the second."""
    world = flow("a", b="a").with_spec(volume_claims={"data": DATA})
    templates = {name: template(name, mounting("data")) for name in "ab"}
    world = replace(world, templates=templates)
    return world.run(lambda step: "Failed" if step == "b" else "Completed")


def test_the_claims_move_once_the_status_names_the_flow_and_before_anything_else(
    before: World,
) -> None:
    world = reusing(before)
    first = world.plan()
    assert (moves(first), first.creates, first.held_up) == ([], [], {"a": "Starting"})
    assert first.plan.continues
    world = world.apply()
    second = world.plan()
    assert (moves(second), second.creates) == (["f-data"], [])
    assert second.conditions["a"].message == "the volume claims of the flow f are being moved"
    world = world.apply()
    third = world.plan()  # the answer is stored before a result is taken
    assert (third.creates, third.phases["a"], third.plan.continues) == ([], "Waiting", True)
    assert third.status.reused_claims == {"data": "f-data"}
    world = world.apply()
    assert world.plan().phases == {"a": "Completed", "b": "Waiting"}
    reuse = world.settled().flow.status.reuse
    assert reuse is not None and not reuse.moving_claims


def test_a_claim_that_is_gone_does_not_move(before: World) -> None:
    gone = ClaimHolder(None, going=True, retry_at=NOW)
    world = reusing(before).apply().with_claim("f-data", gone)
    assert moves(world.plan()) == []
    assert world.plan().status.reused_claims is None
    assert world.settled().jobs.keys() == {"g-a"}


def test_a_move_that_is_refused_is_waited_for(before: World) -> None:
    world = reusing(before).apply()
    world = world.with_claim("f-data", Refusal(403, "no", world.now + timedelta(seconds=5)))
    planned = world.plan()
    assert (moves(planned), planned.reason) == ([], "CreateRefused")
    assert planned.message.endswith("f-data cannot be moved from the flow f: no")
    assert planned.plan.requeue_after == timedelta(seconds=5)
    assert moves(world.later(5).plan()) == ["f-data"]


def test_an_error_of_a_move_is_shown_after_five_seconds(before: World) -> None:
    """The move is sent again meanwhile, in the backoff of the flow."""
    world = reusing(before).apply()
    text = "the API server answers with an error: 500 InternalError: etcdserver: mvcc"
    world = world.with_claim("f-data", CreateError(text, world.now))
    early, late = world.plan(), world.later(5).plan()
    assert moves(early) == moves(late) == ["f-data"]
    assert early.held_up == {"a": "Starting"}
    assert late.held_up == {"a": "CreateRefused"}
    assert late.message.endswith(f"f-data cannot be moved from the flow f: {text}")
    assert "CreateRefused" in late.events


def test_a_suspended_flow_takes_no_claims(before: World) -> None:
    world = reusing(before, suspend=True).settled()
    assert moves(world.plan()) == []
    resumed = world.with_command("ResumeJob").stored()
    assert moves(resumed.plan()) == ["f-data"]


def test_a_flow_that_is_cancelled_before_the_move_takes_no_claims(before: World) -> None:
    world = reusing(before).apply().cancelled()
    assert (world.end, moves(world.plan())) == (("Failed", "Cancelled"), [])
    assert world.flow.status.reused_claims is None


def test_a_flow_that_is_gone_before_the_move_leaves_nothing_to_move(before: World) -> None:
    world = replace(reusing(before).apply(), source=None)
    assert world.settled().jobs.keys() == {"g-a"}
