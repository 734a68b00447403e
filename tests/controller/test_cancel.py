"""Cancelling a flow on a server: Commands act once, even if the controller crashes."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobflow.api.command import Command, encoded
from jobflow.api.job import Job
from jobflow.api.jobflow import JobFlow
from jobflow.api.meta import ObjectMeta, OwnerReference
from jobflow.api.resources import COMMANDS, JOBFLOWS, JOBS
from jobflow.kube.client import Client
from jobflow.sandbox.apiserver.requests.failures import failure
from jobflow.sandbox.apiserver.requests.http import Request
from jobflow.sandbox.apiserver.server import InjectedFault
from support.sandbox.crashing_requests import Point, first_life, points
from support.sandbox.running_controller import DIAMOND, NAMESPACE, Cluster, cluster, flow, template
from support.sandbox.volcano_world import volcano


async def apply_diamond(world: Cluster) -> None:
    for step in DIAMOND:
        made = template(step)
        duration = "1h" if step in "bc" else "1ms"
        made["metadata"]["annotations"] = {"sandbox.jobflow.volcano.sh/duration": duration}
        await world.apply(made)
    await world.apply(flow("f", DIAMOND))


async def order_at_the_right_time(world: Cluster) -> None:
    await world.until_jobs(f_b="Running", f_c="Running")
    await world.order("TerminateJob")


async def all_settled(world: Cluster) -> JobFlow:
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


def ends(done: JobFlow) -> dict[str, tuple[str, str]]:
    conditions = done.status.conditions or {}
    return {key: (entry.phase, entry.reason) for key, entry in conditions.items()}


async def carried(world: Cluster, point: Point) -> bool:
    """A diamond, cancelled when b and c run, with a crash; returns whether there was one."""
    await apply_diamond(world)
    async with volcano(Client.at(world.server.url)):
        user = asyncio.create_task(order_at_the_right_time(world))
        reached = await first_life(world, point)
        async with world.controller():
            await user
            done = await all_settled(world)
    assert ends(done) == CANCELLED, point
    assert (done.status.state.phase, done.status.state.reason) == ("Failed", "Cancelled"), point
    assert await world.jobs() == {"f-a": "Completed", "f-b": "Aborted", "f-c": "Aborted"}, point
    assert world.count("POST", JOBS) == 3, point
    told = [event for event in await world.events() if event["reason"] == "CommandRefused"]
    assert not told, "the Command was read twice"
    return reached


@pytest.mark.law
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_wherever_the_controller_dies_a_cancel_acts_once(after: bool) -> None:
    for point in points(int(after), after=after):
        async with cluster() as world:
            if not await carried(world, point):
                break
    assert point.number >= 18, "the crash points ran out early"


async def test_a_second_cancel_and_an_action_that_is_for_jobs(world: Cluster) -> None:
    await apply_diamond(world)
    async with volcano(Client.at(world.server.url)), world.controller():
        await order_at_the_right_time(world)
        await all_settled(world)
        await world.order("TerminateJob", name="again")
        await world.order("CompleteJob", name="complete")
        refused = await refusals(world, 2)
        await all_settled(world)
    assert refused == {
        "Command again (TerminateJob) was refused: the flow has ended (Failed)",
        "Command complete (CompleteJob) was refused: JobFlow executes AbortJob, RestartJob, "
        "ResumeJob, SuspendFlow, TerminateJob and TerminateNow on flows and no other action",
    }


async def refusals(world: Cluster, count: int) -> set[str]:
    async with asyncio.timeout(20):
        while True:
            events = [e for e in await world.events() if e["reason"] == "CommandRefused"]
            if len(events) == count:
                assert {event["type"] for event in events} == {"Warning"}
                return {event["message"] for event in events}
            await asyncio.sleep(0.01)


async def test_a_flow_that_waits_for_a_mistyped_template(world: Cluster) -> None:
    await world.apply(flow("f", {"a": "", "b": "a"}))
    async with world.controller():
        await world.until("f", lambda flow: flow.status.state.reason == "WaitingForTemplate")
        await world.order("TerminateJob")
        done = await all_settled(world)
    assert ends(done) == {"f-a": ("Skipped", "Stopped"), "f-b": ("Skipped", "Stopped")}
    assert done.status.state.reason == "Cancelled"


async def test_commands_on_other_kinds_are_let_alone(world: Cluster) -> None:
    await world.apply(template("a"), flow("f", {"a": ""}))
    target = OwnerReference(api_version=JOBS.api_version, kind="Job", name="f", uid="u")
    command = Command(metadata=ObjectMeta(name="x"), action="TerminateJob", target=target)
    await world.client.create(COMMANDS, NAMESPACE, encoded(command))
    async with world.ends(), world.controller():
        assert (await world.ended("f")).status.state.phase == "Succeed"
    assert [item["metadata"]["name"] for item in await world.raw(COMMANDS)] == ["x"]


class Clock:
    """The time, and how far a test has moved it on."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead


async def nudge(world: Cluster, note: str) -> None:
    body = b'{"metadata": {"labels": {"note": "%s"}}}' % note.encode()
    await world.client.patch(JOBFLOWS, NAMESPACE, "f", body)


async def abort_commands(world: Cluster, holds: Any) -> None:
    await world.seen(COMMANDS, Command, lambda commands: holds(commands.get("f-a-abort")))


async def test_where_nobody_aborts_the_job_is_asked_again_and_then_deleted(world: Cluster) -> None:
    clock = Clock()
    await world.apply(template("a"), flow("f", {"a": ""}))
    async with world.ends(otherwise="Running"), world.controller(now=clock.now):
        await world.until("f", lambda flow: flow.status.state.phase == "Running")
        await world.order("TerminateJob")
        await abort_commands(world, lambda command: command is not None)
        await world.client.delete(COMMANDS, NAMESPACE, "f-a-abort")
        clock.ahead = timedelta(seconds=11)
        await nudge(world, "one")
        await abort_commands(world, lambda command: command is not None)
        clock.ahead = timedelta(seconds=61)
        await nudge(world, "two")
        done = await world.ended("f")
        await world.seen(JOBS, Job, lambda jobs: not jobs)
    assert ends(done) == {"f-a": ("Failed", "Cancelled")}
    assert done.status.terminated_jobs == ["f-a"]


async def test_where_no_command_can_be_made_the_job_is_deleted(world: Cluster) -> None:
    def strikes(request: Request) -> bool:
        return request.method == "POST" and request.path.endswith("/commands")

    clock = Clock()
    await world.apply(template("a"), flow("f", {"a": ""}))
    async with world.ends(otherwise="Running"), world.controller(now=clock.now):
        await world.until("f", lambda flow: flow.status.state.phase == "Running")
        await world.order("TerminateJob")
        world.server.faults.append(
            InjectedFault(strikes, failure(403, "Forbidden", "no"), times=None)
        )
        await world.until("f", lambda flow: flow.status.state.reason == "Cancelled")
        clock.ahead = timedelta(seconds=61)
        await nudge(world, "one")
        assert (await world.ended("f")).status.state.reason == "Cancelled"
