"""Which vcjobs go, and when: by the flow's policy and by their template's ttl."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from support.plan.plan_world import World, flow


def delete(world: World) -> World:
    spec = msgspec.structs.replace(world.flow.spec, job_retain_policy="delete")
    return World(msgspec.structs.replace(world.flow, spec=spec), world.templates)


def test_delete_removes_the_jobs_of_a_flow_that_has_succeeded() -> None:
    world = delete(flow("a", b="a")).with_jobs(a="Completed").settled().later(1)
    last = world.with_jobs(b="Completed")
    planned = last.plan()
    assert (planned.phase, planned.deletes) == ("Succeed", [])  # it is not written yet
    world = last.carried_out(planned)
    assert world.plan().deletes == ["f-a", "f-b"]
    assert world.carried_out().plan().nothing
    assert world.carried_out().flow.status.completed_jobs == ["f-a", "f-b"]


def test_delete_keeps_the_jobs_of_a_flow_that_failed() -> None:
    world = delete(flow("a")).run(lambda step: "Failed")
    assert world.plan().deletes == []


def test_what_is_going_already_is_not_deleted_again() -> None:
    world = delete(flow("a", "b")).with_jobs(a="Completed", b="Completed").stored()
    job = world.jobs["f-a"]
    going = msgspec.structs.replace(job.metadata, deletion_timestamp=world.now)
    world = world.with_job(msgspec.structs.replace(job, metadata=going))
    assert world.plan().deletes == ["f-b"]
    assert world.last_seen("b").plan().deletes == []


@pytest.mark.parametrize("policy", ["retain", None])
def test_retain_keeps_them(policy: str | None) -> None:
    assert flow("a", retain=policy).run().plan().nothing


def test_ttl_deletes_a_job_once_its_end_is_written() -> None:
    world = flow("a", b="a").with_ttl("a", "Completed", 30)
    planned = world.plan()
    assert (planned.deletes, planned.plan.requeue_after) == ([], timedelta(seconds=30))
    late = world.later(31)
    planned = late.plan()
    assert (planned.deletes, planned.plan.urgent) == ([], True)  # only the write is missing
    world = late.carried_out(planned)
    assert world.plan().deletes == ["f-a"]
    assert world.settled().without_jobs("a").plan().creates == []


def test_a_ttl_of_nothing_hurries_the_write() -> None:
    world = flow("a", b="a", c="b").with_jobs(a="Completed").settled().with_ttl("b", "Completed", 0)
    planned = world.plan()
    assert (planned.plan.urgent, planned.deletes) == (True, [])
    assert world.stored().plan().deletes == ["f-b"]


def test_a_job_of_no_step_hurries_nothing() -> None:
    world = flow("a").with_jobs(a="Running").settled().with_ttl("zzz", "Completed", 0)
    planned = world.plan()
    assert (planned.plan.urgent, planned.deletes) == (False, [])


def test_ttl_goes_on_after_the_flow_has_ended() -> None:
    world = flow("a").with_ttl("a", "Completed", 30).settled()
    assert world.flow.final
    assert world.plan().plan.requeue_after == timedelta(seconds=30)
    assert world.later(30).plan().deletes == ["f-a"]


def test_ttl_is_judged_by_the_step_where_the_record_was_dropped() -> None:
    world = flow("a").with_ttl("a", "Completed", 0).settled()
    world = world.last_seen()
    status = msgspec.structs.replace(world.flow.status, job_status_list=None)
    world = world.with_jobs(a="Completed").with_ttl("a", "Completed", 0).with_status(status)
    assert world.plan().deletes == ["f-a"]


@pytest.mark.parametrize("ttl", ["", "soon", "-1", "1.5", "²", "99999999999", "9" * 5000])
def test_a_ttl_that_is_none_keeps_the_job(ttl: str) -> None:
    planned = flow("a").with_ttl("a", "Completed", ttl).settled().plan()
    assert (planned.deletes, planned.plan.requeue_after) == ([], None)


def test_ttl_says_nothing_about_a_job_that_runs() -> None:
    planned = flow("a").with_ttl("a", "Running", 0).plan()
    assert (planned.deletes, planned.plan.requeue_after) == ([], None)


def test_a_job_without_any_time_is_kept() -> None:
    world = flow("a").with_ttl("a", "Completed", 0).settled()
    job = world.jobs["f-a"]
    metadata = msgspec.structs.replace(job.metadata, creation_timestamp=None)
    state = msgspec.structs.replace(job.status.state, last_transition_time=None)
    status = msgspec.structs.replace(job.status, state=state)
    world = world.with_job(msgspec.structs.replace(job, metadata=metadata, status=status))
    assert world.plan().deletes == []
