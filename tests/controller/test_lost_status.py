"""A flow whose status and jobs are lost while no controller runs keeps the ends of its steps."""

import json

import pytest

from jobflow.api.jobflow import JobFlow
from jobflow.api.resources import JOBFLOWS, JOBS
from support.sandbox.running_controller import (
    NAMESPACE,
    Cluster,
    cluster,
    flow,
    set_phase,
    template,
)

EMPTY = json.dumps({"status": None}).encode()


async def lose(world: Cluster, *jobs: str) -> None:
    for job in jobs:
        await world.client.delete(JOBS, NAMESPACE, job)
    await world.client.patch(JOBFLOWS, NAMESPACE, "f", EMPTY, subresource="status")
    assert (await world.flow("f")).status.conditions is None


async def carried(world: Cluster, end: str, condition: str) -> JobFlow:
    """a ends and b starts because of it; then every record of the end is lost, except b."""
    depends_on = {"targets": ["a"], "condition": condition}
    steps = [{"name": "a"}, {"name": "b", "dependsOn": depends_on}]
    await world.apply(template("a"), template("b"), flow("f", {}, flows=steps))
    async with world.ends({"f-a": end}, otherwise="Running"):
        async with world.controller():
            await world.until_jobs(**{"f-a": end, "f-b": "Running"})
        await lose(world, "f-a")
        async with world.controller():
            await world.until("f", lambda found: found.status.conditions is not None)
            await set_phase(world.client, "f-b", "Completed")
            return await world.ended("f")


@pytest.mark.parametrize(
    ("end", "condition", "phase"),
    [("Completed", "Finished", "Succeed"), ("Failed", "Finished", "Failed")],
)
async def test_a_step_that_had_ended_is_not_run_again(end: str, condition: str, phase: str) -> None:
    async with cluster() as world:
        done = await carried(world, end, condition)
        assert done.status.state.phase == phase
        assert (done.status.conditions or {})["f-a"].phase == end
        assert world.count("POST", JOBS) == 2
        assert (await world.jobs()).keys() == {"f-b"}
