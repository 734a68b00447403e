"""`ttlSecondsAfterFinished` of a flow: it goes once it is over, by its stored status alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from jobflow.api.job import JobCondition, JobState
from jobflow.core.planning.actions import DeleteFlow
from jobflow.core.timestamps import add
from support.plan.plan_world import FLOW_UID, World, flow
from support.plan.steps import step


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


LAST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
FIRST = datetime(1, 1, 1, tzinfo=UTC)
"""What Go writes for a time that was never set."""


def with_status(world: World, **changes: object) -> World:
    return world.with_status(msgspec.structs.replace(world.flow.status, **changes))


def running(at: datetime, phase: str = "Running", **said: object) -> World:
    """a runs, or has ended, since then."""
    world = flow(a=step(**said)).with_ttl("a", phase, 2**31 - 1)
    job = world.jobs["f-a"]
    state = JobState(phase=phase, last_transition_time=at)
    entries = [JobCondition(status=phase, last_transition_time=at)]
    status = msgspec.structs.replace(job.status, state=state, conditions=entries)
    return world.with_job(msgspec.structs.replace(job, status=status))


def aborting(at: datetime) -> World:
    world = flow("a").with_jobs(a="Running").cancelled()
    conditions = world.flow.status.conditions or {}
    condition = msgspec.structs.replace(conditions["f-a"], abort_time=at)
    return with_status(world, conditions={"f-a": condition})


def timed(at: datetime) -> World:
    world = flow("a").with_spec(timeout="870000h").with_jobs(a="Running").settled()
    return with_status(world, start_time=at, suspended_seconds=2**31 - 1)


def suspended(at: datetime) -> World:
    world = flow("a").with_jobs(a="Running").with_command("SuspendFlow").settled()
    return with_status(world, suspended_at=at).with_command("ResumeJob", name="r")


STRANGE = {
    "a flow's ttl": lambda at: with_status(over(2**31 - 1), completion_time=at),
    "one past admission": lambda at: with_status(
        over(1).with_spec(ttl_seconds_after_finished=10**18), completion_time=at
    ),
    "a template's ttl": lambda at: running(at, "Completed").stored(),
    "a step's timeout": lambda at: running(at, timeout="870000h"),
    "the flow's timeout": timed,
    "suspended": suspended,
    "aborting": aborting,
}


@pytest.mark.parametrize("strange", STRANGE.values(), ids=STRANGE.keys())
@pytest.mark.parametrize("at", [FIRST, LAST], ids=["first", "last"])
@pytest.mark.parametrize("now", [None, LAST], ids=["now", "at the end of time"])
def test_no_time_is_too_strange(
    strange: Callable[[datetime], World], at: datetime, now: datetime | None
) -> None:
    world = strange(at)
    planned = replace(world, now=now or world.now).plan()
    assert not planned.asks_at_once


def test_what_is_due_after_the_end_of_time_is_due_then() -> None:
    assert add(LAST, 1) == add(LAST, 10**30) == add(LAST, timedelta.max) == LAST
    assert add(FIRST, 1) == FIRST + timedelta(seconds=1)
    assert add(FIRST, timedelta(days=1)) == FIRST + timedelta(days=1)
