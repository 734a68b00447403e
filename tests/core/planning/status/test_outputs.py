"""Outputs of a flow: worked out at its end, from all its steps."""

from jobflow.api.flow.step import Step
from support.plan.loop_worlds import finish
from support.plan.plan_world import World, flow, world_of

OUTPUTS = {"n": 'steps["a"].outputs.n', "how": "flow.phase", "last": 'steps["z"].phase'}


def ended(world: World, message: str, phase: str = "Completed") -> World:
    return finish(world.settled(), "f-a", message, phase=phase).settled()


def with_outputs(**outputs: str) -> World:
    return world_of([Step(name="a")]).with_spec(outputs=outputs)


def test_the_outputs_of_a_flow_are_worked_out_after_finally() -> None:
    world = flow("a").with_finally("z").with_spec(outputs=OUTPUTS)
    world = ended(world, '{"n": 3}')
    assert world.flow.status.outputs is None
    world = world.ended("f-z", "Completed").settled()
    assert world.flow.status.outputs == {"n": 3, "how": "Succeed", "last": "Completed"}
    assert world.end == ("Succeed", "")


def test_an_output_without_a_value_fails_the_flow() -> None:
    world = ended(with_outputs(n='steps["a"].outputs.n', one="1"), "{}")
    assert world.end == ("Failed", "ExpressionError")
    message = world.flow.status.state.message
    assert message == "outputs.n `steps[\"a\"].outputs.n`: there is no 'n'"
    assert world.flow.status.outputs == {"one": 1}


def test_an_output_without_a_value_is_left_out_of_a_failed_flow() -> None:
    world = ended(with_outputs(n='steps["a"].outputs.n', how="flow.phase"), "{}", "Failed")
    assert world.end == ("Failed", "StepFailed")
    assert world.flow.status.outputs == {"how": "Failed"}


def test_outputs_that_are_too_large_fail_the_flow() -> None:
    text = '"' + "x" * 1000 + '"'
    world = ended(with_outputs(**{f"x{i}": text for i in range(5)}), "{}")
    assert world.end == ("Failed", "OutputsTooLarge")
    assert world.flow.status.outputs is None


def test_a_null_output_is_left_out() -> None:
    assert ended(with_outputs(x="null", y="[null]"), "{}").flow.status.outputs == {"y": [None]}


def test_a_plan_that_may_evaluate_no_more_leaves_the_outputs_to_the_next() -> None:
    loop = f"{list(range(40))}"
    costly = f"{loop}.all(x, {loop}.all(y, {loop}.all(z, x + y + z < 0 || x >= 0)))"
    world = world_of([Step(name="a", when=costly, continue_on_failure=True)])
    world = world.with_spec(outputs={"n": "1"})
    planned = world.plan()
    assert planned.status.state.phase == "Pending"
    assert planned.plan.requeue_after is not None
    world = world.settled().later(1).settled()
    assert world.flow.status.outputs == {"n": 1}


def test_a_retry_evaluates_the_outputs_again() -> None:
    world = ended(with_outputs(how="flow.phase"), "{}", "Failed")
    world = world.with_command("RestartJob").settled()
    assert world.flow.status.outputs is None
    world = world.ended("f-a-r1", "Completed").settled()
    assert world.flow.status.outputs == {"how": "Succeed"}
