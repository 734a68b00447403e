"""`spec.finally` and `daemon`: steps that start or end after all other steps."""

import pytest

from jobflow.api.flow.step import DependsOn, Probe, TaskStatusProbe
from support.plan.plan_world import World, flow
from support.plan.steps import after, step

FLOW_FAILED = 'flow.phase == "Failed"'


def with_finally_step(**fields: object) -> World:
    """a -> b, and z in `finally`; a runs."""
    world = flow("a", b="a").with_finally(z=step(**fields))
    return world.with_jobs(a="Running").settled()


def a_ends(world: World, phase: str) -> World:
    return world.ended("f-a", phase)


def test_finally_waits_until_all_other_steps_have_ended() -> None:
    world = with_finally_step()
    assert world.plan().waiting["z"] == "waits until all other steps have ended"
    assert world.flow.status.progress == "0/3"
    world = a_ends(world, "Completed").settled()
    assert world.plan().phases["z"] == "Waiting"
    world = world.ended("f-b", "Completed")
    assert world.plan().creates == []


@pytest.mark.parametrize(("end", "phase"), [("Completed", "Succeed"), ("Failed", "Failed")])
def test_finally_starts_once_the_end_of_the_other_steps_is_stored(end: str, phase: str) -> None:
    world = flow("a").with_finally("z").with_jobs(a="Running").settled().ended("f-a", end)
    planned = world.plan()
    assert (planned.creates, planned.phase, planned.plan.urgent) == ([], "Running", True)
    assert planned.phases == {"a": end, "z": "Waiting"}
    world = world.stored()
    assert (world.plan().creates, world.flow.status.progress) == (["f-z"], "1/2")
    world = world.settled().ended("f-z", "Completed").settled()
    assert (world.flow.status.state.phase, world.flow.status.progress) == (phase, "2/2")


def test_finally_waits_for_a_resumed_job_of_another_step() -> None:
    world = flow("a").with_finally("z").with_jobs(a="Aborted").stored().ended("f-a", "Running")
    assert (world.plan().creates, world.plan().phases["z"]) == ([], "Waiting")
    assert world.ended("f-a", "Aborted").plan().creates == ["f-z"]


@pytest.mark.parametrize("policy", [None, "Abort", "Continue"])
def test_finally_runs_after_a_failure_under_every_policy(policy: str | None) -> None:
    world = a_ends(with_finally_step().with_spec(failure_policy=policy), "Failed").stored()
    assert (world.plan().creates, world.plan().skipped) == (["f-z"], {"b": "UpstreamFailed"})
    world = world.settled().ended("f-z", "Running").settled()
    assert (world.plan().aborts, world.plan().reason) == ([], "StepFailed")


def test_finally_runs_after_a_cancel() -> None:
    world = with_finally_step().cancelled()
    assert (world.plan().phases["z"], world.plan().phase) == ("Waiting", "Running")
    world = a_ends(world, "Aborted").settled()
    assert (world.plan().phases["z"], world.plan().reason) == ("Pending", "Cancelled")
    world = world.ended("f-z", "Completed").settled()
    assert world.end == ("Failed", "Cancelled")


def test_finally_runs_if_a_flow_is_cancelled_before_it_ran_any_step() -> None:
    world = flow("a").with_finally("z").without_template("a").settled().with_command().settled()
    assert world.plan().skipped == {"a": "Stopped"}
    assert world.plan().phases["z"] == "Pending"


def test_a_cancel_does_not_abort_finally() -> None:
    world = a_ends(flow("a").with_finally("z").with_jobs(a="Running").settled(), "Completed")
    world = world.settled().cancelled()
    assert (world.plan().aborts, world.plan().reason) == ([], "Cancelled")
    world = world.ended("f-z", "Completed").settled()
    assert world.flow.status.state.phase == "Failed"


def test_finally_waits_while_the_flow_is_suspended() -> None:
    world = flow("a").with_finally("z").with_jobs(a="Running").settled()
    world = a_ends(world.with_command("SuspendFlow").settled(), "Completed").settled()
    assert world.plan().held_up == {"z": "Suspended"}
    assert (world.plan().phase, world.plan().reason) == ("Running", "Suspended")
    assert world.with_command("ResumeJob").settled().plan().phases["z"] == "Pending"


def test_finally_does_not_start_in_a_flow_that_is_being_deleted() -> None:
    world = a_ends(flow("a").with_finally("z").with_jobs(a="Running").settled(), "Completed")
    assert world.stored().being_deleted().plan().held_up == {"z": "Terminating"}


def test_a_failed_finally_step_fails_the_flow_and_stops_no_other_step() -> None:
    world = flow("a").with_finally("x", "y", "z").with_jobs(a="Completed").without_template("z")
    world = world.with_spec(failure_policy="Abort").settled()
    world = world.ended("f-x", "Failed").with_template("z").settled()
    assert world.plan().phases == {"a": "Completed", "x": "Failed", "y": "Pending", "z": "Pending"}
    world = world.ended("f-y", "Completed").ended("f-z", "Completed").settled()
    assert world.end == ("Failed", "StepFailed")


def with_chain(**fields: object) -> World:
    """a; then y and x in parallel, and z after y, in `finally`."""
    return flow("a").with_finally("y", "x", z=step("y", **fields)).with_jobs(a="Running").settled()


def test_steps_of_finally_can_depend_on_each_other() -> None:
    world = with_chain()
    assert world.plan().waiting["z"] == "waits until all other steps have ended"
    world = a_ends(world, "Completed").settled()
    assert world.plan().waiting == {"z": "waits for y (Pending)"}
    assert world.flow.status.next_jobs == ["f-z"]
    world = world.ended("f-y", "Completed").settled()
    assert world.plan().phases == {
        "a": "Completed",
        "y": "Completed",
        "x": "Pending",
        "z": "Pending",
    }


@pytest.mark.parametrize("policy", [None, "Abort", "Continue"])
def test_a_failure_in_finally_skips_only_what_depends_on_it(policy: str | None) -> None:
    world = a_ends(with_chain().with_spec(failure_policy=policy), "Failed").settled()
    world = world.ended("f-y", "Failed").settled()
    assert world.plan().skipped == {"z": "UpstreamFailed"}
    assert (world.plan().phases["x"], world.plan().aborts) == ("Pending", [])


def test_a_chain_in_finally_runs_after_a_cancel_but_not_after_a_cancel_of_finally() -> None:
    world = a_ends(with_chain().cancelled(), "Aborted").settled()
    after_y = world.ended("f-y", "Completed").settled()
    assert after_y.plan().phases["z"] == "Pending"
    planned = world.with_command("TerminateNow").plan()
    assert planned.skipped == {"z": "Stopped"}


def test_a_step_of_finally_waits_for_its_target_although_the_flow_has_stopped() -> None:
    world = a_ends(with_chain(condition="Running"), "Failed").settled()
    assert world.plan().waiting == {"z": "waits for y (Pending) to run"}
    assert world.ended("f-y", "Running").settled().plan().phases["z"] == "Pending"


@pytest.mark.parametrize(("end", "skipped"), [("Completed", {"z": "NotTaken"}), ("Failed", {})])
def test_flow_phase_in_finally_is_the_result_of_the_other_steps(
    end: str, skipped: dict[str, str]
) -> None:
    world = flow("a").with_finally(z=step(when=FLOW_FAILED)).with_jobs(a="Running").settled()
    world = world.ended("f-a", end).settled()
    assert world.plan().skipped == skipped
    assert world.plan().phases["z"] == ("Skipped" if skipped else "Pending")


def test_flow_phase_in_finally_is_failed_for_a_cancelled_flow() -> None:
    world = flow("a").with_finally(z=step(when=FLOW_FAILED)).with_jobs(a="Running").cancelled()
    assert world.ended("f-a", "Completed").settled().plan().phases["z"] == "Pending"


def test_next_jobs_include_finally() -> None:
    world = flow("a", b=after("a", condition="Failed")).with_finally("z").with_jobs(a="Running")
    assert world.settled().flow.status.next_jobs == ["f-z"]
    assert with_finally_step().flow.status.next_jobs == ["f-b"]
    assert with_finally_step().cancelled().flow.status.next_jobs == ["f-z"]


def with_daemon(**fields: object) -> World:
    """b needs the daemon a, and c depends on b."""
    return flow(a=step(daemon=True, **fields), b="a", c="b")


def running() -> World:
    return with_daemon().with_jobs(a="Running", b="Running").settled()


def others_completed() -> World:
    world = running().ended("f-b", "Completed").settled()
    return world.ended("f-c", "Completed")


@pytest.mark.parametrize("phase", ["Pending", "Running"])
def test_dependants_start_once_the_daemon_runs(phase: str) -> None:
    planned = with_daemon().with_jobs(a=phase).settled().plan()
    assert planned.phases["b"] == ("Pending" if phase == "Running" else "Waiting")


def test_the_message_of_a_waiting_dependant_names_the_daemon() -> None:
    world = flow("x", a=step(daemon=True), b="a", c="a x").with_jobs(a="Pending", x="Running")
    assert world.plan().waiting == {
        "b": "waits for a (Pending) to run",
        "c": "waits for a (Pending) to run and x (Running) to complete",
    }
    assert world.with_jobs(a="Running").plan().waiting == {"c": "waits for x (Running)"}


def test_a_lost_daemon_still_counts_as_having_run() -> None:
    world = flow("x", a=step(daemon=True), b="a x").with_jobs(a="Running", x="Running").settled()
    world = world.without_jobs("a").with_missing("f-a").settled()
    assert world.plan().held_up == {"a": "JobLost"}
    assert world.ended("f-x", "Completed").plan().creates == ["f-b"]


def test_a_probe_of_a_daemon_replaces_the_wait_for_running() -> None:
    probe = Probe(task_status_list=[TaskStatusProbe(task_name="t", phase="Succeeded")])
    world = flow(a=step(daemon=True), b=DependsOn(targets=["a"], probe=probe))
    world = world.with_jobs(a="Running").settled()
    assert world.plan().phases["b"] == "Waiting"
    assert world.with_pods("a", t="Succeeded").plan().creates == ["f-b"]


def test_a_daemon_is_aborted_once_all_other_steps_have_ended() -> None:
    world = others_completed()
    planned = world.plan()
    assert (planned.phase, planned.aborts, planned.plan.urgent) == ("Running", [], True)
    assert planned.conditions["a"].reason == "DaemonEnded"
    assert planned.conditions["a"].message == "is being aborted: no other step needs it any more"
    world = world.stored()
    assert world.plan().aborts == ["f-a"]
    world = world.settled().ended("f-a", "Aborted").settled()
    condition = world.plan().conditions["a"]
    assert (condition.phase, condition.reason) == ("Completed", "DaemonEnded")
    assert world.end == ("Succeed", "")


@pytest.mark.parametrize("end", ["Failed", "Terminated", "Aborted", "Completed"])
def test_a_daemon_completes_however_its_job_ends(end: str) -> None:
    world = others_completed().settled().ended("f-a", end)
    assert world.plan().phases["a"] == "Completed"
    assert world.plan().phase == "Succeed"


@pytest.mark.parametrize("resumed", [False, True])
def test_a_daemon_that_a_suspension_aborted_completes_with_the_other_steps(resumed: bool) -> None:
    world = running().ended("f-b", "Completed").settled().with_command("AbortJob").settled()
    assert world.plan().conditions["a"].reason == "Suspended"
    world = world.ended("f-c", "Completed")
    world = (world.settled().with_command("ResumeJob") if resumed else world).settled()
    world = world.ended("f-a", "Aborted")
    condition = world.plan().conditions["a"]
    assert (condition.phase, condition.reason) == ("Completed", "DaemonEnded")
    assert condition.message == "no other step needs it any more; the job f-a has ended"
    assert world.plan().phase == "Succeed"


def test_a_daemon_whose_job_is_deleted_at_the_end_completes() -> None:
    world = others_completed().settled().without_jobs("a").with_missing("f-a")
    assert (world.plan().phases["a"], world.plan().phase) == ("Completed", "Succeed")


def test_a_daemon_between_two_attempts_completes_with_the_other_steps() -> None:
    world = running().without_jobs("a").with_missing("f-a").settled()
    assert world.plan().held_up["a"] == "JobLost"
    world = world.ended("f-b", "Completed").settled().ended("f-c", "Completed")
    assert (world.plan().phases["a"], world.plan().phase) == ("Completed", "Succeed")


@pytest.mark.parametrize(("end", "phase"), [("Failed", "Failed"), ("Completed", "Completed")])
def test_a_daemon_that_ends_earlier_has_the_phase_of_its_job(end: str, phase: str) -> None:
    world = running().ended("f-a", end)
    assert world.plan().phases["a"] == phase
    finished = world.run()
    assert finished.plan().skipped == ({} if end == "Completed" else {"c": "Stopped"})
    assert finished.flow.status.state.phase == ("Succeed" if end == "Completed" else "Failed")


def test_all_daemons_are_aborted_together_before_finally() -> None:
    world = flow(a=step(daemon=True), d=step("a", daemon=True), b="d").with_finally("z")
    world = world.with_jobs(a="Running", d="Running", b="Running").settled()
    world = world.ended("f-b", "Completed").stored()
    assert world.plan().aborts == ["f-a", "f-d"]
    world = world.settled()
    assert world.plan().phases["z"] == "Waiting"
    world = world.ended("f-a", "Aborted").ended("f-d", "Aborted").settled()
    assert world.plan().phases["z"] == "Pending"


def test_a_failure_or_a_cancel_aborts_a_daemon() -> None:
    world = running().with_spec(failure_policy="Abort").ended("f-b", "Failed").settled()
    assert world.plan().conditions["a"].reason == "FailurePolicy"
    assert running().cancelled().plan().conditions["a"].reason == "Cancelled"


def test_a_handler_of_a_daemon_starts_when_the_daemon_fails_by_itself() -> None:
    world = flow(a=step(daemon=True), b=after("a", condition="Failed"), c="a")
    world = world.with_jobs(a="Running", c="Running").settled()
    assert world.plan().phases["b"] == "Waiting"
    assert world.ended("f-a", "Failed").plan().creates == ["f-b"]


def test_a_daemon_that_becomes_ready_last_starts_and_is_aborted() -> None:
    world = flow("b", a=step("b", daemon=True)).with_jobs(b="Running").settled()
    world = world.ended("f-b", "Completed").settled()
    assert world.plan().conditions["a"].reason == "DaemonEnded"
    assert world.ended("f-a", "Aborted").plan().phase == "Succeed"
