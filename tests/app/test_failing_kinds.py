"""A kind that only warnings, Commands or details of ends need cannot be listed. The replica runs
without it, draws no conclusion from its absence, and uses it as soon as it can be listed."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from jobflow.api.resources import COMMANDS, PODS, QUEUES, Resource
from jobflow.app.replica import ReplicaOptions, ServingReplica
from jobflow.kube import reflector
from jobflow.sandbox.apiserver.requests.failures import failure
from support.sandbox.api_server import InjectedFault
from support.sandbox.job_pods import PodEnds
from support.sandbox.running_controller import Cluster, cluster, flow, template
from support.time.alongside import until

EXTRAS = pytest.mark.parametrize("kind", [QUEUES, COMMANDS, PODS], ids=lambda kind: kind.plural)


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cluster]:
    monkeypatch.setattr(reflector, "LONGEST_WAIT", 0.05)
    async with cluster() as world:
        yield world


def fail_kind(world: Cluster, kind: Resource) -> InjectedFault:
    broken = failure(500, "InternalError", "the conversion webhook failed")
    return world.fails("", kind.path(), broken, times=None)


def failing_watches(replica: ServingReplica) -> dict[str, float | None]:
    names = (QUEUES.plural, COMMANDS.plural, PODS.plural)
    value = replica.metrics.registry.get_sample_value
    return {name: value("jobflow_watch_failing", {"resource": name}) for name in names}


@EXTRAS
async def test_a_replica_is_ready_without_the_kind(world: Cluster, kind: Resource) -> None:
    fault = fail_kind(world, kind)
    replica = ServingReplica(world.client, ReplicaOptions(webhook=None))
    async with replica.running():
        await asyncio.wait_for(replica.wait_ready(), 20)
        assert replica.waiting_for() == []
        assert failing_watches(replica)[kind.plural] == 1
        (reported,) = replica.unknown()
        assert reported.startswith(f"{kind.plural}: 500 InternalError")
        world.server.faults.remove(fault)
        await until(lambda: not replica.unknown())
        assert failing_watches(replica) == {"queues": 0, "commands": 0, "pods": 0}


@EXTRAS
async def test_flows_run_without_the_kind(world: Cluster, kind: Resource) -> None:
    fail_kind(world, kind)
    await world.apply(template("a"), flow("f", {"a": ""}))
    replica = ServingReplica(world.client, ReplicaOptions(webhook=None))
    async with replica.running(), world.ends():
        done = await world.ended("f")
    assert done.status.state.phase == "Succeed"


async def test_outputs_are_read_if_pods_cannot_be_watched(world: Cluster) -> None:
    fail_kind(world, PODS)
    await world.apply(template("a"), flow("f", {"a": ""}))
    replica = ServingReplica(world.client, ReplicaOptions(webhook=None))
    async with replica.running(), world.ends(driver=PodEnds):
        done = await world.ended("f")
    assert (done.status.conditions or {})["f-a"].outputs == {"text": "from f-a"}


async def test_a_command_takes_effect_as_soon_as_commands_are_known(world: Cluster) -> None:
    fault = fail_kind(world, COMMANDS)
    await world.apply(template("a"), flow("f", {"a": ""}))
    await world.order("TerminateJob")
    replica = ServingReplica(world.client, ReplicaOptions(webhook=None))
    async with replica.running():
        await world.until_jobs(f_a="")
        world.server.faults.remove(fault)
        await world.until("f", lambda flow: flow.status.state.reason == "Cancelled")


async def test_unknown_queues_are_not_reported_as_missing(world: Cluster) -> None:
    fail_kind(world, QUEUES)
    replica = ServingReplica(world.client, ReplicaOptions(webhook=None))
    async with replica.running():
        await replica.wait_ready()
        assert replica.store.queue_states() is None
