"""`nextJobs`: what would be made once every vcjob that is there now completes."""

from __future__ import annotations

import pytest

from jobflow.api.jobflow import DependsOn, Probe, Step, TaskStatusProbe
from support.plan.plan_world import World, after, flow, world_of


def coming(world: World) -> list[str]:
    return [name.removeprefix("f-") for name in world.plan().status.next_jobs or []]


def probed(targets: str, strategy: str | None = None) -> DependsOn:
    probe = Probe(task_status_list=[TaskStatusProbe(task_name="t", phase="Succeeded")])
    return DependsOn(targets=targets.split(), probe=probe, strategy=strategy)


def test_what_stands_behind_the_jobs_that_are_there() -> None:
    world = flow("a", b="a", c="a", d="b c", e="d")
    assert coming(world) == ["b", "c"]
    world = world.settled()
    assert coming(world) == ["b", "c"]
    world = world.later(1).ended("f-a", "Completed")
    assert coming(world) == ["d"]
    world = world.settled().later(1).ended("f-b", "Completed")
    assert coming(world) == ["d"]
    assert coming(world.run()) == []


@pytest.mark.parametrize(
    ("depends_on", "comes"),
    [
        (after("a"), True),
        (after("a c"), False),
        (after("a c", strategy="any"), True),
        (after("a", condition="Failed"), False),
        (after("a", condition="Finished"), True),
        (after("c", condition="Running"), False),
        (after("a b", condition="Completed"), True),
        (probed("a"), True),
        (probed("a c"), False),
        (probed("a c", strategy="any"), True),
    ],
)
def test_by_what_a_step_waits_for(depends_on: DependsOn, comes: bool) -> None:
    """Here a runs, b has completed, and c waits behind z, which waits for its template."""
    world = flow("a", "b", "z", c="z", x=depends_on).without_template("z")
    world = world.with_jobs(a="Running", b="Completed")
    assert ("x" in coming(world)) is comes


def test_what_is_only_skipped_then_frees_what_is_behind_it() -> None:
    world = flow("a", "b", repair=after("a", condition="Failed"), end="b repair")
    assert coming(world.with_jobs(a="Running", b="Running")) == ["end"]


def test_what_waits_for_something_else_is_not_told() -> None:
    world = flow("a", "b", c="a b").without_template("b").with_jobs(a="Running")
    assert coming(world) == []
    lost = flow("a", b="a").with_jobs(a="Running").settled().without_jobs("a")
    lost = lost.with_missing("f-a").stored()
    assert lost.plan().held_up == {"a": "JobLost"}
    assert coming(lost) == []


def test_after_a_failure_only_handlers_and_what_is_behind_them_come() -> None:
    world = flow("a", "w", h=after("a", condition="Failed"), c="h", n="w")
    world = world.with_jobs(a="Failed", w="Running")
    assert world.plan().creates == ["f-h"]
    assert coming(world) == ["c"]
    assert coming(world.settled()) == ["c"]


def test_a_flow_that_is_over_or_about_to_be_has_none() -> None:
    world = flow("a", b="a").with_jobs(a="Running").settled()
    assert coming(world) == ["b"]
    assert coming(world.being_deleted()) == []
    assert coming(world.cancelled()) == []


def test_they_are_in_the_order_of_the_spec_and_at_most_a_hundred() -> None:
    names = [f"s{n:03}" for n in range(150)]
    steps = [Step(name=name, depends_on=after("a")) for name in reversed(names)]
    world = world_of([*steps, Step(name="a")]).with_jobs(a="Running")
    assert coming(world) == names[:49:-1]


def test_a_flow_with_loops_and_strangers_has_no_next_jobs_by_them() -> None:
    world = flow("a", b="a c", c="b", d="a nobody", e="a").with_jobs(a="Running")
    assert coming(world.settled()) == ["e"]
