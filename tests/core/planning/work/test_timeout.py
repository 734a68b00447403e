"""`timeout` of a run and of a flow. It adds a second, because its start is cut to a whole one."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from jobflow.api.flow.control import Retry
from jobflow.api.volcano.job import JobCondition, JobState, JobStatus
from support.plan.loop_worlds import (
    end_jobs,
    finish,
    for_each,
    jobs_in,
    runs,
    two_steps,
    wait,
    with_step,
)
from support.plan.plan_world import World, flow
from support.plan.world_state import NOW


def running(**fields: Any) -> World:
    """A world in which the vcjob of `a`, which may take 59 s, has been Running for a second."""
    return end_jobs(two_steps(timeout="59s", **fields).settled(), "Running", "f-a")


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def test_waiting_time_does_not_count_for_the_timeout_of_a_step() -> None:
    world = two_steps(timeout="59s").settled()
    world = end_jobs(world, "Pending", "f-a").later(3600)
    assert world.plan().conditions["a"].deadline is None
    assert world.settled().plan().aborts == []
    world = end_jobs(world, "Running", "f-a")
    assert world.plan().conditions["a"].deadline == at(3662)
    assert world.plan().plan.requeue_after == timedelta(minutes=1)


def test_the_job_is_aborted_after_the_timeout_is_stored() -> None:
    world = running().later(59)
    assert world.plan().conditions["a"].reason == ""
    world = world.later(1)
    planned = world.plan()
    assert (planned.aborts, planned.plan.urgent) == ([], True)
    condition = planned.conditions["a"]
    assert (condition.phase, condition.reason) == ("Running", "Timeout")
    assert condition.message == "is being aborted: it took longer than its timeout of 59s"
    assert world.stored().plan().aborts == ["f-a"]


def test_a_step_that_timed_out_has_failed() -> None:
    world = end_jobs(running().later(60).settled(), "Aborted", "f-a")
    condition = world.plan().conditions["a"]
    assert (condition.phase, condition.reason, condition.deadline) == ("Failed", "Timeout", None)
    message = "it took longer than its timeout of 59s; the job f-a ended Aborted"
    assert condition.message == message
    assert world.plan().skipped == {"b": "UpstreamFailed"}
    assert world.flow.status.terminated_jobs == ["f-a"]


def test_a_job_that_ignores_the_abort_is_deleted_and_its_step_fails() -> None:
    world = running().later(60).settled().later(60)
    assert world.plan().deletes == ["f-a"]
    world = world.settled()
    assert world.plan().failed == {"a": "Timeout"}
    assert world.records["f-a"].state == "Aborted"


def test_a_job_that_ended_between_two_plans_has_not_timed_out() -> None:
    world = running().later(3600).ended("f-a", "Completed")
    assert world.plan().phases["a"] == "Completed"


RAN = JobCondition(status="Running", last_transition_time=at(5))
PENDED = JobCondition(status="Pending", last_transition_time=at(2))


@pytest.mark.parametrize(
    ("status", "until"),
    [
        (JobStatus(state=JobState(phase="Running", last_transition_time=at(5))), 65),
        (JobStatus(state=JobState(phase="Restarting"), conditions=[PENDED, RAN]), 65),
        (JobStatus(state=JobState(phase="Running"), conditions=[PENDED, RAN]), 65),
        (
            JobStatus(
                state=JobState(phase="Running", last_transition_time=at(30)),
                conditions=[RAN, JobCondition(status="Running", last_transition_time=at(30))],
            ),
            65,
        ),
        (JobStatus(state=JobState(phase="Running", last_transition_time=at(-600))), 60),
        (JobStatus(state=JobState(phase="Running", last_transition_time=at(600))), 100),
        (JobStatus(state=JobState(phase="Running"), conditions=[PENDED]), None),
        (JobStatus(state=JobState(phase="Pending", last_transition_time=at(2))), None),
    ],
)
def test_the_timeout_starts_when_the_job_first_runs(status: JobStatus, until: int | None) -> None:
    """Volcano's clock may be wrong: a vcjob runs neither before its creation, at 0, nor after the
    first plan that sees it, at 40."""
    world = two_steps(timeout="59s").settled()
    world = world.later(40).with_job(msgspec.structs.replace(world.jobs["f-a"], status=status))
    assert world.plan().conditions["a"].deadline == (None if until is None else at(until))


def test_the_recorded_start_counts_if_the_job_no_longer_has_it() -> None:
    """The status has no deadline, as if Volcano's controller had started the flow."""
    world = running().with_condition("a", deadline=None)
    status = JobStatus(state=JobState(phase="Restarting", last_transition_time=at(20)))
    job = msgspec.structs.replace(world.jobs["f-a"], status=status)
    world = world.later(20).with_job(job)
    assert world.plan().conditions["a"].deadline == at(61)


@pytest.mark.parametrize("phase", ["Restarting", "Completing"])
def test_the_timeout_continues_in_other_phases(phase: str) -> None:
    world = end_jobs(running(), phase, "f-a").later(60)
    assert world.plan().conditions["a"].reason == "Timeout"


def test_each_attempt_has_its_own_timeout() -> None:
    world = running(retry=Retry(limit=1)).later(60).settled()
    world = end_jobs(world, "Aborted", "f-a")
    condition = world.plan().conditions["a"]
    assert (condition.reason, condition.deadline, condition.failures) == ("Retrying", None, 1)
    world = wait(world)
    assert list(jobs_in(world)) == ["f-a", "f-a-r1"]
    started = world.now + timedelta(seconds=1)
    world = end_jobs(world, "Running", "f-a-r1")
    assert world.plan().conditions["a"].deadline == started + timedelta(minutes=1)


def test_a_job_that_is_deleted_during_its_abort_counts_as_an_attempt() -> None:
    world = running(retry=Retry(limit=1)).later(60).settled().without_jobs("a").settled()
    condition = world.plan().conditions["a"]
    assert (condition.reason, condition.failures) == ("Retrying", 1)
    assert list(jobs_in(wait(world))) == ["f-a-r1"]


def test_nodes_stay_avoided_after_an_attempt_that_was_deleted() -> None:
    world = running(retry=Retry(limit=2, avoid_nodes=True))
    world = wait(finish(world, "f-a", "", phase="Failed").settled())
    world = end_jobs(world, "Running", "f-a-r1").later(60).settled().later(60).settled()
    condition = world.plan().conditions["a"]
    assert (condition.reason, condition.avoid_nodes) == ("Retrying", ["n-f-a"])


def test_each_item_has_its_own_timeout() -> None:
    world = end_jobs(for_each(2, timeout="59s").settled(), "Running", "f-a-0").later(30)
    world = end_jobs(world, "Running", "f-a-1").later(29).settled()
    assert runs(world.plan()) == {0: "Running Timeout", 1: "Running"}
    assert list(world.aborts) == ["uid-f-a-0"]
    condition = world.plan().conditions["a"]
    assert (condition.phase, condition.reason, condition.abort_time) == ("Running", "", None)
    world = end_jobs(world, "Aborted", "f-a-0")
    world = end_jobs(world, "Completed", "f-a-1")
    assert world.plan().failed == {"a": "Timeout"}


def test_a_cancelled_flow_does_not_retry_a_step_that_timed_out() -> None:
    world = running(retry=Retry(limit=1)).later(60).settled().with_command().settled()
    world = end_jobs(world, "Aborted", "f-a")
    assert world.plan().failed == {"a": "Timeout"}
    assert world.flow.status.state.phase == "Failed"


@pytest.mark.parametrize("timeout", ["", "soon", None])
def test_an_invalid_timeout_of_a_step_is_ignored(timeout: str | None) -> None:
    world = with_step(running(), "a", timeout=timeout).with_status(running().flow.status)
    world = world.with_status_fields(
        conditions={
            key: msgspec.structs.replace(condition, deadline=None)
            for key, condition in (world.flow.status.conditions or {}).items()
        }
    )
    assert world.later(10_000).plan().conditions["a"].reason == ""


def timed(timeout: str = "59s") -> World:
    """a runs, b waits for it."""
    return flow("a", b="a").with_spec(timeout=timeout).with_jobs(a="Running").settled()


def test_a_plan_is_due_at_the_timeout_of_the_flow() -> None:
    assert timed().later(10).plan().plan.requeue_after == timedelta(seconds=50)
    assert timed().later(59.9).plan().conditions["a"].reason == ""


def test_a_flow_that_timed_out_aborts_running_steps_and_skips_the_others() -> None:
    world = timed().later(60)
    planned = world.plan()
    assert (planned.phase, planned.reason) == ("Running", "Timeout")
    assert planned.message == "the flow took longer than its timeout of 59s"
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
        "the flow took longer than its timeout of 59s; the job f-a ended Aborted"
    )
    assert (planned.phase, planned.reason) == ("Failed", "Timeout")


def test_waiting_time_counts_for_the_timeout_of_a_flow() -> None:
    world = flow("a").with_spec(timeout="59s").without_template("a").settled().later(60)
    assert world.plan().skipped == {"a": "Stopped"}
    assert (world.plan().phase, world.plan().reason) == ("Failed", "Timeout")


def test_a_flow_that_ends_at_its_timeout_has_succeeded() -> None:
    world = flow("a").with_spec(timeout="59s").with_jobs(a="Running").settled().later(60)
    assert world.ended("f-a", "Completed").plan().phase == "Succeed"


def test_the_timeout_of_a_flow_does_not_abort_finally() -> None:
    world = flow("a").with_finally("z").with_spec(timeout="59s").with_jobs(a="Completed").settled()
    world = world.with_jobs(z="Running").settled().later(60).settled()
    assert (world.plan().aborts, world.plan().reason) == ([], "Timeout")
    assert world.ended("f-z", "Completed").plan().phase == "Failed"


@pytest.mark.parametrize("action", ["SuspendFlow", "AbortJob"])
def test_suspended_time_does_not_count(action: str) -> None:
    world = timed().later(40).with_command(action).settled().later(100)
    assert world.plan().reason == "Suspended"
    world = world.with_command("ResumeJob", name="again").settled()
    assert world.flow.status.suspended_seconds == 100
    assert world.later(19).plan().reason != "Timeout"
    assert world.later(20).plan().reason == "Timeout"


@pytest.mark.parametrize("action", ["SuspendFlow", "AbortJob"])
def test_a_suspension_in_the_last_second_keeps_the_remaining_time(action: str) -> None:
    """A Command that exists at the timeout is handled first."""
    assert timed().later(60).with_command(action).settled().later(100).plan().reason == "Suspended"
    world = timed().later(59).with_command(action).settled().later(500)
    world = world.with_command("ResumeJob", name="again").settled()
    assert world.plan().reason != "Timeout"
    assert world.later(0.9).plan().reason != "Timeout"
    assert world.later(1).plan().reason == "Timeout"


def test_a_flow_that_is_resumed_after_its_timeout_times_out_at_once() -> None:
    world = timed().later(60).with_command("SuspendFlow").settled().later(500)
    assert world.with_command("ResumeJob", name="again").plan().reason == "Timeout"


def test_a_cancel_and_a_timeout_do_not_replace_each_other() -> None:
    assert timed().cancelled().later(60).plan().reason == "Cancelled"
    assert timed().later(60).settled().cancelled().plan().reason == "Timeout"


def test_a_flow_that_is_being_deleted_times_out_too() -> None:
    world = timed().being_deleted().later(60)
    assert (world.plan().phase, world.plan().reason) == ("Terminating", "Timeout")


@pytest.mark.parametrize("timeout", ["", "soon"])
def test_an_invalid_timeout_of_a_flow_is_ignored(timeout: str) -> None:
    assert timed(timeout).later(10**6).plan().reason == ""


def test_the_timeout_of_a_flow_without_live_steps_causes_no_plan() -> None:
    """A finalizer keeps the flow, and its steps have ended."""
    world = flow("a").with_spec(timeout="59s").with_jobs(a="Running").settled()
    world = world.being_deleted().later(10).ended("f-a", "Completed").settled()
    for seconds in (0, 50, 3600):
        planned = world.later(seconds).plan()
        assert planned.nothing
        assert planned.plan.requeue_after is None
