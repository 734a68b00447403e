"""Flows carried through on the sandbox's API server."""

from __future__ import annotations

from jobflow.api.resources import JOBFLOWS, JOBS
from running import DIAMOND, cluster, flow, template


async def test_a_diamond_is_carried_to_its_end() -> None:
    async with cluster() as world, world.controller(), world.ends():
        await world.apply(*(template(name) for name in DIAMOND), flow("d", DIAMOND))
        done = await world.ended("d")
        assert done.status.state.phase == "Succeed"
        assert await world.jobs() == dict.fromkeys(["d-a", "d-b", "d-c", "d-d", "d-e"], "Completed")
        print(world.count("POST", JOBS), world.count("PATCH", JOBFLOWS, subresource="status"))
