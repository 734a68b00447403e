"""Vars of a step: computed for each attempt when its vcjob is created."""

from typing import Any

from jobflow.api.flow.control import ForEach, Param, Patch, Retry
from jobflow.api.flow.step import Step
from jobflow.core.planning.actions import CreateJob
from support.plan.loop_worlds import finish, retried, with_step
from support.plan.plan_world import flow
from support.plan.planned import Planned
from support.plan.steps import step

HARD = "range(1000).all(i, range(10).all(j, i + j >= 0))"
"""Takes about half the steps of a plan."""


def with_vars(*targets: str, queue: str = "$(vars.x)", **fields: Any) -> Step:
    return step(*targets, patch=Patch(spec={"queue": queue}), **fields)


def queues(planned: Planned) -> dict[str, Any]:
    creates = [each for each in planned.plan.actions if isinstance(each, CreateJob)]
    return {create.name: create.manifest["spec"]["queue"] for create in creates}


def test_a_patch_uses_vars() -> None:
    world = flow(
        a=with_vars(vars={"x": "params.n * 2", "y": "[flow.name]"}, queue="$(vars.x)$(vars.y.0)")
    )
    assert queues(world.with_spec(params=[Param(name="n", value=3)]).plan()) == {"f-a": "6f"}


def test_a_default_stands_for_an_output_of_a_step_that_was_not_taken() -> None:
    x = {"x": 'get(steps["a"].outputs, "n", 5)'}
    world = flow(a=step(when="false"), b=with_vars("a", condition="NotFailed", vars=x))
    assert queues(world.plan()) == {"f-b": "5"}


def test_each_item_has_vars_of_its_own() -> None:
    items = ForEach(items=[{"q": "low"}, {"q": "high"}])
    world = flow(a=with_vars(for_each=items, vars={"x": "item.q.upperAscii() + string(index)"}))
    assert queues(world.plan()) == {"f-a-0": "LOW0", "f-a-1": "HIGH1"}


def test_vars_are_computed_again_for_the_next_attempt() -> None:
    """The job of the server is another one by then."""
    server = step(retry=Retry(limit=1))
    client = with_vars("server", condition="Running", vars={"x": "steps.server.job"},
                       retry=Retry(limit=1))  # fmt: skip
    world = flow(server=server, client=client).with_jobs(server="Running").settled()
    assert queues(world.without_jobs("client").with_missing("f-client").plan()) == {}
    world = world.with_jobs(server="Failed", client="Running").settled().later(10).settled()
    world = world.ended("f-server-r1", "Running").ended("f-client", "Failed").settled().later(10)
    assert queues(world.plan()) == {"f-client-r1": "f-server-r1"}


def test_vars_see_the_number_of_the_attempt() -> None:
    again = with_vars(vars={"x": "'%d-%d'.format([attempt, retries])"}, retry=Retry(limit=1))
    assert queues(flow(a=again).plan()) == {"f-a": "1-0"}
    world = flow(a=again).with_jobs(a="Failed").settled().later(10)
    assert queues(world.plan()) == {"f-a-r1": "2-1"}


def test_vars_see_the_failure_of_the_attempt_before() -> None:
    patch = Patch(spec={"queue": "$(vars.x)"})
    again = {"vars": {"x": "'q%d'.format([failure.exitCode])"}, "patch": patch}
    world = with_step(retried(), "a", **again)
    assert queues(world.plan()) == {"f-a": "q-1"}
    world = finish(world.settled(), "f-a", "out of luck", phase="Failed").settled().later(10)
    assert queues(world.plan()) == {"f-a-r1": "q1"}


def test_a_var_without_a_value_fails_the_step() -> None:
    world = flow("a", b=with_vars("a", vars={"x": "steps.a.outputs.n"})).with_jobs(a="Completed")
    world = world.settled()
    condition = world.plan().conditions["b"]
    assert (condition.phase, condition.reason) == ("Failed", "ExpressionError")
    assert condition.message == "vars.x `steps.a.outputs.n`: there is no 'n'"


def test_vars_wait_for_room() -> None:
    """A failure of a step that has no room yet would come too early."""
    bad = with_vars(vars={"x": "params.l[7]"})
    world = flow("a", b=bad).with_spec(params=[Param(name="l", value=[])], parallelism=1)
    planned = world.plan()
    assert (planned.creates, planned.conditions["b"].reason) == (["f-a"], "Parallelism")


def test_expensive_vars_are_spread_over_plans() -> None:
    steps = {name: with_vars(vars={"x": f"string({HARD})"}) for name in "abcde"}
    world = flow(**steps)
    made: list[int] = []
    while len(world.jobs) < len(steps):
        planned = world.plan()
        made.append(len(planned.creates))
        assert planned.plan.requeue_after is not None or len(world.jobs) + made[-1] == len(steps)
        world = world.apply(planned).later(1)
    assert max(made) < len(steps)
    assert world.settled().plan().failed == {}


def test_steps_without_vars_are_built_although_others_are_expensive() -> None:
    steps = {name: with_vars(vars={"x": f"string({HARD})"}) for name in "abc"}
    assert "f-z" in flow(**steps, z=step()).plan().creates
