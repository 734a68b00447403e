"""`steps["x"].item`: what an item reads of the same item of the steps before it."""

from typing import Any

import pytest

from jobflow.api.flow.control import ForEach, Param, Patch
from jobflow.api.flow.step import DependsOn, Step
from jobflow.core.planning.actions import CreateJob
from support.plan.loop_worlds import end_jobs, finish
from support.plan.plan_world import World, flow
from support.plan.steps import step

TWO = ForEach(items=["x", "y"])


def matching(targets: str, **fields: Any) -> Step:
    own = {key: fields.pop(key) for key in ("condition", "strategy") if key in fields}
    depends_on = DependsOn(targets=targets.split(), items="Matching", **own)
    return Step(depends_on=depends_on, **fields)


def reading(text: str, targets: str = "a", **fields: Any) -> Step:
    """A step whose jobs have the value of an expression in their queue."""
    return matching(
        targets, vars={"v": text}, patch=Patch(job_spec={"queue": "$(vars.v)"}), **fields
    )


def queue(world: World, job: str) -> object:
    """Apply plans until the job is created, and return its queue."""
    for _ in range(9):
        planned = world.plan()
        for action in planned.plan.actions:
            if isinstance(action, CreateJob) and action.name == job:
                return action.manifest["spec"].get("queue")
        world = world.apply(planned)
    raise AssertionError(f"{job} does not start: {planned.conditions}")


def test_an_item_reads_outputs_and_job_of_its_target_item() -> None:
    b = reading('steps["a"].item.outputs.file + " by " + steps["a"].item.job')
    world = flow(a=step(for_each=TWO), b=b).settled().settled()
    world = finish(world, "f-a-1", '{"file": "one"}')
    assert queue(world, "f-b-1") == "one by f-a-1"


def test_an_item_refers_to_its_target_item() -> None:
    patch = Patch(job_spec={"queue": "$(steps.a.item.outputs.file)-$(steps.a.item.phase)"})
    world = flow(a=step(for_each=TWO), b=matching("a", patch=patch)).settled().settled()
    world = finish(world, "f-a-1", '{"file": "one"}')
    assert queue(world, "f-b-1") == "one-Completed"


def test_an_item_reads_items_up_the_chain() -> None:
    c = reading('steps["a"].item.outputs.file', "b")
    world = flow(a=step(for_each=TWO), b=matching("a"), c=c).settled().settled()
    world = finish(world, "f-a-0", '{"file": "zero"}')
    assert queue(finish(world.settled(), "f-b-0", ""), "f-c-0") == "zero"


def test_an_item_reads_how_its_target_item_failed() -> None:
    text = 'steps["a"].item.phase + ": " + steps["a"].item.failure.message'
    world = flow(a=step(for_each=TWO), b=reading(text, condition="Finished")).settled().settled()
    world = finish(world, "f-a-0", "bad value 2", phase="Failed")
    assert queue(world, "f-b-0") == "Failed: bad value 2"


def test_an_item_that_its_target_never_began_is_skipped_to_it() -> None:
    a = step(for_each=ForEach(count=2, parallelism=1))
    p = step(for_each=ForEach(count=2), continue_on_failure=True)
    b = reading('steps["a"].item.phase', "a p", strategy="any", condition="Finished")
    world = flow(a=a, p=p, b=b).settled().settled()
    world = finish(end_jobs(world, "Failed", "f-a-0"), "f-p-1", "")
    assert queue(world, "f-b-1") == "Skipped"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"[" + steps["n"].item.phase + "]"', "[]"),
        ('string(size(steps["n"].item.outputs) + size(steps["n"].item.failure))', "0"),
    ],
)
def test_a_target_that_counts_as_a_whole_has_no_item(text: str, value: str) -> None:
    branch = step(for_each=ForEach(from_="params.list"), when="false")
    world = flow(a=step(for_each=TWO), n=branch, b=reading(text, "a n"))
    world = world.with_spec(params=[Param(name="list", value=[1, 2])]).settled()
    assert queue(finish(world, "f-a-0", ""), "f-b-0") == value


def test_a_step_of_the_full_name_wins() -> None:
    patch = Patch(job_spec={"queue": "$(steps.a.item.outputs.file)"})
    steps = {"a": step(for_each=TWO), "a.item": step(), "b": matching("a a.item", patch=patch)}
    world = flow(**steps).settled().settled()
    world = finish(world, "f-a-0", '{"file": "of the item"}').settled()
    world = finish(world, "f-a.item", '{"file": "of the step"}')
    assert queue(world, "f-b-0") == "of the step"


def test_an_item_without_the_output_fails_and_says_what_there_is() -> None:
    world = flow(a=step(for_each=TWO), b=reading('steps["a"].item.outputs.fil')).settled().settled()
    planned = finish(world, "f-a-0", '{"file": "x"}').settled().plan()
    run = (planned.conditions["b"].runs or [])[0]
    assert (run.reason, "outputs" in run.message) == ("ExpressionError", True)
