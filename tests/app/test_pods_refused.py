"""Without the right to list pods, a replica is not ready but runs flows. Without a controller, it
needs no pods."""

from collections.abc import AsyncIterator

import pytest

from jobflow.api.resources import PODS
from jobflow.app.replica import ReplicaOptions, ServingReplica
from jobflow.sandbox.apiserver.requests.failures import failure
from support.sandbox.running_controller import Cluster, cluster, flow, template


@pytest.fixture
async def world() -> AsyncIterator[Cluster]:
    async with cluster() as world:
        yield world


def count_pod_requests(world: Cluster) -> int:
    return sum(seen.path.endswith("/pods") for seen in world.server.requests)


async def test_a_replica_without_the_right_is_not_ready_but_runs_flows(world: Cluster) -> None:
    forbidden = failure(403, "Forbidden", 'pods is forbidden: User "x" cannot list')
    world.fails("", "/pods", forbidden, times=None)
    await world.apply(template("a"), template("b"), flow("f", {"a": "", "b": "a"}))
    replica = ServingReplica(world.client, ReplicaOptions(webhook=None))
    async with replica.running(), world.ends({"f-b": "Failed"}):
        done = await world.ended("f")
        clauses = [clause for clause in replica.waiting_for() if "pods" in clause]
    conditions = done.status.conditions or {}
    assert {key: entry.phase for key, entry in conditions.items()} == {
        "f-a": "Completed",
        "f-b": "Failed",
    }
    assert conditions["f-b"].failure is None
    assert len(clauses) == 1
    assert clauses[0].startswith("the API server to list pods: 403")
    assert "cannot list" in clauses[0]


async def test_a_replica_without_a_controller_follows_no_pods(world: Cluster) -> None:
    replica = ServingReplica(world.client, ReplicaOptions(webhook=None, controller=False))
    async with replica.running():
        await replica.wait_ready()
    assert count_pod_requests(world) == 0


async def test_a_replica_with_a_controller_waits_for_pods(world: Cluster) -> None:
    replica = ServingReplica(world.client, ReplicaOptions(webhook=None))
    async with replica.running():
        await replica.wait_ready()
        assert replica.store.pods.cache.synced
    lists = [seen for seen in world.server.requests if seen.path == PODS.path()]
    assert len(lists) in (1, 2), "one list, and a watch if it has begun"
