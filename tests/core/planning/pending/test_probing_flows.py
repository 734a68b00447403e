"""`dependsOn.probe` with several targets, skipped targets and stopped flows."""

from dataclasses import replace

import msgspec
import pytest

from jobflow.api.flow.step import Step
from support.plan.plan_world import World, after, flow, world_of
from support.plan.probing_worlds import PORT, plan_after_reads, probed

SUCCEEDED = {"taskStatusList": [{"taskName": "t", "phase": "Succeeded"}]}


def joined(strategy: str, *, probe: object = PORT) -> World:
    world = flow("a", "b", c=probed("a b", probe, strategy=strategy))
    return world.with_jobs(a="Running", b="Running").settled()


def test_all_targets_must_pass() -> None:
    world = joined("all")
    assert world.plan().probes == [("c", "f-a"), ("c", "f-b")]
    planned = world.with_probe("c", "a", passed=True).plan()
    assert (planned.creates, planned.plan.urgent) == ([], True)
    assert planned.conditions["c"].passed_targets == ["a"]
    assert planned.waiting_for_probe == {"c": "waits for b: task t has not answered at port 80 yet"}
    world = world.with_probe("c", "a", passed=True).stored()
    assert world.plan().probes == [("c", "f-b")]
    assert world.with_probe("c", "b", passed=True).plan().creates == ["f-c"]


def test_passed_targets_are_in_the_order_of_the_step() -> None:
    world = flow("a", "b", "d", c=probed("b d a", PORT)).with_jobs(a="Running", b="Running")
    world = world.settled().with_probe("c", "a", passed=True).stored()
    world = world.with_probe("c", "b", passed=True).stored()
    assert world.plan().conditions["c"].passed_targets == ["b", "a"]


def test_one_target_is_enough_for_any() -> None:
    planned = joined("any").with_probe("c", "b", passed=True).plan()
    assert planned.creates == ["f-c"]
    assert planned.probes == [("c", "f-b")], "what did not pass is not asked any more"


def test_the_message_has_the_state_of_each_target() -> None:
    world = flow("a", "b", "d", c=probed("a b d", PORT)).with_jobs(a="Running", b="Running")
    world = world.without_template("d").with_probe("c", "a", "10.0.0.1:80 refused").settled()
    message = "a (10.0.0.1:80 refused), b (task t has not answered at port 80 yet) and d (Waiting)"
    assert world.plan().waiting_for_probe == {"c": f"waits for {message}"}


def test_all_fails_as_soon_as_one_target_can_never_pass() -> None:
    planned = joined("all").with_jobs(a="Completed").plan()
    assert planned.failed == {"c": "ProbeUnsatisfiable"}
    assert planned.conditions["c"].message.startswith(
        "the probe cannot pass any more on a: the job f-a ended Completed before"
    )


def test_any_fails_only_when_no_target_can_pass() -> None:
    world = joined("any", probe=SUCCEEDED).with_jobs(a="Completed")
    planned = plan_after_reads(world)
    assert (planned.failed, planned.phases["c"]) == ({}, "Waiting")
    assert planned.waiting_for_probe == {"c": "waits for b: 0 of 1 pod of task t Succeeded"}
    planned = plan_after_reads(world.settled().with_jobs(b="Completed"))
    assert planned.failed == {"c": "ProbeUnsatisfiable"}
    assert planned.conditions["c"].message == (
        "the probe cannot pass any more on "
        "a (the job f-a ended Completed with 0 of 1 pod of task t Succeeded) and "
        "b (the job f-b ended Completed with 0 of 1 pod of task t Succeeded)"
    )


@pytest.mark.parametrize("strategy", ["all", "any"])
def test_a_probe_replaces_the_condition(strategy: str) -> None:
    depends_on = probed("a", PORT, strategy=strategy, condition="Failed")
    world = flow("a", c=depends_on).with_jobs(a="Running").settled()
    assert world.with_probe("c", "a", passed=True).plan().creates == ["f-c"]
    assert world.plan().waiting_for_probe["c"].startswith("waits for a: ")


def test_a_target_that_was_not_taken_is_ignored() -> None:
    world = flow("x", a=after("x", condition="Failed"), b="x", c=probed("a b", PORT))
    world = world.with_jobs(x="Completed", b="Running").settled()
    assert world.plan().skipped == {"a": "NotTaken"}
    assert world.with_probe("c", "b", passed=True).plan().creates == ["f-c"]
    alone = flow("x", a=after("x", condition="Failed"), c=probed("a", PORT))
    assert alone.with_jobs(x="Completed").plan().skipped == {"a": "NotTaken", "c": "NotTaken"}


def test_a_target_behind_a_failure_skips_the_step() -> None:
    world = flow("x", a="x", c=probed("a", PORT)).with_jobs(x="Failed")
    assert plan_after_reads(world).skipped == {"a": "UpstreamFailed", "c": "UpstreamFailed"}


def test_a_target_that_was_stopped_stops_the_step() -> None:
    world = flow("x", "a", c=probed("a", PORT)).without_template("a").with_jobs(x="Failed")
    assert plan_after_reads(world).skipped == {"a": "Stopped", "c": "Stopped"}


def test_a_step_that_has_passed_does_not_start_in_a_flow_that_has_stopped() -> None:
    world = flow("x", "a", c=probed("a", PORT)).with_jobs(x="Failed", a="Running")
    planned = plan_after_reads(world)
    assert planned.conditions["c"].message == "will not start, because x has failed"
    assert plan_after_reads(world.with_probe("c", "a", passed=True)).skipped == {"c": "Stopped"}


def test_a_step_with_a_probe_is_no_handler() -> None:
    """Its condition, which would make it one, is ignored."""
    depends_on = probed("a", PORT, condition="Finished")
    world = flow("x", "a", c=depends_on, d="c").with_jobs(x="Failed", a="Running")
    planned = plan_after_reads(world.with_probe("c", "a", passed=True))
    assert planned.skipped == {"c": "Stopped", "d": "Stopped"}


def test_a_probe_of_a_handler_starts_a_step_after_a_failure() -> None:
    world = flow("x", alarm=after("x", condition="Failed"), c=probed("alarm", PORT))
    world = world.with_jobs(x="Failed", alarm="Running").settled()
    assert world.plan().waiting_for_probe == {
        "c": "waits for alarm: task t has not answered at port 80 yet"
    }
    assert world.with_probe("c", "alarm", passed=True).plan().creates == ["f-c"]


def test_a_probe_that_cannot_pass_stops_other_steps_in_the_same_plan() -> None:
    """The order of the steps in the flow makes no difference."""
    for names in ("abcd", "dcba"):
        steps = {
            "a": Step(name="a"),
            "b": Step(name="b"),
            "c": Step(name="c", depends_on=probed("a", PORT)),
            "d": Step(name="d", depends_on=after("b")),
        }
        world = world_of([steps[name] for name in names])
        planned = world.with_jobs(a="Completed", b="Completed").plan()
        assert planned.creates == []
        assert planned.failed == {"c": "ProbeUnsatisfiable"}
        assert planned.skipped == {"d": "Stopped"}


def test_a_probe_that_cannot_pass_is_a_failure_that_can_be_handled() -> None:
    world = flow("a", c=probed("a", PORT), alarm=after("c", condition="Failed"), d="c")
    planned = world.with_jobs(a="Completed").plan()
    assert (planned.creates, planned.skipped) == (["f-alarm"], {"d": "UpstreamFailed"})
    end = world.run()
    assert (end.flow.status.state.phase, end.flow.status.progress) == ("Failed", "4/4")
    assert end.flow.status.state.message.startswith("step c failed: the probe cannot pass")


def test_a_cancelled_flow_sends_no_probes() -> None:
    for world in (joined("all"), joined("all", probe=SUCCEEDED).with_jobs(a="Completed")):
        planned = world.with_probe("c", "b", passed=True).with_command().plan()
        assert planned.skipped == {"c": "Stopped"}
        assert (planned.probes, planned.reads) == ([], [])


def test_a_flow_that_is_being_deleted_sends_no_probes() -> None:
    for world in (joined("all"), joined("all", probe=SUCCEEDED).with_jobs(a="Completed")):
        planned = world.being_deleted().plan()
        assert (planned.probes, planned.reads, planned.failed) == ([], [], {})
    world = joined("any").with_probe("c", "a", passed=True).being_deleted()
    assert world.plan().held_up == {"c": "Terminating"}


def test_a_target_that_once_ran_is_known_after_its_histories_are_dropped() -> None:
    """A large status drops histories, but a waiting step has the target in its condition."""
    world = flow("a", "b", c=after("a b", condition="Running")).without_template("b")
    world = world.with_jobs(a="Running").settled()
    assert world.plan().conditions["c"].passed_targets == ["a"]
    status = msgspec.structs.replace(world.flow.status, job_status_list=None)
    world = replace(world.with_status(status), missing=frozenset({"f-a"})).without_jobs("a")
    world = world.settled().with_template("b").with_jobs(b="Running")
    assert world.plan().creates == ["f-c"]


def test_a_target_that_runs_does_not_make_the_write_urgent() -> None:
    world = flow("a", "b", c=after("a b", condition="Running")).with_jobs(a="Pending").settled()
    planned = world.with_jobs(a="Running", b="Pending").stored().with_jobs(b="Pending").plan()
    assert (planned.waiting, planned.plan.urgent) == ({"c": "waits for b (Pending) to run"}, False)
