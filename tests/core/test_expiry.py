"""`ttlSecondsAfterFinished` of a flow: it goes once it is over, by its stored status alone."""

from __future__ import annotations

from datetime import timedelta

import pytest

from jobflow.core.actions import DeleteFlow
from worlds import FLOW_UID, World, flow


def over(ttl: int | None, end: str = "Completed") -> World:
    return flow("a").with_spec(ttl_seconds_after_finished=ttl).run(lambda name: end)


def goes(world: World) -> bool:
    return DeleteFlow(FLOW_UID) in world.plan().plan.actions


@pytest.mark.parametrize("end", ["Completed", "Failed"])
def test_it_goes_when_its_time_is_over(end: str) -> None:
    world = over(60, end)
    assert not goes(world)
    assert world.later(20).plan().plan.requeue_after == timedelta(seconds=40)
    assert not goes(world.later(59))
    assert goes(world.later(60))
    assert world.later(60).settled().plan().nothing


def test_zero_is_at_once_but_not_before_the_end_is_stored() -> None:
    world = flow("a").with_spec(ttl_seconds_after_finished=0).with_jobs(a="Completed")
    assert world.plan().phase == "Succeed"
    assert not goes(world)
    assert goes(world.stored())


def test_without_a_ttl_it_stays() -> None:
    assert not goes(over(None).later(10**9))


def test_one_that_is_being_deleted_is_not_deleted_again() -> None:
    assert over(0).being_deleted().plan().nothing


def test_one_that_is_retried_just_then_stays() -> None:
    world = over(60, "Failed").later(60).with_command("RestartJob")
    assert not goes(world)
    assert world.settled().plan().phases == {"a": "Pending"}


def test_what_is_under_way_stays() -> None:
    world = flow("a").with_spec(ttl_seconds_after_finished=0).with_jobs(a="Running").settled()
    assert not goes(world.later(10**6))
