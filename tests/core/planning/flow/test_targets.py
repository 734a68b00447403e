"""`spec.targets`: a part of a flow."""

from support.plan.loop_worlds import end_jobs
from support.plan.plan_world import World, flow
from support.plan.steps import step


def part(**fields: object) -> World:
    """a -> b -> c and a -> d, of which only b is asked for; z in `finally`."""
    world = flow("a", b="a", c="b", d="a").with_finally(z=step(**fields))
    return world.with_spec(targets=["b"])


LEFT_OUT = {"c": "NotTargeted", "d": "NotTargeted"}


def test_only_targets_and_what_they_depend_on_run() -> None:
    world = part().settled()
    assert (world.plan().skipped, world.flow.status.progress) == (LEFT_OUT, "2/5")
    world = end_jobs(end_jobs(world, "Completed", "f-a"), "Completed", "f-b")
    assert sorted(world.jobs) == ["f-a", "f-b", "f-z"]
    assert end_jobs(world, "Completed", "f-z").end == ("Succeed", "")


def test_other_steps_are_skipped_in_a_suspended_flow_too() -> None:
    assert part().with_spec(suspend=True).settled().plan().skipped == LEFT_OUT


def test_an_expression_of_finally_sees_that_a_step_was_left_out() -> None:
    world = part(when='steps["d"].reason == "NotTargeted"').settled()
    world = end_jobs(end_jobs(world, "Completed", "f-a"), "Completed", "f-b")
    assert world.plan().phases["z"] == "Pending"


def test_a_retry_of_the_flow_leaves_them_out_again() -> None:
    world = end_jobs(part().settled(), "Failed", "f-a")
    world = end_jobs(world, "Completed", "f-z").with_command("RestartJob").stored()
    assert world.plan().skipped == LEFT_OUT
    assert {event.reason for event in world.plan().plan.events} & {"StepSkipped"} == set()


def test_no_step_is_left_out_without_names() -> None:
    assert flow("a", "b").with_spec(targets=[]).plan().creates == ["f-a", "f-b"]
