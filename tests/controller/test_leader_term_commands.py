"""A new leader and Commands: one that the last leader has carried out does not act again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from jobflow.api.command import Command
from jobflow.api.resources import COMMANDS, CRDS, JOBFLOWS
from jobflow.controller.leader_term import lead
from jobflow.sandbox.apiserver.requests.failures import failure
from jobflow.sandbox.apiserver.requests.http import Request
from jobflow.sandbox.apiserver.server import InjectedFault
from jobflow.store import Feed, Store, feeds
from support.sandbox.running_controller import NAMESPACE, Cluster, cluster, flow, template


@pytest.fixture
async def world() -> AsyncIterator[Cluster]:
    async with cluster() as world:
        yield world


class Replica:
    """A replica that may lead; its copy of Commands can be left to grow old."""

    def __init__(self, world: Cluster) -> None:
        self.client = world.client
        self.store = Store()
        self.feeds: list[Feed] = feeds(self.store, world.client)
        self.tasks = {feed.resource: asyncio.create_task(feed.run()) for feed in self.feeds}

    async def hear_no_more_of_commands(self) -> None:
        self.tasks[COMMANDS].cancel()
        await asyncio.wait([self.tasks[COMMANDS]])

    @asynccontextmanager
    async def leading(self) -> AsyncIterator[None]:
        flows, templates, jobs, commands, *_ = self.feeds
        ending = asyncio.Event()
        followers = (flows, templates, jobs)
        term = asyncio.create_task(
            lead(self.client, ending, store=self.store, followers=followers, optional=(commands,))
        )
        try:
            yield
        finally:
            ending.set()
            await term

    async def end(self) -> None:
        for task in self.tasks.values():
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)


@pytest.fixture
async def replica(world: Cluster) -> AsyncIterator[Replica]:
    made = Replica(world)
    await made.store.wait_synced()
    yield made
    await made.end()


async def ordered(world: Cluster, action: str) -> str:
    """A Command `stop` on the flow f is there; returns its UID."""
    uid = (await world.flow("f")).metadata.uid
    command: dict[str, Any] = {
        "apiVersion": COMMANDS.api_version,
        "kind": "Command",
        "metadata": {"name": "stop"},
        "action": action,
        "target": {
            "apiVersion": JOBFLOWS.api_version, "kind": "JobFlow", "name": "f", "uid": uid
        },
    }  # fmt: skip
    body = await world.client.create(COMMANDS, NAMESPACE, json.dumps(command).encode())
    made: str = json.loads(body)["metadata"]["uid"]
    return made


async def carried_out_by_the_last_leader(world: Cluster) -> None:
    """The Command is recorded, its effect too; its deletion was yet to come."""
    await world.apply(flow("f", {"a": ""}))
    handled = [await ordered(world, "TerminateJob")]
    state = {"phase": "Failed", "reason": "Cancelled"}
    status = {"status": {"state": state, "handledCommands": handled}}
    await world.client.patch(
        JOBFLOWS, NAMESPACE, "f", json.dumps(status).encode(), subresource="status"
    )


async def test_a_leader_whose_copy_is_old_does_not_take_a_command_for_gone(
    world: Cluster, replica: Replica
) -> None:
    await replica.hear_no_more_of_commands()
    await carried_out_by_the_last_leader(world)
    async with replica.leading():
        await world.seen(COMMANDS, Command, lambda commands: not commands)
    assert len((await world.flow("f")).status.handled_commands or ()) == 1
    assert [event for event in await world.events() if event["reason"] == "CommandRefused"] == []


async def test_a_command_that_is_gone_does_not_act_while_commands_cannot_be_read(
    world: Cluster, replica: Replica
) -> None:
    """The last leader has carried it out, deleted and forgotten it; then the flow was resumed."""
    await world.apply(template("a"), flow("f", {"a": ""}))
    await ordered(world, "SuspendFlow")
    async with asyncio.timeout(20):
        while not replica.store.commands_of(NAMESPACE, "f"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await replica.hear_no_more_of_commands()
    await world.client.delete(COMMANDS, NAMESPACE, "stop")
    broken = failure(500, "InternalError", "no")
    fault = InjectedFault(lambda request: request.path == COMMANDS.path(), broken, times=None)
    world.server.faults.append(fault)
    async with world.ends(), replica.leading():
        assert (await world.ended("f")).status.state.phase == "Succeed"
        assert replica.store.commands_of(NAMESPACE, "f") is None
        world.server.faults.remove(fault)
        async with asyncio.timeout(20):
            while replica.store.commands_of(NAMESPACE, "f") is None:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    assert replica.store.commands_of(NAMESPACE, "f") == {}


@pytest.mark.parametrize("code", [403, 404])
async def test_where_no_commands_are_listed_a_leader_goes_to_work(
    world: Cluster, code: int
) -> None:
    def strikes(request: Request) -> bool:
        return "/commands" in request.path

    if code == 404:
        await world.client.delete(CRDS, "", "commands.bus.volcano.sh")
    else:
        world.server.faults.append(
            InjectedFault(strikes, failure(403, "Forbidden", "no"), times=None)
        )
    await world.apply(template("a"), flow("f", {"a": ""}))
    replica = Replica(world)
    async with world.ends(), replica.leading():
        assert (await world.ended("f")).status.state.phase == "Succeed"
    await replica.end()
