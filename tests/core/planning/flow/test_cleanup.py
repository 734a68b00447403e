"""Deletion of vcjobs and flows: `jobRetainPolicy`, the ttl of a template and of a flow."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from jobflow.api import labels
from jobflow.api.flow.control import Retry
from jobflow.api.volcano.job import JobCondition, JobState
from jobflow.core.planning.actions import DeleteFlow
from jobflow.core.timestamps import add
from support.plan.plan_world import World, flow
from support.plan.status_room import drop_everything
from support.plan.steps import step
from support.plan.world_state import FLOW_UID


def delete(world: World) -> World:
    spec = msgspec.structs.replace(world.flow.spec, job_retain_policy="delete")
    return World(msgspec.structs.replace(world.flow, spec=spec), world.templates)


def test_delete_removes_the_jobs_of_a_successful_flow() -> None:
    world = delete(flow("a", b="a")).with_jobs(a="Completed").settled().later(1)
    last = world.with_jobs(b="Completed")
    planned = last.plan()
    assert (planned.phase, planned.deletes) == ("Succeed", [])  # the end is not written yet
    world = last.apply(planned)
    assert world.plan().deletes == ["f-a", "f-b"]
    assert world.apply().plan().nothing
    assert world.apply().flow.status.completed_jobs == ["f-a", "f-b"]


def test_delete_keeps_the_jobs_of_a_flow_that_failed() -> None:
    world = delete(flow("a")).run(lambda step: "Failed")
    assert world.plan().deletes == []


def test_a_job_that_is_being_deleted_is_not_deleted_again() -> None:
    world = delete(flow("a", "b")).with_jobs(a="Completed", b="Completed").stored()
    world = world.with_metadata("f-a", deletion_timestamp=world.now)
    assert world.plan().deletes == ["f-b"]
    assert world.with_deleted("b").plan().deletes == []


@pytest.mark.parametrize("policy", ["retain", None])
def test_retain_keeps_the_jobs(policy: str | None) -> None:
    assert flow("a", retain=policy).run().plan().nothing


def test_ttl_deletes_a_job_once_its_end_is_written() -> None:
    world = flow("a", b="a").with_ttl("a", "Completed", 30)
    planned = world.plan()
    assert (planned.deletes, planned.plan.requeue_after) == ([], timedelta(seconds=30))
    late = world.later(31)
    planned = late.plan()
    assert (planned.deletes, planned.plan.urgent) == ([], True)  # only the write is missing
    world = late.apply(planned)
    assert world.plan().deletes == ["f-a"]
    assert world.settled().without_jobs("a").plan().creates == []


def test_a_ttl_of_zero_makes_the_write_urgent() -> None:
    world = flow("a", b="a", c="b").with_jobs(a="Completed").settled().with_ttl("b", "Completed", 0)
    planned = world.plan()
    assert (planned.plan.urgent, planned.deletes) == (True, [])
    assert world.stored().plan().deletes == ["f-b"]


def test_the_ttl_of_a_foreign_job_makes_no_write_urgent() -> None:
    world = flow("a").with_jobs(a="Running").settled().with_ttl("zzz", "Completed", 0)
    planned = world.plan()
    assert (planned.plan.urgent, planned.deletes) == (False, [])


def test_the_ttl_of_a_job_continues_after_the_flow_has_ended() -> None:
    world = flow("a").with_ttl("a", "Completed", 30).settled()
    assert world.flow.final
    assert world.plan().plan.requeue_after == timedelta(seconds=30)
    assert world.later(30).plan().deletes == ["f-a"]


def test_a_ttl_applies_without_a_job_record() -> None:
    world = flow("a").with_ttl("a", "Completed", 0).settled()
    world = world.with_deleted()
    world = world.with_jobs(a="Completed").with_ttl("a", "Completed", 0)
    world = world.with_status_fields(job_status_list=None)
    assert world.plan().deletes == ["f-a"]


def test_a_ttl_applies_to_a_later_attempt_whose_name_was_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drop_everything(monkeypatch)
    ttl = {labels.TTL_SECONDS: "30"}
    world = flow(a=step(retry=Retry(limit=1)))
    world = world.with_job(world.job("a", "Failed", **ttl)).settled()
    world = world.with_job(world.job("a", "Completed", run=1, **ttl)).settled()
    stored = (world.flow.status.conditions or {})["f-a"]
    assert (stored.phase, stored.attempts, stored.job) == ("Completed", 2, "")
    planned = world.later(30).plan()
    assert (planned.deletes, planned.plan.urgent) == (["f-a", "f-a-r1"], False)


@pytest.mark.parametrize("ttl", ["", "soon", "-1", "1.5", "²", "99999999999", "9" * 5000])
def test_an_invalid_ttl_keeps_the_job(ttl: str) -> None:
    planned = flow("a").with_ttl("a", "Completed", ttl).settled().plan()
    assert (planned.deletes, planned.plan.requeue_after) == ([], None)


def test_a_ttl_does_not_delete_a_running_job() -> None:
    planned = flow("a").with_ttl("a", "Running", 0).plan()
    assert (planned.deletes, planned.plan.requeue_after) == ([], None)


def test_a_job_without_timestamps_is_kept() -> None:
    world = flow("a").with_ttl("a", "Completed", 0).settled()
    state = msgspec.structs.replace(world.jobs["f-a"].status.state, last_transition_time=None)
    world = world.with_metadata("f-a", creation_timestamp=None).with_job_status("f-a", state=state)
    assert world.plan().deletes == []


def finished(ttl: int | None, end: str = "Completed") -> World:
    return flow("a").with_spec(ttl_seconds_after_finished=ttl).run(lambda name: end)


def is_deleted(world: World) -> bool:
    return DeleteFlow(FLOW_UID) in world.plan().plan.actions


@pytest.mark.parametrize("end", ["Completed", "Failed"])
def test_a_flow_is_deleted_once_its_ttl_has_passed(end: str) -> None:
    world = finished(60, end)
    assert not is_deleted(world)
    assert world.later(20).plan().plan.requeue_after == timedelta(seconds=40)
    assert not is_deleted(world.later(59))
    assert is_deleted(world.later(60))
    assert world.later(60).settled().plan().nothing


@pytest.mark.parametrize(
    ("end", "ttls", "seconds"),
    [
        ("Completed", {"succeeded": 10, "failed": 20}, 10),
        ("Failed", {"succeeded": 10, "failed": 20}, 20),
        ("Completed", {"succeeded": 10, "finished": 60}, 10),
        ("Failed", {"failed": 90, "finished": 60}, 90),
        ("Completed", {"failed": 20, "finished": 60}, 60),
        ("Failed", {"succeeded": 10, "finished": 60}, 60),
        ("Completed", {"failed": 20}, None),
        ("Failed", {"succeeded": 10}, None),
    ],
)
def test_the_ttl_of_an_end_takes_precedence_over_that_of_both(
    end: str, ttls: dict[str, int], seconds: int | None
) -> None:
    fields = {f"ttl_seconds_after_{name}": ttl for name, ttl in ttls.items()}
    world = flow("a").with_spec(**fields).run(lambda name: end)
    if seconds is None:
        assert not is_deleted(world.later(10**6))
    else:
        assert not is_deleted(world.later(seconds - 1))
        assert is_deleted(world.later(seconds))


def test_a_flow_stays_while_it_is_reused_whatever_its_ttl() -> None:
    world = replace(finished(60), reused_by=("g",)).later(90)
    assert world.plan().nothing
    assert is_deleted(replace(world, reused_by=()))
    forced = {labels.FORCE_DELETE: "true"}
    metadata = msgspec.structs.replace(world.flow.metadata, annotations=forced)
    assert is_deleted(replace(world, flow=msgspec.structs.replace(world.flow, metadata=metadata)))


def test_a_ttl_of_zero_deletes_the_flow_once_its_end_is_stored() -> None:
    world = flow("a").with_spec(ttl_seconds_after_finished=0).with_jobs(a="Completed")
    assert world.plan().phase == "Succeed"
    assert not is_deleted(world)
    assert is_deleted(world.stored())


def test_a_flow_without_a_ttl_is_kept() -> None:
    assert not is_deleted(finished(None).later(10**9))


def test_a_flow_that_is_being_deleted_is_not_deleted_again() -> None:
    assert finished(0).being_deleted().plan().nothing


def test_a_flow_that_is_retried_at_the_end_of_its_ttl_is_kept() -> None:
    world = finished(60, "Failed").later(60).with_command("RestartJob")
    assert not is_deleted(world)
    assert world.settled().plan().phases == {"a": "Pending"}


def test_a_running_flow_is_kept() -> None:
    world = flow("a").with_spec(ttl_seconds_after_finished=0).with_jobs(a="Running").settled()
    assert not is_deleted(world.later(10**6))


LAST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
FIRST = datetime(1, 1, 1, tzinfo=UTC)
"""The time that Go writes for a time that was never set."""


def running(at: datetime, phase: str = "Running", **fields: object) -> World:
    """a has been in this phase since `at`."""
    world = flow(a=step(**fields)).with_ttl("a", phase, 2**31 - 1)
    job = world.jobs["f-a"]
    state = JobState(phase=phase, last_transition_time=at)
    entries = [JobCondition(status=phase, last_transition_time=at)]
    status = msgspec.structs.replace(job.status, state=state, conditions=entries)
    return world.with_job(msgspec.structs.replace(job, status=status))


def aborting(at: datetime) -> World:
    world = flow("a").with_jobs(a="Running").cancelled()
    return world.with_condition("a", abort_time=at)


def timed(at: datetime) -> World:
    world = flow("a").with_spec(timeout="870000h").with_jobs(a="Running").settled()
    return world.with_status_fields(start_time=at, suspended_seconds=2**31 - 1)


def suspended(at: datetime) -> World:
    world = flow("a").with_jobs(a="Running").with_command("SuspendFlow").settled()
    return world.with_status_fields(suspended_at=at).with_command("ResumeJob", name="r")


WORLDS = {
    "a flow's ttl": lambda at: finished(2**31 - 1).with_status_fields(completion_time=at),
    "one past admission": lambda at: (
        finished(1)
        .with_spec(ttl_seconds_after_finished=10**18)
        .with_status_fields(completion_time=at)
    ),
    "a template's ttl": lambda at: running(at, "Completed").stored(),
    "a step's timeout": lambda at: running(at, timeout="870000h"),
    "the flow's timeout": timed,
    "suspended": suspended,
    "aborting": aborting,
}


@pytest.mark.parametrize("make_world", WORLDS.values(), ids=WORLDS.keys())
@pytest.mark.parametrize("at", [FIRST, LAST], ids=["first", "last"])
@pytest.mark.parametrize("now", [None, LAST], ids=["now", "at the end of time"])
def test_a_plan_accepts_any_stored_time(
    make_world: Callable[[datetime], World], at: datetime, now: datetime | None
) -> None:
    world = make_world(at)
    planned = replace(world, now=now or world.now).plan()
    assert not planned.asks_at_once


def test_sums_of_times_are_limited_to_the_last_time() -> None:
    assert add(LAST, 1) == add(LAST, 10**30) == add(LAST, timedelta.max) == LAST
    assert add(FIRST, 1) == FIRST + timedelta(seconds=1)
    assert add(FIRST, timedelta(days=1)) == FIRST + timedelta(days=1)
