"""Child flows after a retry of their flow: which are retried, which are made anew."""

from dataclasses import replace

import msgspec
import pytest

from jobflow.api.flow.control import ForEach
from jobflow.api.flow.status import RequestedHours, StepCondition
from jobflow.api.flow.step import Step
from jobflow.core.planning.observed.child_flow import ChildFlow, observe
from support.plan.child_worlds import INNER, child_of, commands, failed, parent, running, with_child
from support.plan.plan_world import World, world_of
from support.plan.steps import after


def test_a_retry_of_the_flow_retries_its_failed_child_flow() -> None:
    world = failed().with_command("RestartJob").stored()
    assert world.flow.status.retries == 1
    assert commands(world) == [("f-a", "RestartJob")]
    world = world.apply()
    assert commands(world) == [], "it is sent again after some time only"
    assert commands(world.later(11)) == [("f-a", "RestartJob")]
    world = with_child(world, "f-a", "Running", retries=1).settled()
    condition = (world.flow.status.conditions or {})["f-a"]
    assert (condition.phase, condition.attempts, condition.past_attempts) == ("Running", 1, 0)
    world = with_child(world, "f-a", "Succeed", retries=1).settled()
    assert (world.flow.status.conditions or {})["f-a"].phase == "Completed"


def test_a_child_flow_that_fails_again_at_once_is_not_retried_twice() -> None:
    world = failed().with_command("RestartJob").stored().apply()
    world = with_child(world, "f-a", "Failed", "StepFailed", retries=1).settled()
    assert world.end == ("Failed", "StepFailed")


def test_a_retry_makes_a_new_child_flow_if_the_old_one_is_gone() -> None:
    world = failed().with_deleted("a").with_command("RestartJob").stored()
    world = replace(world, jobs={}, deleted=frozenset()).settled()
    assert isinstance(world.jobs["f-a-r1"], ChildFlow)


@pytest.mark.parametrize("end", ["Failed", "Succeed"])
def test_a_retry_makes_a_new_child_flow_behind_a_step_that_runs_again(end: str) -> None:
    behind = after("x", condition="Finished")
    steps = [Step(name="x"), Step(name="a", depends_on=behind, flow=INNER)]
    world = world_of(steps).settled().with_jobs(x="Failed").settled()
    world = with_child(world, "f-a", end).settled()
    world = world.with_command("RestartJob").settled()
    assert (world.flow.status.conditions or {})["f-a"].flow == ""
    world = world.with_job(world.job("x", "Completed", run=1)).settled()
    assert (commands(world), "f-a-r1" in world.jobs) == ([], True)


def with_tolerated_failures(world: World, name: str) -> World:
    """End a child flow of which a step has failed with continueOnFailure."""
    child = child_of(world.later(1), name, "Succeed")
    steps = [Step(name="x", continue_on_failure=True)]
    child = msgspec.structs.replace(child, spec=msgspec.structs.replace(child.spec, flows=steps))
    known = {f"{name}-x": StepCondition(phase="Failed", reason="JobFailed")}
    status = msgspec.structs.replace(child.status, conditions=known)
    return world.later(1).with_job(observe(msgspec.structs.replace(child, status=status))).settled()


def test_tolerated_failures_in_a_child_flow_run_again_with_all_behind_it() -> None:
    world = with_tolerated_failures(running(), "f-a").ended("f-b", "Completed").settled()
    assert world.end == ("Succeed", "")
    assert world.flow.status.tolerated_in_children
    world = world.with_command("RetryTolerated").stored()
    assert world.plan().phases == {"a": "Waiting", "b": "Waiting"}
    assert commands(world) == [("f-a", "RetryTolerated")]
    world = with_child(world.apply(), "f-a", "Succeed", retries=1).settled()
    assert "f-b-r1" in world.jobs
    assert not world.flow.status.tolerated_in_children


def test_a_flow_that_ended_under_an_earlier_version_knows_tolerated_failures_in_child_flows() -> (
    None
):
    world = with_tolerated_failures(running(), "f-a").ended("f-b", "Completed").settled()
    world = world.with_status_fields(tolerated_in_children=False)
    assert world.settled().flow.status.tolerated_in_children
    assert world.with_command("RetryTolerated").stored().plan().phases["a"] == "Waiting"


def test_a_plain_retry_keeps_a_child_flow_with_tolerated_failures() -> None:
    world = with_tolerated_failures(running(), "f-a").ended("f-b", "Failed").settled()
    world = world.with_command("RestartJob").stored()
    assert world.plan().phases == {"a": "Completed", "b": "Waiting"}


def test_items_that_failed_are_retried_and_others_stay() -> None:
    world = parent({"params": {"i": "$(item)"}, **INNER}, for_each=ForEach(items=["x", "y"]))
    world = world.settled()
    world = with_child(world, "f-a-0", "Succeed")
    world = with_child(world, "f-a-1", "Failed").settled()
    assert world.end == ("Failed", "StepFailed")
    world = world.with_command("RestartJob").stored()
    assert commands(world) == [("f-a-1", "RestartJob")]
    world = with_child(world.apply(), "f-a-1", "Running", retries=1).settled()
    runs = (world.flow.status.conditions or {})["f-a"].runs or []
    assert [(run.flow, run.phase) for run in runs] == [("f-a-0", "Completed"), ("f-a-1", "Running")]
    world = with_child(world, "f-a-1", "Succeed", retries=1).settled()
    assert (world.flow.status.conditions or {})["f-a"].phase == "Completed"


def test_the_hours_of_a_retried_child_flow_count_once() -> None:
    def hours(cpu: str) -> dict[str, StepCondition]:
        return {"f-a-x": StepCondition(requested_hours=RequestedHours(cpu=cpu))}

    world = failed(conditions=hours("1")).with_command("RestartJob").stored().apply()
    world = with_child(world, "f-a", "Running", retries=1).settled()
    world = with_child(world, "f-a", "Succeed", retries=1, conditions=hours("3")).settled()
    condition = (world.flow.status.conditions or {})["f-a"]
    assert condition.requested_hours == RequestedHours(cpu="3")


@pytest.mark.parametrize(
    ("is_tolerated", "action"), [(False, "RestartJob"), (True, "RetryTolerated")]
)
def test_a_total_over_child_flows_is_made_again_with_the_one_that_failed(
    is_tolerated: bool, action: str
) -> None:
    sample = Step(name="a", flow=INNER, for_each=ForEach(count=3), continue_on_failure=is_tolerated)
    total = Step(name="total", depends_on=after("a", condition="Finished"))
    world = world_of([sample, total]).with_spec(failure_policy="Continue").settled()
    for name, end in (("f-a-0", "Succeed"), ("f-a-1", "Failed"), ("f-a-2", "Succeed")):
        world = with_child(world, name, end)
    world = world.settled().ended("f-total", "Completed").settled()
    assert world.end[0] == ("Succeed" if is_tolerated else "Failed")
    world = world.with_command(action).stored()
    assert commands(world) == [("f-a-1", action)]
    world = with_child(world.apply(), "f-a-1", "Succeed", retries=1).settled()
    assert "f-total-r1" in world.jobs
    assert world.plan().conditions["total"].attempts == 2
