"""`forEach.when`: which items run, decided for each at its turn."""

from typing import Any

import pytest

from jobflow.api.flow.control import ForEach
from jobflow.api.flow.status import Decisions, JobFlowStatus, StepCondition
from jobflow.api.flow.step import DependsOn, Step
from support.plan.loop_worlds import end_jobs, finish, runs
from support.plan.plan_world import World, flow
from support.plan.steps import step

SIZES = [3, 30, 5, 50]


def large(**fields: Any) -> Step:
    """A step for whose items 1 and 3 `forEach.when` holds."""
    parallelism = fields.pop("parallelism", None)
    return step(for_each=ForEach(items=SIZES, when="item > 20", parallelism=parallelism), **fields)


def matching(targets: str = "a", **fields: Any) -> Step:
    return Step(depends_on=DependsOn(targets=targets.split(), items="Matching"), **fields)


def started(world: World) -> set[str]:
    return {name.removeprefix("f-") for name in world.jobs}


def test_an_item_that_is_not_taken_is_skipped_and_the_step_completes_with_the_others() -> None:
    world = flow(a=large(), b="a").settled()
    assert started(world) == {"a-1", "a-3"}
    assert runs(world.plan())[0] == "Skipped NotTaken"
    assert (world.plan().conditions["a"].runs or [])[0].message == "`item > 20` does not hold"
    world = end_jobs(world, "Completed", "f-a-1", "f-a-3")
    assert (world.plan().phases["a"], "b" in started(world)) == ("Completed", True)


def test_a_step_of_which_no_item_is_taken_is_completed() -> None:
    world = flow(a=step(for_each=ForEach(count=3, when="index > 5")), b="a").settled()
    assert (world.plan().phases["a"], started(world)) == ("Completed", {"b"})


def test_a_decision_is_stored_before_the_job_is_created() -> None:
    first = flow(a=large()).plan()
    assert (first.creates, first.plan.urgent) == ([], True)
    assert first.conditions["a"].decisions == Decisions(taken="a")
    assert first.conditions["a"].message == "its conditions are being looked at"
    assert flow(a=large()).apply(first).plan().creates == ["f-a-1", "f-a-3"]


def test_a_stored_decision_is_not_made_again() -> None:
    world = flow(a=step(for_each=ForEach(count=2, when="false")))
    stored = StepCondition(phase="Waiting", decisions=Decisions(taken="2"))
    world = world.with_status(JobFlowStatus(conditions={"f-a": stored}))
    assert started(world.settled()) == {"a-1"}


def test_an_item_that_is_not_taken_takes_no_room() -> None:
    world = flow(a=large(parallelism=1)).settled()
    assert started(world) == {"a-1"}
    assert runs(world.plan()) == {0: "Skipped NotTaken", 1: "Pending"}
    assert started(end_jobs(world, "Completed", "f-a-1")) == {"a-1", "a-3"}


@pytest.mark.parametrize(("tolerates", "jobs"), [(False, set()), (True, {"a-1", "a-2"})])
def test_an_error_of_one_item_fails_that_item(tolerates: bool, jobs: set[str]) -> None:
    each = ForEach(items=[{}, {"n": 1}, {"n": 2}], when="item.n > 0")
    world = flow(a=step(for_each=each, continue_on_failure=tolerates or None)).settled()
    assert runs(world.plan())[0] == "Failed ExpressionError"
    assert "forEach.when `item.n > 0`" in (world.plan().conditions["a"].runs or [])[0].message
    assert started(world) == jobs


def test_an_item_decides_by_the_item_before_it() -> None:
    text = 'steps["a"].item.outputs.n > 1'
    world = flow(a=step(for_each=ForEach(count=2)), b=matching(for_each=ForEach(when=text)))
    world = finish(world.settled().settled(), "f-a-0", '{"n": 1}').settled()
    world = finish(world, "f-a-1", '{"n": 2}').settled()
    assert runs(world.plan(), "b") == {0: "Skipped NotTaken", 1: "Pending"}


def test_an_untaken_item_is_to_its_matching_item_as_an_untaken_target() -> None:
    steps = {"p": step(for_each=ForEach(items=SIZES)), "a": large()}
    world = flow(**steps, b=matching("a"), c=matching("p a")).settled().settled()
    world = end_jobs(world, "Completed", "f-p-0")
    assert runs(world.plan(), "b")[0] == "Skipped NotTaken"
    assert "c-0" in started(world)


def test_items_behind_one_that_is_not_taken_wait_for_no_job() -> None:
    p = step(for_each=ForEach(items=SIZES))
    world = flow(p=p, a=large(targets="p"), c=matching("p a"))
    world = end_jobs(world.settled(), "Completed", *(f"f-p-{index}" for index in range(3)))
    world = world.later(1).ended("f-p-3", "Completed")
    world = world.apply(world.plan())
    begins = world.plan()
    assert (begins.creates, begins.plan.urgent) == (["f-a-1", "f-a-3"], True)
    assert world.apply(begins).settled().jobs.keys() >= {"f-c-0", "f-c-2"}


def test_a_step_is_completed_if_no_item_of_its_target_was_taken() -> None:
    none = step(for_each=ForEach(count=2, when="false"))
    world = flow(a=none, b=matching(), c=matching("b"), d="c").settled().settled()
    assert (world.plan().phases["c"], started(world)) == ("Completed", {"d"})
    run = (world.plan().conditions["c"].runs or [])[0]
    assert (run.reason, run.message) == ("NotTaken", "no target was taken")


def test_a_retry_decides_anew_for_items_that_run_again() -> None:
    text = 'steps["a"].item.phase == "Failed"'
    b = Step(
        depends_on=DependsOn(targets=["a"], items="Matching", condition="Finished"),
        for_each=ForEach(when=text),
    )
    world = flow(a=step(for_each=ForEach(count=2)), b=b).settled().settled()
    world = end_jobs(world, "Failed", "f-a-0")
    world = end_jobs(end_jobs(world, "Completed", "f-a-1"), "Completed", "f-b-0")
    assert runs(world.plan(), "b") == {0: "Completed", 1: "Skipped NotTaken"}
    world = world.with_command("RestartJob").settled().settled()
    world = end_jobs(world, "Completed", "f-a-0-r1").settled()
    assert runs(world.plan(), "b") == {0: "Skipped NotTaken", 1: "Skipped NotTaken"}
    assert world.end == ("Succeed", "")


def test_when_of_the_step_is_decided_once_for_all_items() -> None:
    world = flow(a=step(for_each=ForEach(count=2, when="true"), when="false")).settled()
    assert (world.plan().skipped, runs(world.plan())) == ({"a": "NotTaken"}, {})


def test_conditions_of_many_items_are_decided_in_several_plans() -> None:
    text = "range(1000).all(i, i * i >= 0 || index < 0)"
    world = flow(a=step(for_each=ForEach(count=40, when=text)))
    first = world.plan()
    taken = int((first.conditions["a"].decisions or Decisions()).taken or "0", 16).bit_count()
    assert 0 < taken < 40
    for _ in range(300):
        planned = world.plan()
        if planned.nothing:
            break
        world = world.apply(planned).later(0.1)
    assert len(started(world)) == 40
