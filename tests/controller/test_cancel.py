"""Cancelling a flow on a server: Commands take effect once, even if the controller crashes."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import COMMANDS, JOBFLOWS, JOBS, ObjectMeta, OwnerReference
from jobflow.api.volcano.command import Command, encoded
from jobflow.api.volcano.job import Job
from jobflow.sandbox.apiserver.requests.failures import failure
from jobflow.sandbox.apiserver.requests.in_process import in_process_client
from support.sandbox import manifests
from support.sandbox.crashing_requests import Point, first_life, points
from support.sandbox.running_controller import DIAMOND, NAMESPACE, Cluster, cluster, flow, template
from support.sandbox.volcano_world import volcano
from support.time.certificate_rings import Clock


async def apply_diamond(world: Cluster) -> None:
    for step in DIAMOND:
        await world.apply(manifests.template(step, duration="1h" if step in "bc" else "1ms"))
    await world.apply(flow("f", DIAMOND))


async def cancel_while_b_and_c_run(world: Cluster) -> None:
    await world.until_jobs(f_b="Running", f_c="Running")
    await world.order("TerminateJob")


async def until_settled(world: Cluster) -> JobFlow:
    await world.ended("f")
    await world.seen(COMMANDS, Command, lambda commands: not commands)
    return await world.until("f", lambda flow: flow.final and not flow.status.handled_commands)


CANCELLED = {
    "f-a": ("Completed", ""),
    "f-b": ("Failed", "Cancelled"),
    "f-c": ("Failed", "Cancelled"),
    "f-d": ("Skipped", "Stopped"),
    "f-e": ("Skipped", "Stopped"),
}


def outcomes(done: JobFlow) -> dict[str, tuple[str, str]]:
    conditions = done.status.conditions or {}
    return {key: (entry.phase, entry.reason) for key, entry in conditions.items()}


async def run_with_crash(world: Cluster, point: Point) -> bool:
    """Cancel a diamond while b and c run, with a crash; return whether the crash happened."""
    await apply_diamond(world)
    async with volcano(in_process_client(world.server)):
        user = asyncio.create_task(cancel_while_b_and_c_run(world))
        reached = await first_life(world, point)
        async with world.controller():
            await user
            done = await until_settled(world)
    assert outcomes(done) == CANCELLED, point
    assert (done.status.state.phase, done.status.state.reason) == ("Failed", "Cancelled"), point
    assert await world.jobs() == {"f-a": "Completed", "f-b": "Aborted", "f-c": "Aborted"}, point
    assert world.count("POST", JOBS) == 3, point
    refused = [event for event in await world.events() if event["reason"] == "CommandRefused"]
    assert not refused, "the Command was read twice"
    return reached


@pytest.mark.usefixtures("events_at_once")
@pytest.mark.sampled(2)
@pytest.mark.law
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_cancel_takes_effect_once_wherever_the_controller_crashes(after: bool) -> None:
    for point in points(int(after), after=after):
        async with cluster() as world:
            if not await run_with_crash(world, point):
                break
    assert point.number >= 18, "the crash points ran out early"


@pytest.mark.long
async def test_a_second_cancel_and_an_action_for_jobs_are_refused(world: Cluster) -> None:
    await apply_diamond(world)
    async with volcano(in_process_client(world.server)), world.controller():
        await cancel_while_b_and_c_run(world)
        await until_settled(world)
        await world.order("TerminateJob", name="again")
        await world.order("CompleteJob", name="complete")
        refused = await refusals(world, 2)
        await until_settled(world)
    assert refused == {
        "Command again (TerminateJob) was refused: the flow has ended (Failed)",
        "Command complete (CompleteJob) was refused: JobFlow executes AbortJob, "
        "ApproveStep, CancelStep, RejectStep, RestartJob, ResumeJob, RetrySteps, "
        "RetryTolerated, ScaleFlow, SkipStep, SuspendFlow, TerminateJob and TerminateNow "
        "on flows and no other action",
    }


async def refusals(world: Cluster, count: int) -> set[str]:
    async with asyncio.timeout(20):
        while True:
            events = [e for e in await world.events() if e["reason"] == "CommandRefused"]
            messages = {each for event in events for each in event["message"].split("; ")}
            if len(messages) == count:
                assert {event["type"] for event in events} == {"Warning"}
                return messages
            await asyncio.sleep(0.01)


async def test_a_flow_that_waits_for_a_missing_template_can_be_cancelled(world: Cluster) -> None:
    await world.apply(flow("f", {"a": "", "b": "a"}))
    async with world.controller():
        await world.until("f", lambda flow: flow.status.state.reason == "WaitingForTemplate")
        await world.order("TerminateJob")
        done = await until_settled(world)
    assert outcomes(done) == {"f-a": ("Skipped", "Stopped"), "f-b": ("Skipped", "Stopped")}
    assert done.status.state.reason == "Cancelled"


async def test_commands_on_other_kinds_are_ignored(world: Cluster) -> None:
    await world.apply(template("a"), flow("f", {"a": ""}))
    target = OwnerReference(api_version=JOBS.api_version, kind="Job", name="f", uid="u")
    command = Command(metadata=ObjectMeta(name="x"), action="TerminateJob", target=target)
    await world.client.create(COMMANDS, NAMESPACE, encoded(command))
    async with world.ends(), world.controller():
        assert (await world.ended("f")).status.state.phase == "Succeed"
    assert [item["metadata"]["name"] for item in await world.raw(COMMANDS)] == ["x"]


async def change_flow(world: Cluster, note: str) -> None:
    body = b'{"metadata": {"labels": {"note": "%s"}}}' % note.encode()
    await world.client.patch(JOBFLOWS, NAMESPACE, "f", body)


async def until_abort_command(world: Cluster, is_expected: Any) -> None:
    await world.seen(COMMANDS, Command, lambda commands: is_expected(commands.get("f-a-abort")))


async def test_a_job_that_is_not_aborted_is_finally_deleted(world: Cluster) -> None:
    clock = Clock(datetime.now(UTC))
    await world.apply(template("a"), flow("f", {"a": ""}))
    async with world.ends(otherwise="Running"), world.controller(now=clock):
        await world.until("f", lambda flow: flow.status.state.phase == "Running")
        await world.order("TerminateJob")
        await until_abort_command(world, lambda command: command is not None)
        await world.client.delete(COMMANDS, NAMESPACE, "f-a-abort")
        clock.advance(timedelta(seconds=11))
        await change_flow(world, "one")
        await until_abort_command(world, lambda command: command is not None)
        clock.advance(timedelta(seconds=50))
        await change_flow(world, "two")
        done = await world.ended("f")
        await world.seen(JOBS, Job, lambda jobs: not jobs)
    assert outcomes(done) == {"f-a": ("Failed", "Cancelled")}
    assert done.status.terminated_jobs == ["f-a"]


async def test_a_job_is_deleted_if_no_command_can_be_created(world: Cluster) -> None:
    clock = Clock(datetime.now(UTC))
    await world.apply(template("a"), flow("f", {"a": ""}))
    async with world.ends(otherwise="Running"), world.controller(now=clock):
        await world.until("f", lambda flow: flow.status.state.phase == "Running")
        await world.order("TerminateJob")
        world.fails("POST", "/commands", failure(403, "Forbidden", "no"), times=None)
        await world.until("f", lambda flow: flow.status.state.reason == "Cancelled")
        clock.advance(timedelta(seconds=61))
        await change_flow(world, "one")
        assert (await world.ended("f")).status.state.reason == "Cancelled"
