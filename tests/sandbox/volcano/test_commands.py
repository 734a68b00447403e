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


async def send_command(
    world: World, action: str, job: str = "j", *, kind: tuple[str, str] = JOB, name: str = ""
) -> None:
    """Create a Command as vcctl does."""
    metadata = {"name": name} if name else {"generateName": f"{job}-{action.lower()}-"}
    target = {"apiVersion": kind[0], "kind": kind[1], "name": job, "uid": "of-no-interest"}
    head = {"apiVersion": COMMANDS.api_version, "kind": COMMANDS.kind, "metadata": metadata}
    body: dict[str, Any] = {**head, "action": action, "target": target}
    await world.client.create(COMMANDS, NAMESPACE, msgspec.json.encode(body))


async def wait_until_no_commands(world: World) -> None:
    await world.until(lambda commands: not commands, COMMANDS)


@pytest.mark.parametrize(
    ("action", "end"),
    [("AbortJob", "Aborted"), ("TerminateJob", "Terminated"), ("CompleteJob", "Completed")],
)
async def test_a_command_ends_a_running_job(world: World, action: str, end: str) -> None:
    async with long_job(world):
        await send_command(world, action)
        [job] = await world.wait_for_end("j")
    assert phases(job)[0:2] + [phase(job)] == ["Pending", "Running", end]
    assert (await world.pods(), await world.items(COMMANDS)) == ({}, [])


async def test_an_aborted_job_is_resumed(world: World) -> None:
    async with long_job(world):
        await send_command(world, "AbortJob")
        await world.wait_for_job("j", "Aborted")
        await send_command(world, "ResumeJob")
        await world.wait_for_job("j", "Running")
    assert (await world.get(JOBS, "j"))["status"]["retryCount"] == 1


async def test_a_running_job_is_restarted(world: World) -> None:
    async with long_job(world):
        await send_command(world, "RestartJob")
        await world.until(lambda jobs: "Restarting" in phases(jobs["j"]))
        await world.wait_for_job("j", "Running")


async def test_an_earlier_command_is_executed(world: World) -> None:
    await world.create(vcjob("j", duration="1h"))
    await send_command(world, "AbortJob")
    async with stand_in(world, speed=1):
        await wait_until_no_commands(world)
        await world.wait_for_job("j", "Aborted")


async def test_commands_on_other_kinds_are_ignored(world: World) -> None:
    await send_command(
        world, "TerminateJob", kind=("flow.volcano.sh/v1alpha1", "JobFlow"), name="flow"
    )
    await send_command(
        world, "OpenQueue", kind=("scheduling.volcano.sh/v1beta1", "Queue"), name="queue"
    )
    async with stand_in(world, speed=1):
        await send_command(world, "AbortJob", "none")
        await send_command(world, "Nonsense", "none")
        await world.until(lambda commands: commands.keys() == {"flow", "queue"}, COMMANDS)
        await world.create(vcjob("j"))
        await world.wait_for_job("j", "Running")


async def test_an_unknown_action_has_no_effect(world: World) -> None:
    async with long_job(world):
        await send_command(world, "Nonsense")
        await wait_until_no_commands(world)
        await send_command(world, "AbortJob")
        [job] = await world.wait_for_end("j")
    assert phase(job) == "Aborted"


async def test_jobs_run_without_the_definition_of_commands(world: World) -> None:
    await world.client.delete(CRDS, "", "commands.bus.volcano.sh")
    job = await run_job(world, vcjob("j"))
    assert phase(job) == "Completed"
