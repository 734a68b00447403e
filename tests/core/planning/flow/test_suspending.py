"""Suspending and resuming a flow, by Commands and by its spec."""

from dataclasses import replace

import pytest

from jobflow.core.planning.actions import ReadPods
from support.plan.loop_worlds import end_jobs, for_each, jobs_in, repeated
from support.plan.plan_world import World, flow


def running() -> World:
    """a runs, b waits for it, x has no template yet."""
    world = flow("a", "x", b="a").without_template("x").with_jobs(a="Running")
    return world.settled()


def suspended(action: str = "SuspendFlow") -> World:
    return running().with_command(action, name="s").settled()


def resumed(world: World) -> World:
    return world.with_command("ResumeJob", name="r").settled()


def test_a_suspended_flow_starts_nothing_and_aborts_nothing() -> None:
    world = running().with_command("SuspendFlow")
    planned = world.plan()
    assert (planned.phase, planned.reason) == ("Running", "Suspended")
    assert planned.message == "the flow is suspended"
    assert planned.events == ["FlowSuspended"]
    assert planned.plan.urgent
    assert planned.status.suspended_at == world.now
    assert planned.status.suspended_by == "SuspendFlow"
    assert planned.held_up == {"x": "Suspended"}
    world = world.settled().with_template("x")
    assert (world.plan().creates, world.plan().aborts) == ([], [])
    world = world.ended("f-a", "Completed").settled()
    assert world.plan().held_up == {"x": "Suspended", "b": "Suspended"}


def test_a_resumed_flow_starts_waiting_steps() -> None:
    world = suspended().ended("f-a", "Completed").settled().later(30)
    world = world.with_template("x").with_command("ResumeJob", name="r")
    planned = world.plan()
    assert planned.creates == ["f-x", "f-b"]
    assert (planned.reason, planned.events) == ("", ["FlowResumed"])
    assert planned.status.suspended_at is None
    assert (planned.status.suspended_by, planned.status.suspended_seconds) == ("", 30)
    world = resumed(suspended().later(5)).with_command("SuspendFlow", name="t").settled().later(7)
    assert resumed(world).flow.status.suspended_seconds == 12


def test_a_suspended_flow_ends_with_its_last_job() -> None:
    world = flow("a").with_jobs(a="Running").settled().with_command("SuspendFlow").settled()
    world = world.later(9).ended("f-a", "Completed").settled()
    assert world.end == ("Succeed", "")
    assert world.flow.status.suspended_at is None
    assert world.flow.status.suspended_seconds == 9


def test_a_suspended_flow_fails_only_after_it_is_resumed() -> None:
    world = suspended().ended("f-a", "Failed").settled()
    assert (world.plan().phases["a"], world.plan().reason) == ("Failed", "Suspended")
    world = resumed(world)
    assert world.end == ("Failed", "StepFailed")


def test_a_lost_job_is_not_recreated_while_the_flow_is_suspended() -> None:
    world = suspended().without_jobs("a").with_missing("f-a").settled().later(10)
    assert world.plan().creates == []
    assert world.plan().phases["a"] == "Waiting"
    assert resumed(world).plan().phases["a"] == "Pending"


def test_abort_job_aborts_running_steps_which_run_again_on_resume() -> None:
    world = running().with_command("AbortJob", name="s")
    planned = world.plan()
    assert (planned.reason, planned.aborts) == ("Suspended", [])
    assert planned.conditions["a"].reason == "Suspended"
    assert planned.conditions["a"].message == "is being aborted: the flow was suspended"
    assert world.stored().plan().aborts == ["f-a"]
    world = world.settled().ended("f-a", "Aborted").settled()
    condition = world.plan().conditions["a"]
    assert (condition.phase, condition.reason) == ("Waiting", "Suspended")
    assert (condition.attempts, condition.failures) == (1, 0)
    assert world.plan().skipped == {}
    world = resumed(world.later(10))
    assert world.plan().phases["a"] == "Pending"
    assert world.plan().conditions["a"].job == "f-a-r1"


def test_a_step_that_is_resumed_before_its_job_ends_runs_again() -> None:
    """A stored abort is always sent, because the job may be aborting already."""
    world = resumed(suspended("AbortJob").ended("f-a", "Aborting"))
    assert world.plan().conditions["a"].reason == "Suspended"
    world = world.ended("f-a", "Aborted").settled()
    assert world.plan().conditions["a"].job == "f-a-r1"


def test_a_job_that_appears_after_abort_job_is_aborted() -> None:
    """Its create was under way. The status records which command suspended the flow."""
    world = suspended("AbortJob").with_template("x").with_jobs(x="Pending").settled()
    assert world.plan().conditions["x"].reason == "Suspended"
    late = suspended("SuspendFlow").with_jobs(x="Pending").settled()
    assert late.plan().conditions["x"].reason == ""


@pytest.mark.parametrize("end", ["Failed", "Terminated"])
def test_a_step_that_fails_by_itself_while_suspended_is_failed(end: str) -> None:
    """An abort ends in Aborted, so any other end is the vcjob's own."""
    world = suspended("AbortJob").ended("f-a", end).settled()
    assert world.plan().failed == {"a": f"Job{end}"}
    assert world.plan().conditions["a"].message == f"the job f-a ended {end}"
    world = resumed(world).with_missing("f-a-r1").settled()
    assert "f-a-r1" not in world.jobs


def test_pods_of_a_job_that_fails_by_itself_while_suspended_are_read() -> None:
    world = replace(suspended("AbortJob").ended("f-a", "Failed"), failed_pods_read=False)
    assert [action for action in world.plan().plan.actions if isinstance(action, ReadPods)]
    aborted = replace(suspended("AbortJob").ended("f-a", "Aborted"), failed_pods_read=False)
    assert not aborted.plan().plan.actions


def test_abort_job_aborts_finally_which_runs_again_on_resume() -> None:
    world = flow("a").with_finally("z").with_jobs(a="Completed").settled().with_jobs(z="Running")
    world = world.settled().with_command("AbortJob").settled()
    assert world.plan().conditions["z"].reason == "Suspended"
    world = resumed(world.ended("f-z", "Aborted").settled())
    assert world.plan().conditions["z"].job == "f-z-r1"
    assert world.ended("f-z-r1", "Completed").settled().flow.status.state.phase == "Succeed"


def created_suspended() -> World:
    return flow("a", b="a").with_spec(suspend=True)


def test_a_flow_that_is_created_suspended_starts_nothing() -> None:
    planned = created_suspended().plan()
    assert (planned.creates, planned.phase, planned.reason) == ([], "Pending", "Suspended")
    assert planned.message == "the flow was created suspended"
    assert planned.held_up == {"a": "Suspended"}
    assert planned.status.suspended_by == "spec.suspend"
    assert created_suspended().settled().later(100).plan().nothing


def test_a_flow_that_was_created_suspended_stays_resumed() -> None:
    world = resumed(created_suspended().settled().later(10))
    assert world.plan().phases["a"] == "Pending"
    assert world.flow.status.suspended_seconds == 10
    assert world.run().flow.status.state.phase == "Succeed"


def test_a_resume_that_exists_before_the_first_plan_applies() -> None:
    planned = created_suspended().with_command("ResumeJob").plan()
    assert planned.creates == ["f-a"]
    assert planned.status.suspended_at is None


@pytest.mark.parametrize(
    ("actions", "by", "reason"),
    [
        (("SuspendFlow", "ResumeJob"), "", "WaitingForTemplate"),
        (("AbortJob", "ResumeJob"), "", "WaitingForTemplate"),
        (("ResumeJob", "SuspendFlow"), "SuspendFlow", "Suspended"),
        (("SuspendFlow", "AbortJob"), "AbortJob", "Suspended"),
        (("AbortJob", "SuspendFlow"), "AbortJob", "Suspended"),
        (("SuspendFlow", "TerminateJob"), "", "Cancelled"),
        (("TerminateJob", "SuspendFlow"), "", "Cancelled"),
        (("TerminateJob", "ResumeJob"), "", "Cancelled"),
    ],
)
def test_commands_are_handled_in_order(actions: tuple[str, ...], by: str, reason: str) -> None:
    world = running()
    for at, action in enumerate(actions):
        world = world.later(1).with_command(action, name=f"c{at}")
    planned = world.plan()
    assert (planned.status.suspended_by, planned.reason) == (by, reason)
    assert len(planned.status.handled_commands or ()) == len(actions)
    assert world.settled().commands == {}


def test_a_cancel_lifts_a_suspension_so_that_finally_runs() -> None:
    world = flow("a").with_finally("z").with_jobs(a="Running").settled()
    world = world.with_command("SuspendFlow", name="s").settled().later(10)
    world = world.with_command("TerminateJob", name="t").settled()
    assert world.flow.status.suspended_at is None
    assert world.flow.status.suspended_seconds == 10
    world = world.ended("f-a", "Aborted").settled()
    assert world.plan().phases["z"] == "Pending"


def test_a_resume_of_a_flow_that_is_not_suspended_is_refused() -> None:
    assert running().with_command("ResumeJob").plan().refused_commands == [
        "the flow is not suspended"
    ]
    assert running().with_command("ResumeJob").settled().commands == {}


def test_a_suspension_of_a_cancelled_flow_is_refused() -> None:
    world = running().cancelled().with_command("SuspendFlow", name="s")
    assert world.plan().refused_commands == [
        "the flow ends already, because the flow was cancelled"
    ]


@pytest.mark.parametrize("action", ["SuspendFlow", "AbortJob", "ResumeJob", "TerminateJob"])
def test_a_command_that_arrives_with_the_end_of_the_flow_is_refused(action: str) -> None:
    """Only the write of the end of the flow is left to do."""
    world = flow("a").with_jobs(a="Running").settled().ended("f-a", "Completed")
    world = world.with_command(action)
    assert world.plan().refused_commands == ["the flow has ended"]
    assert (world.plan().phase, world.plan().reason) == ("Succeed", "")
    assert world.settled().commands == {}


@pytest.mark.parametrize(
    ("action", "end", "phase"),
    [
        ("SuspendFlow", "Completed", "Succeed"),
        ("AbortJob", "Completed", "Succeed"),
        ("ResumeJob", "Completed", "Succeed"),
        ("TerminateJob", "Completed", "Succeed"),
        ("TerminateJob", "Failed", "Failed"),
    ],
)
def test_a_command_for_a_finished_flow_is_refused(action: str, end: str, phase: str) -> None:
    finished = flow("a").run(lambda step: end)
    world = finished.with_command(action)
    assert world.plan().refused_commands == [f"the flow has ended ({phase})"]
    assert world.plan().plan.urgent
    assert world.settled().commands == {}
    assert world.settled().flow.status == finished.flow.status


@pytest.mark.parametrize(
    "action", ["SuspendFlow", "AbortJob", "ResumeJob", "TerminateJob", "RestartJob"]
)
def test_a_command_for_a_flow_that_is_being_deleted_is_refused(action: str) -> None:
    world = running().being_deleted().with_command(action)
    assert world.plan().refused_commands == ["the flow is being deleted"]
    assert world.settled().commands == {}
    assert world.plan().phase == "Terminating"


@pytest.mark.parametrize("action", ["SuspendFlow", "AbortJob"])
def test_a_repeat_that_is_suspended_between_two_runs_continues_with_the_next(action: str) -> None:
    world = end_jobs(repeated("index == 2").settled(), "Completed", "f-a-0")
    world = end_jobs(world.with_command(action, name="s").settled(), "Completed", "f-a-1")
    assert (world.plan().creates, world.plan().failed) == ([], {})
    assert world.plan().phase == "Running"
    world = resumed(world.later(10))
    assert world.plan().conditions["a"].job == "f-a-2"
    assert end_jobs(world, "Completed", "f-a-2").plan().phases["a"] == "Completed"


@pytest.mark.parametrize("action", ["SuspendFlow", "AbortJob"])
def test_items_that_had_not_started_start_after_the_resume(action: str) -> None:
    world = for_each(2, parallelism=1).settled().with_command(action, name="s").settled()
    world = end_jobs(world, "Completed", "f-a-0")
    assert (world.plan().creates, world.plan().failed) == ([], {})
    world = resumed(world.later(10))
    assert jobs_in(world)["f-a-1"] == "Pending"
    assert end_jobs(world, "Completed", "f-a-1").plan().phases["a"] == "Completed"
