"""Flows of one concurrency group in virtual time."""

from datetime import timedelta

from jobflow.api.flow.control import Concurrency
from jobflow.api.flow.jobflow import JobFlow
from jobflow.sandbox.virtual_time.planned_flows import VirtualCluster
from support.plan.plan_world import World, flow
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
