"""Commands on a flow: recording, refusal, and `TerminateNow`."""

from dataclasses import replace

import msgspec
import pytest

from jobflow.api.flow.control import ForEach
from jobflow.core.planning.flow.commands import AT_ONCE
from support.plan.plan_world import World, flow
from support.plan.steps import step


def running() -> World:
    return flow("a", b="a").with_jobs(a="Running").settled()


def finished(end: str = "Completed") -> World:
    return flow("a").run(lambda step: end)


def test_a_command_is_recorded_then_deleted_then_dropped_from_the_status() -> None:
    world = running().with_command()
    planned = world.plan()
    assert (planned.status.handled_commands, planned.command_deletes) == (["uid-c"], [])
    assert planned.plan.urgent
    world = world.stored()
    assert world.plan().command_deletes == ["c"]
    assert world.plan().status.handled_commands == ["uid-c"]
    world = world.apply()
    assert world.plan().status.handled_commands is None
    world = world.settled()
    assert world.plan().nothing
    assert world.flow.status.handled_commands is None


def test_a_command_that_is_being_deleted_is_not_deleted_again() -> None:
    world = running().with_command().stored()
    assert world.commands is not None
    command = world.commands["c"]
    metadata = msgspec.structs.replace(command.metadata, deletion_timestamp=world.now)
    held = msgspec.structs.replace(command, metadata=metadata)
    world = replace(world, commands={"c": held})
    assert world.plan().command_deletes == []
    assert world.plan().status.handled_commands == ["uid-c"]


def test_handled_commands_are_kept_while_commands_are_unknown() -> None:
    world = running().with_command().stored()
    unknown = replace(world, commands=None)
    assert unknown.plan().status.handled_commands == ["uid-c"]
    assert unknown.plan().command_deletes == []
    final = finished().with_command().stored()
    assert replace(final, commands=None).plan().nothing


def test_commands_are_handled_by_age_and_name() -> None:
    world = running().with_command(text="third", name="z").later(-5)
    world = world.with_command(text="second", name="y").with_command(text="first", name="x")
    planned = world.later(5).plan()
    assert planned.status.handled_commands == ["uid-x", "uid-y", "uid-z"]
    assert planned.message == "the flow was cancelled: first"


def test_a_flow_that_is_reused_refuses_commands() -> None:
    world = replace(finished("Failed"), reused_by=("g",)).with_command("RestartJob")
    planned = world.plan()
    assert (planned.phase, planned.status.handled_commands) == ("Failed", ["uid-c"])
    (event,) = planned.plan.events
    assert event.message == (
        "Command c (RestartJob) was refused: flow f is reused by flow g: wait until it has ended "
        "or, to change it anyway, `kubectl annotate jf f flow.volcano.sh/force-delete=true -n ns` "
        "and try again"
    )
    assert replace(world, reused_by=()).plan().phase == "Running"


def test_a_plan_handles_a_limited_number_of_commands() -> None:
    world = running()
    for number in range(3 * AT_ONCE):
        world = world.with_command("Nonsense", name=f"c{number:03}")
    world = world.later(1).with_command(name="last")
    assert len(world.plan().status.handled_commands or ()) == AT_ONCE
    for _ in range(20):
        world = world.apply()
    assert (world.commands, world.plan().reason) == ({}, "Cancelled")


def test_a_second_cancel_changes_nothing() -> None:
    world = running().with_command(name="one", text="1").with_command(name="two", text="2")
    assert world.plan().events.count("FlowCancelled") == 1
    world = world.settled().with_command(name="three", text="3")
    assert (world.plan().events, world.plan().message) == ([], "the flow was cancelled: 1")
    assert world.settled().commands == {}


@pytest.mark.parametrize("action", ["CloseQueue", "terminatejob", ""])
def test_an_unknown_action_is_refused(action: str) -> None:
    world = running().with_command(action)
    known = (
        "AbortJob, ApproveStep, CancelStep, RejectStep, RestartJob, ResumeJob, RetrySteps, "
        "RetryTolerated, ScaleFlow, SkipStep, SuspendFlow, TerminateJob and TerminateNow"
    )
    assert world.plan().refused_commands == [
        f"JobFlow executes {known} on flows and no other action"
    ]
    assert world.plan().plan.urgent
    assert world.plan().phases == {"a": "Running", "b": "Waiting"}
    settled = world.settled()
    assert (settled.commands, settled.flow.status.state.reason) == ({}, "")


@pytest.mark.parametrize(
    ("uid", "target"),
    [("uid-old", "another flow of this name (uid uid-old)"), ("", "no flow in particular")],
)
def test_a_command_for_an_earlier_flow_of_this_name_is_refused(uid: str, target: str) -> None:
    world = running().with_command(uid=uid)
    assert world.plan().refused_commands == [f"it is about {target}; this one has the uid uid-f"]
    assert world.plan().reason == ""
    assert world.settled().commands == {}


def test_a_cancelled_flow_stays_cancelled_while_it_is_deleted() -> None:
    world = running().cancelled().being_deleted()
    assert (world.plan().phase, world.plan().reason) == ("Terminating", "Cancelled")
    assert world.settled().ended("f-a", "Aborted").plan().failed == {"a": "Cancelled"}


def cancelled_now(world: World) -> World:
    """Send TerminateNow, and apply plans until nothing is left to do."""
    return world.with_command("TerminateNow", name="now").settled()


def cancelled_with_finally(**fields: object) -> World:
    """a has failed because of a cancel, and z of `finally` runs."""
    world = flow("a").with_finally(z=step(**fields)).with_jobs(a="Running").settled().cancelled()
    return world.ended("f-a", "Aborted").settled()


def test_finally_runs_when_a_flow_is_cancelled_and_is_aborted_by_a_cancel_now() -> None:
    world = cancelled_with_finally()
    assert "f-z" in world.jobs
    world = world.ended("f-z", "Running").settled()
    world = cancelled_now(world)
    assert world.plan().conditions["z"].reason == "Cancelled"
    assert "uid-f-z" in world.aborts
    world = world.ended("f-z", "Aborted").settled()
    assert world.plan().failed == {"a": "Cancelled", "z": "Cancelled"}
    assert world.end == ("Failed", "Cancelled")
    assert world.flow.status.state.message == "the flow was cancelled"


def test_a_cancel_now_skips_finally_steps_that_have_not_started() -> None:
    world = flow("a", b="a").with_finally("z").with_jobs(a="Running").settled()
    world = cancelled_now(world)
    assert world.plan().skipped == {"b": "Stopped", "z": "Stopped"}
    assert world.aborts.keys() == {"uid-f-a"}
    world = world.ended("f-a", "Aborted").settled()
    assert world.end == ("Failed", "Cancelled")
    assert "f-z" not in world.jobs


def test_a_cancel_of_finally_is_stored_in_the_status() -> None:
    """Items of `finally` that have not started do not start after a restart either."""
    world = cancelled_with_finally(for_each=ForEach(count=3, parallelism=1))
    world = cancelled_now(world)
    assert world.flow.status.finally_cancelled
    world = World(world.flow, world.templates, world.jobs, now=world.now)
    world = world.ended("f-z-0", "Completed").settled()
    assert sorted(world.jobs) == ["f-a", "f-z-0"]
    assert world.plan().failed["z"] == "Cancelled"


def test_a_flow_that_timed_out_keeps_its_reason() -> None:
    world = flow("a").with_finally("z").with_spec(timeout="59s").with_jobs(a="Running").settled()
    world = world.later(60).settled().ended("f-a", "Aborted").settled()
    assert "f-z" in world.jobs
    world = cancelled_now(world).ended("f-z", "Aborted").settled()
    assert world.flow.status.state.reason == "Timeout"
    assert world.plan().failed == {"a": "Timeout", "z": "Cancelled"}
    assert world.plan().conditions["z"].message.startswith("the flow was cancelled; ")


def test_a_flow_that_timed_out_says_which_template_its_finally_waits_for() -> None:
    world = flow("a").with_finally("z").with_spec(timeout="59s").without_template("z")
    world = world.with_jobs(a="Completed").settled().later(60).settled().settled()
    timed_out = "the flow took longer than its timeout of 59s"
    assert (
        world.flow.status.state.message == f"{timed_out}; in finally: waits for the JobTemplate z"
    )
    assert world.with_template("z").settled().flow.status.state.message == timed_out


def test_a_cancel_now_aborts_finally_of_a_flow_that_was_not_cancelled() -> None:
    world = flow("a").with_finally("z").with_jobs(a="Completed").settled()
    world = cancelled_now(world).ended("f-z", "Aborted").settled()
    assert world.plan().failed == {"z": "Cancelled"}
    assert world.flow.status.state.reason == "Cancelled"


def test_a_second_ordinary_cancel_does_not_abort_finally() -> None:
    world = cancelled_with_finally().with_command(name="again").settled()
    assert (world.aborts.keys(), world.flow.status.finally_cancelled) == ({"uid-f-a"}, False)


def test_a_retry_of_the_flow_runs_finally_again() -> None:
    world = cancelled_now(cancelled_with_finally()).ended("f-z", "Aborted").settled()
    world = world.with_command("RestartJob", name="retry").settled()
    assert not world.flow.status.finally_cancelled
    world = world.run()
    assert world.flow.status.state.phase == "Succeed"
    assert world.plan().phases == {"a": "Completed", "z": "Completed"}


@pytest.mark.parametrize("end", ["Completed", "Failed"])
def test_a_cancel_now_is_refused_after_the_end_of_finally(end: str) -> None:
    world = (
        flow("a").with_finally("z").with_jobs(a="Completed").settled().ended("f-z", end).settled()
    )
    before = msgspec.structs.replace(world.flow.status, handled_commands=None)
    planned = world.with_command("TerminateNow").plan()
    assert "CommandRefused" in planned.events
    assert msgspec.structs.replace(planned.status, handled_commands=None) == before
