"""Commands and a new leader: a Command that the last leader executed is not executed again."""

from collections.abc import AsyncIterator

import pytest

from jobflow.api.resources import COMMANDS, CRDS, JOBFLOWS
from jobflow.api.volcano.command import Command
from jobflow.kube.client import Client
from jobflow.sandbox.apiserver.requests.failures import failure
from support.sandbox.following_replica import FollowingReplica
from support.sandbox.running_controller import NAMESPACE, Cluster, flow, template, write_status
from support.time.alongside import until


@pytest.fixture
async def replica(world: Cluster) -> AsyncIterator[FollowingReplica[Client]]:
    follower = FollowingReplica(world.client)
    await follower.store.synced.wait()
    yield follower
    await follower.end()


async def cancel_with_the_last_leader(world: Cluster) -> None:
    await world.apply(flow("f", {"a": ""}))
    handled = [await world.order("TerminateJob")]
    state = {"phase": "Failed", "reason": "Cancelled"}
    status = {"state": state, "handledCommands": handled}
    await write_status(world.client, JOBFLOWS, "f", status)


async def test_stale_copies_are_updated(world: Cluster, replica: FollowingReplica[Client]) -> None:
    await replica.stop_following(COMMANDS)
    await cancel_with_the_last_leader(world)
    async with replica.leading():
        await world.seen(COMMANDS, Command, lambda commands: not commands)
    assert len((await world.flow("f")).status.handled_commands or ()) == 1
    assert [event for event in await world.events() if event["reason"] == "CommandRefused"] == []


async def test_a_deleted_command_is_not_executed_while_commands_cannot_be_read(
    world: Cluster, replica: FollowingReplica[Client]
) -> None:
    """The last leader executed and deleted the Command; then the flow was resumed."""
    await world.apply(template("a"), flow("f", {"a": ""}))
    await world.order("SuspendFlow")
    await until(lambda: replica.store.commands_of(NAMESPACE, "f"))
    await replica.stop_following(COMMANDS)
    await world.client.delete(COMMANDS, NAMESPACE, "stop")
    broken = failure(500, "InternalError", "no")
    fault = world.fails("", COMMANDS.path(), broken, times=None)
    async with world.ends(), replica.leading():
        assert (await world.ended("f")).status.state.phase == "Succeed"
        assert replica.store.commands_of(NAMESPACE, "f") is None
        world.server.faults.remove(fault)
        await until(lambda: replica.store.commands_of(NAMESPACE, "f") is not None)
    assert replica.store.commands_of(NAMESPACE, "f") == {}


@pytest.mark.parametrize("code", [403, 404])
async def test_a_leader_works_without_a_list_of_commands(world: Cluster, code: int) -> None:
    if code == 404:
        await world.client.delete(CRDS, "", "commands.bus.volcano.sh")
    else:
        world.fails("", "/commands", failure(403, "Forbidden", "no"), times=None)
    await world.apply(template("a"), flow("f", {"a": ""}))
    replica = FollowingReplica(world.client)
    async with world.ends(), replica.leading():
        assert (await world.ended("f")).status.state.phase == "Succeed"
    await replica.end()
