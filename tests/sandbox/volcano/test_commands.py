"""Commands on vcjobs: deleted first, then executed, as in Volcano."""

from typing import Any

import msgspec
import pytest

from jobflow.api.resources import COMMANDS, CRDS, JOBS
from support.sandbox.vcjobs import vcjob
from support.sandbox.volcano_world import (
    NAMESPACE,
    World,
    long_job,
    phase,
    phases,
    run_job,
    stand_in,
)

JOB = (JOBS.api_version, JOBS.kind)


async def order(
    world: World, action: str, job: str = "j", *, kind: tuple[str, str] = JOB, name: str = ""
) -> None:
    """Create a Command as vcctl does."""
    named = {"name": name} if name else {"generateName": f"{job}-{action.lower()}-"}
    target = {"apiVersion": kind[0], "kind": kind[1], "name": job, "uid": "of-no-interest"}
    head = {"apiVersion": COMMANDS.api_version, "kind": COMMANDS.kind, "metadata": named}
    body: dict[str, Any] = {**head, "action": action, "target": target}
    await world.client.create(COMMANDS, NAMESPACE, msgspec.json.encode(body))


async def no_commands(world: World) -> None:
    await world.until(lambda commands: not commands, COMMANDS)


@pytest.mark.parametrize(
    ("action", "end"),
    [("AbortJob", "Aborted"), ("TerminateJob", "Terminated"), ("CompleteJob", "Completed")],
)
async def test_a_running_job_ends_as_it_is_told_to(world: World, action: str, end: str) -> None:
    async with long_job(world):
        await order(world, action)
        [job] = await world.end_of("j")
    assert phases(job)[0:2] + [phase(job)] == ["Pending", "Running", end]
    assert (await world.pods(), await world.items(COMMANDS)) == ({}, [])


async def test_an_aborted_job_goes_on_when_it_is_resumed(world: World) -> None:
    async with long_job(world):
        await order(world, "AbortJob")
        await world.job_in("j", "Aborted")
        await order(world, "ResumeJob")
        await world.job_in("j", "Running")
    assert (await world.get(JOBS, "j"))["status"]["retryCount"] == 1


async def test_a_running_job_is_restarted(world: World) -> None:
    async with long_job(world):
        await order(world, "RestartJob")
        await world.until(lambda jobs: "Restarting" in phases(jobs["j"]))
        await world.job_in("j", "Running")


async def test_one_that_waited_for_the_stand_in_is_carried_out(world: World) -> None:
    await world.create(vcjob("j", duration="1h"))
    await order(world, "AbortJob")
    async with stand_in(world, speed=1):
        await no_commands(world)
        await world.job_in("j", "Aborted")


async def test_what_is_not_about_a_job_is_let_alone(world: World) -> None:
    await order(world, "TerminateJob", kind=("flow.volcano.sh/v1alpha1", "JobFlow"), name="flow")
    await order(world, "OpenQueue", kind=("scheduling.volcano.sh/v1beta1", "Queue"), name="queue")
    async with stand_in(world, speed=1):
        await order(world, "AbortJob", "none")
        await order(world, "Nonsense", "none")
        await world.until(lambda commands: commands.keys() == {"flow", "queue"}, COMMANDS)
        await world.create(vcjob("j"))
        await world.job_in("j", "Running")


async def test_an_action_that_nobody_knows_does_nothing(world: World) -> None:
    async with long_job(world):
        await order(world, "Nonsense")
        await no_commands(world)
        await order(world, "AbortJob")
        [job] = await world.end_of("j")
    assert phase(job) == "Aborted"


async def test_jobs_run_where_no_commands_are_served(world: World) -> None:
    await world.client.delete(CRDS, "", "commands.bus.volcano.sh")
    job = await run_job(world, vcjob("j"))
    assert phase(job) == "Completed"
