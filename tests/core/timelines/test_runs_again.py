"""What a retry would run again, with the time that is lost."""

from datetime import timedelta

import msgspec

from jobflow.api.flow.control import ForEach
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import JobRecord, StepCondition
from jobflow.api.flow.step import Step
from jobflow.core.timelines.runs_again import list_runs_again, sum_lost
from support.plan.child_worlds import INNER, child_of, with_child
from support.plan.plan_world import World, world_of
from support.plan.steps import after
from support.plan.world_state import NOW

HOUR = timedelta(hours=1)


def listed(
    world: World, *children: JobFlow, tolerated: bool = False
) -> list[tuple[str, str, str, timedelta | None]]:
    below = {child.metadata.name: child for child in children}
    found = list_runs_again(world.flow, below, world.now, tolerated=tolerated)
    return [(each.place, each.phase, each.count, each.lost) for each in found]


def ended(world: World, phases: dict[str, str], hours: int = 1) -> World:
    """The jobs of these steps end so after some hours."""
    world = world.settled().with_jobs(**dict.fromkeys(phases, "Running")).settled()
    world = world.later(hours * 3600)
    for step, phase in phases.items():
        world = world.ended(world.name_of(step), phase)
    return world.settled()


def test_the_time_of_completed_jobs_that_run_again_is_lost() -> None:
    steps = [Step(name="a"), Step(name="b", depends_on=after("a", condition="Running"))]
    world = ended(world_of(steps), {"a": "Failed", "b": "Completed"})
    assert listed(world) == [("a", "Failed", "", None), ("b", "Completed", "", HOUR)]


def family(child_phase: str, condition: str = "Completed") -> tuple[World, JobFlow]:
    """Return a flow in which x has failed, and a, behind it, runs a child whose job ran an hour."""
    behind = after("x", condition="Finished")
    steps = [Step(name="x"), Step(name="a", depends_on=behind, flow=INNER)]
    world = world_of(steps).settled().with_jobs(x="Failed").settled()
    world = with_child(world, "f-a", child_phase).settled()
    child = child_of(world, "f-a", child_phase)
    record = JobRecord(
        name="f-a-x", state="Completed", start_timestamp=NOW, end_timestamp=NOW + HOUR
    )
    status = msgspec.structs.replace(
        child.status,
        conditions={"f-a-x": StepCondition(phase=condition, job="f-a-x", attempts=1)},
        job_status_list=[record],
    )
    spec = msgspec.structs.replace(child.spec, flows=[Step(name="x")])
    return world, msgspec.structs.replace(child, status=status, spec=spec)


def test_a_child_flow_that_is_made_anew_loses_the_time_of_its_jobs() -> None:
    assert listed(*family("Succeed")) == [
        ("x", "Failed", "", None),
        ("a", "Completed", "", HOUR),
    ]


def test_the_steps_of_a_child_flow_that_is_retried_are_listed() -> None:
    step = Step(name="a", flow=INNER, for_each=ForEach(items=["i", "j"]))
    world = world_of([step]).settled()
    world = with_child(with_child(world, "f-a-0", "Succeed"), "f-a-1", "Failed").settled()
    child = child_of(world, "f-a-1", "Failed")
    spec = msgspec.structs.replace(child.spec, flows=[Step(name="x"), Step(name="y")])
    known = {"f-a-1-x": StepCondition(phase="Completed"), "f-a-1-y": StepCondition(phase="Failed")}
    status = msgspec.structs.replace(child.status, conditions=known)
    child = msgspec.structs.replace(child, spec=spec, status=status)
    assert listed(world, child) == [
        ("a", "Failed", "1 of 2 items", None),
        ("a/1/y", "Failed", "", None),
    ]
    found = list_runs_again(world.flow, {"f-a-1": child}, world.now)
    assert sum_lost(found) == timedelta()
