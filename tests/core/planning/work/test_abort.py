"""Abort of the runs of a cancelled flow: Volcano first, then deletion after a minute."""

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from jobflow.api.flow.control import Retry
from jobflow.core.planning.actions import AbortJob, DeleteJob
from support.plan.plan_world import World, after, flow
from support.plan.planned import Planned
from support.plan.steps import step


def cancel(world: World) -> Planned:
    return world.with_command().plan()


def two_running() -> World:
    """a has Completed, b and c run, d waits for both."""
    world = flow("a", b="a", c="a", d="b c")
    return world.with_jobs(a="Completed", b="Running", c="Running").settled()


def no_template() -> World:
    return flow("a", b="a").without_template("a").settled()


def refused() -> World:
    return flow("a").with_refusal("a", 403, "quota", retry_in=5).settled()


def cyclic() -> World:
    """A flow that bypassed admission, with a status so that it is not marked Invalid."""
    world = flow(a="b", b="a")
    status = msgspec.structs.replace(world.flow.status, progress="0/2")
    state = msgspec.structs.replace(status.state, phase="Running")
    return world.with_status(msgspec.structs.replace(status, state=state))


@pytest.mark.parametrize(
    "world",
    [flow("a", b="a"), no_template(), refused(), cyclic()],
    ids=["before-anything", "no-template", "create-refused", "waits-for-itself"],
)
def test_a_flow_that_runs_nothing_ends_at_once(world: World) -> None:
    planned = cancel(world)
    assert planned.creates == []
    assert planned.skipped == dict.fromkeys(planned.conditions, "Stopped")
    assert {c.message for c in planned.conditions.values()} == {"the flow was cancelled"}
    assert (planned.phase, planned.reason) == ("Failed", "Cancelled")
    assert planned.plan.urgent
    assert planned.status.completion_time is not None
    assert planned.events == ["StepSkipped", "FlowCancelled", "FlowFailed"]


def test_a_step_between_two_attempts_is_not_attempted_again() -> None:
    world = flow("a", b="a").with_jobs(a="Running").settled().without_jobs("a")
    world = world.with_missing("f-a").settled()
    assert world.plan().held_up == {"a": "JobLost"}
    planned = cancel(world)
    assert (planned.failed, planned.skipped) == ({"a": "Cancelled"}, {"b": "Stopped"})
    assert planned.conditions["a"].message == "the flow was cancelled; the job f-a is gone"
    assert planned.conditions["a"].next_attempt_time is None
    assert (planned.phase, planned.creates, planned.job_reads) == ("Failed", [], [])


def test_the_end_of_a_lost_job_is_recorded_once() -> None:
    """Its last object is still known, but has less information than the status."""
    world = flow("a", "b").with_jobs(a="Running", b="Running").settled()
    world = world.with_deleted("a").settled().later(0.5).with_command()
    lost = world.records["f-a"]
    for _ in range(2):
        world = world.stored().later(0.5)
        ended = world.records["f-a"]
        assert (ended.state, ended.end_timestamp) == ("Aborted", lost.end_timestamp)


def test_an_unknown_job_is_read_before_its_step_fails() -> None:
    world = flow("a").with_jobs(a="Running").settled().without_jobs("a")
    planned = cancel(world)
    assert (planned.job_reads, planned.phase, planned.reason) == (["f-a"], "Running", "Cancelled")
    world = world.with_command().apply()
    assert world.plan().failed == {"a": "Cancelled"}
    assert world.plan().phase == "Failed"


def test_a_cancel_aborts_running_steps_and_skips_the_others() -> None:
    planned = cancel(two_running())
    assert planned.phases == {"a": "Completed", "b": "Running", "c": "Running", "d": "Skipped"}
    assert planned.conditions["b"].reason == "Cancelled"
    assert planned.conditions["b"].message == "is being aborted: the flow was cancelled"
    assert (planned.phase, planned.reason, planned.status.progress) == (
        "Running",
        "Cancelled",
        "2/4",
    )
    assert planned.plan.urgent
    assert planned.events == ["StepSkipped", "FlowCancelled"]


@pytest.mark.parametrize("phase", ["", "Pending", "Running", "Restarting", "Completing"])
def test_the_abort_is_repeated_every_ten_seconds(phase: str) -> None:
    world = flow("a").with_jobs(a=phase).cancelled()
    assert world.plan().nothing
    assert world.plan().plan.requeue_after == timedelta(seconds=10)
    assert world.later(9).plan().aborts == []
    world = world.later(10)
    assert world.plan().aborts == ["f-a"]
    assert world.settled().later(10).plan().aborts == ["f-a"]


def test_an_aborting_job_is_deleted_after_a_minute() -> None:
    world = flow("a").with_jobs(a="Running").cancelled().ended("f-a", "Aborting").settled()
    assert world.plan().plan.requeue_after == timedelta(seconds=60)
    assert world.later(59).plan().plan.actions == ()
    assert world.later(60).plan().deletes == ["f-a"]


def test_a_job_that_ignores_the_abort_is_deleted_after_a_minute() -> None:
    world = flow("a", b="a").with_jobs(a="Running").cancelled().later(60)
    [delete] = world.plan().plan.actions
    assert delete == DeleteJob("f-a", "uid-f-a")
    world = world.apply()
    planned = world.plan()
    assert planned.failed == {"a": "Cancelled"}
    assert planned.conditions["a"].abort_time is None
    assert (planned.phase, planned.reason) == ("Failed", "Cancelled")
    assert planned.status.terminated_jobs == ["f-a"]


def test_a_flow_waits_for_a_job_that_is_already_being_deleted() -> None:
    world = flow("a").with_jobs(a="Running").cancelled().later(70)
    world = world.with_metadata("f-a", deletion_timestamp=world.now)
    assert world.plan().plan.actions == ()
    assert world.plan().phase == "Running"


@pytest.mark.parametrize("end", ["Aborted", "Terminated", "Failed"])
def test_the_reason_of_an_aborted_run_is_the_reason_of_its_abort(end: str) -> None:
    world = two_running().cancelled().later(1).ended("f-b", end).ended("f-c", end)
    planned = world.plan()
    assert planned.failed == {"b": "Cancelled", "c": "Cancelled"}
    message = f"the flow was cancelled; the job f-b ended {end}"
    assert planned.conditions["b"].message == message
    assert (planned.phase, planned.reason, planned.message) == (
        "Failed",
        "Cancelled",
        "the flow was cancelled",
    )
    assert world.settled().records["f-b"].state == end


def test_a_job_that_completes_despite_the_cancel_is_completed() -> None:
    world = two_running().cancelled().ended("f-b", "Completed").ended("f-c", "Aborted")
    planned = world.plan()
    assert (planned.phases["b"], planned.failed) == ("Completed", {"c": "Cancelled"})
    assert (planned.phase, planned.reason, planned.creates) == ("Failed", "Cancelled", [])


def test_a_failing_flow_can_be_cancelled() -> None:
    world = flow("a", "b", c="b", d=after("c", condition="Finished"))
    world = world.with_jobs(a="Failed", b="Running").settled()
    assert world.plan().reason == "StepFailed"
    world = world.cancelled()
    assert (world.plan().phase, world.plan().reason) == ("Running", "Cancelled")
    planned = world.ended("f-b", "Aborted").plan()
    assert planned.failed == {"a": "JobFailed", "b": "Cancelled"}
    assert (planned.phase, planned.reason) == ("Failed", "Cancelled")


def test_a_late_job_of_a_skipped_step_is_deleted() -> None:
    world = two_running().cancelled().with_jobs(d="Pending")
    assert world.plan().deletes == ["f-d"]
    assert world.plan().skipped == {"d": "Stopped"}
    world = world.apply().ended("f-b", "Aborted").ended("f-c", "Aborted").settled()
    assert world.flow.status.state.phase == "Failed"


def test_a_resumed_job_of_an_earlier_attempt_is_deleted_when_the_flow_is_cancelled() -> None:
    world = flow(a=step(retry=Retry(limit=1))).with_jobs(a="Running").settled()
    world = world.ended("f-a", "Failed").settled().later(1).settled()
    world = world.with_jobs(a="Running").cancelled()
    assert "f-a" in world.deleted
    assert "f-a-r1" not in world.deleted


def test_an_aborted_job_that_a_user_resumes_is_not_touched() -> None:
    world = flow("a").with_jobs(a="Running").cancelled().ended("f-a", "Aborted").settled()
    assert world.flow.final
    assert world.ended("f-a", "Running").plan().plan.actions == ()


def test_a_new_controller_process_repeats_the_abort() -> None:
    """Only the process knows when it sent the abort of a vcjob."""
    world = flow("a").with_jobs(a="Running").cancelled().later(3)
    assert replace(world, aborts={}).plan().plan.actions == (AbortJob("f-a", "uid-f-a"),)


def test_the_message_of_the_flow_contains_that_of_the_command() -> None:
    world = flow("a").with_jobs(a="Running").with_command(text="wrong data").settled()
    assert world.plan().message == "the flow was cancelled: wrong data"
    assert world.ended("f-a", "Aborted").plan().message == "the flow was cancelled: wrong data"
    long = flow("a").with_command(text="x" * 1000).plan()
    assert len(long.message) == 256


def test_a_flow_that_volcano_started_can_be_cancelled() -> None:
    world = flow("a", b="a").with_jobs(a="Running")
    world = world.with_metadata("f-a", labels=None, annotations=None).cancelled()
    assert world.ended("f-a", "Aborted").plan().failed == {"a": "Cancelled"}
