"""Steps of several flows that share places: never more at once than the limit, in their order."""

from typing import Any

import pytest

from jobflow.api.resources import JOBFLOWS
from support.network.anonymous import anonymous
from support.sandbox.crashing_requests import Dying, Point
from support.sandbox.places_held import jobs_held
from support.sandbox.running_controller import NAMESPACE, Cluster, cluster, flow, template

NAMES = [f"f{i}" for i in range(6)]


def member(name: str, **places: Any) -> dict[str, Any]:
    made = flow(name, {"a": ""})
    made["spec"]["flows"][0]["concurrency"] = {"group": "g", **places}
    return made


def family(name: str) -> dict[str, Any]:
    """A flow whose child flow needs the place."""
    made = flow(name, {"c": ""})
    [step] = made["spec"]["flows"]
    places = {"group": "g"}
    step["flow"] = {"flows": [{"name": "a", "template": "a", "concurrency": places}]}
    return made


async def create(world: Cluster, **places: Any) -> None:
    await world.apply(template("a"), *(member(name, **places) for name in NAMES))


async def all_succeed(world: Cluster) -> None:
    for name in NAMES:
        assert (await world.ended(name)).status.state.phase == "Succeed"


async def test_steps_start_in_the_order_of_their_flows() -> None:
    async with cluster() as world, world.controller(), world.ends():
        async with jobs_held(world.client, NAMESPACE) as held:
            await create(world)
            await all_succeed(world)
        assert (held.most, held.started) == (1, [f"{name}-a" for name in NAMES])


async def test_never_more_jobs_run_than_the_limit_allows() -> None:
    async with cluster() as world, world.controller(), world.ends():
        async with jobs_held(world.client, NAMESPACE) as held:
            await create(world, limit=5, slots=2)
            await all_succeed(world)
        assert held.most <= 2


async def test_few_child_flows_of_a_step_between_others_run_at_once() -> None:
    async with cluster() as world, world.controller(), world.ends():
        await world.apply(*map(template, ("prepare", "solve", "plot")))
        async with jobs_held(world.client, NAMESPACE, "-solve-solve") as held:
            for name in NAMES:
                made = flow(name, {"prepare": "", "solve": "prepare", "plot": "solve"})
                solve = made["spec"]["flows"][1]
                solve["flow"] = {"flows": [{"name": "solve"}]}
                solve["concurrency"] = {"group": "matlab", "limit": 2}
                await world.apply(made)
            await all_succeed(world)
        assert held.most <= 2


@pytest.mark.sampled(3)
@pytest.mark.parametrize("number", range(2, 22, 2))
@pytest.mark.parametrize("after", [False, True], ids=["before sending", "after the commit"])
async def test_a_crash_lets_no_second_job_start(number: int, after: bool) -> None:
    async with cluster() as world, world.ends():
        async with jobs_held(world.client, NAMESPACE) as held:
            async with Dying(anonymous(world.server.url)) as client:
                client.point = Point(number, after)
                async with world.controller(client):
                    await create(world)
                    await client.dead.wait()
            async with world.controller():
                await all_succeed(world)
        assert (held.most, held.started) == (1, [f"{name}-a" for name in NAMES])


async def test_a_leader_that_dies_between_place_and_create_leaves_the_place_to_the_next() -> None:
    async with cluster() as world, world.ends():
        async with Dying(anonymous(world.server.url)) as client:
            await world.apply(template("a"), member("f0"))
            client.point = Point(0, after=True)
            async with world.controller(client):
                await client.dead.wait()
        [place] = (await world.flow("f0")).status.places or ()
        assert (place.job, await world.jobs()) == ("f0-a", {})
        await world.apply(*(member(name) for name in NAMES[1:]))
        async with jobs_held(world.client, NAMESPACE) as held, world.controller():
            await all_succeed(world)
        assert (held.most, held.started[0]) == (1, "f0-a")


async def test_the_deletion_of_a_flow_frees_its_places() -> None:
    async with cluster() as world, world.controller(), world.ends({"f0-a": "Running"}):
        await world.apply(template("a"), member("f0"))
        await world.until_jobs(f0_a="Running")
        await world.apply(member("f1"))
        await world.until("f1", lambda flow: flow.status.places is not None)
        await world.client.delete(JOBFLOWS, NAMESPACE, "f0")
        assert (await world.ended("f1")).status.state.phase == "Succeed"


async def test_child_flows_wait_in_the_order_of_their_outermost_flow() -> None:
    async with cluster() as world, world.controller(), world.ends({"x-a": "Running"}):
        await world.apply(template("a"), member("x"))
        await world.until_jobs(x_a="Running")
        async with jobs_held(world.client, NAMESPACE) as held:
            await world.apply(family("f0"), member("f1"), family("f2"))
            for name in ("f0-c", "f1", "f2-c"):
                await world.until(name, lambda flow: flow.status.places is not None)
            await world.client.delete(JOBFLOWS, NAMESPACE, "x")
            for name in ("f0", "f1", "f2"):
                assert (await world.ended(name)).status.state.phase == "Succeed"
        assert held.started == ["x-a", "f0-c-a", "f1-a", "f2-c-a"]
