"""Flows of one concurrency group in virtual time."""

from datetime import timedelta

from jobflow.api.flow.control import Concurrency, StepConcurrency
from jobflow.api.flow.jobflow import JobFlow
from jobflow.sandbox.virtual_time.planned_flows import VirtualCluster
from support.plan.plan_world import World, flow
from support.plan.steps import step
from support.plan.world_state import NOW


def member(name: str, policy: str | None = None) -> World:
    world = flow("a", b="a", name=name)
    return world.with_spec(concurrency=Concurrency(group="g", policy=policy))


def run(*members: World) -> dict[str, JobFlow]:
    cluster = VirtualCluster(NOW)
    for each in members:
        cluster.add(each.flow, each.templates.values())
    cluster.run()
    return {each.metadata.name: each for each in cluster.flows}


def test_flows_of_a_group_run_one_after_another() -> None:
    flows = run(member("x"), member("y"), member("z"))
    starts = [flows[name].status.start_time for name in "xyz"]
    assert starts == [NOW, NOW + timedelta(seconds=2), NOW + timedelta(seconds=4)]
    assert {each.status.state.phase for each in flows.values()} == {"Succeed"}


def test_a_flow_replaces_the_others() -> None:
    flows = run(member("x"), member("y"), member("z", "Replace"))
    ends = [(flows[name].status.state.phase, flows[name].status.state.reason) for name in "xyz"]
    assert ends == [("Failed", "Cancelled"), ("Failed", "Cancelled"), ("Succeed", "")]


def test_a_flow_that_may_not_wait_ends_at_once() -> None:
    flows = run(member("x"), member("y", "Forbid"))
    status = flows["y"].status
    assert (status.state.phase, status.state.reason) == ("Succeed", "Concurrency")
    assert (status.completion_time, status.job_status_list) == (NOW, None)


def starts(*flows: World) -> dict[str, int]:
    """Return the second in which each job starts."""
    cluster = VirtualCluster(NOW)
    for each in flows:
        cluster.add(each.flow, each.templates.values())
    cluster.run()
    assert {each.status.state.phase for each in cluster.flows} == {"Succeed"}
    found = {job.metadata.name: job.start for job in cluster.jobs}
    return {name: (start - NOW).seconds for name, start in found.items() if start is not None}


def placed(name: str, **places: int) -> World:
    return flow(a=step(concurrency=StepConcurrency(group="g", **places)), name=name)


def test_steps_of_several_flows_share_places() -> None:
    assert starts(*map(placed, "xyz")) == {"x-a": 0, "y-a": 1, "z-a": 2}
    two = [placed(name, limit=2) for name in "xyz"]
    assert starts(*two) == {"x-a": 0, "y-a": 0, "z-a": 1}


def test_a_step_that_needs_several_places_is_not_overtaken() -> None:
    flows = placed("w", limit=3), placed("x", limit=3, slots=3), placed("y", limit=3)
    assert starts(*flows) == {"w-a": 0, "x-a": 1, "y-a": 2}


def test_child_flows_wait_in_the_order_of_their_outermost_flow() -> None:
    inner = {"flows": [{"name": "a", "template": "a", "concurrency": {"group": "g"}}]}
    family = flow(c=step(flow=inner), name="y").with_template("a")
    assert starts(placed("x"), family, placed("z")) == {"x-a": 0, "y-c-a": 1, "z-a": 2}
