"""Copies that the API server has not confirmed for too long: the replica is not ready, and does not
rely on them."""

import pytest

from jobflow.api.resources import JOBFLOWS, NAMESPACES
from jobflow.app.replica import ReplicaOptions, ServingReplica
from jobflow.kube import reflector
from jobflow.kube.clock import boot_clock
from support.sandbox.api_server import InjectedFault
from support.sandbox.running_controller import cluster
from support.time.alongside import until


async def test_a_replica_is_not_ready_while_the_api_server_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passed = 0.0
    monkeypatch.setattr(reflector, "boot_clock", lambda: boot_clock() + passed)
    monkeypatch.setattr(reflector, "LONGEST_WAIT", 0.05)
    async with cluster() as world:
        replica = ServingReplica(world.client, ReplicaOptions(webhook=None, max_copy_age=30))
        async with replica.running():
            await replica.wait_ready()
            away = InjectedFault(lambda request: NAMESPACES.plural not in request.path, times=None)
            world.server.faults.append(away)
            world.server.storage.close_watches()
            await until(lambda: len(replica.unknown()) == 7)
            passed = 29.0
            assert replica.waiting_for() == []
            passed = 31.0
            clauses = replica.waiting_for()
            assert [clause.partition(", which is older than 30 s: ")[0] for clause in clauses] == [
                f"the API server to confirm the copy of {kind}"
                for kind in (JOBFLOWS.plural, "jobtemplates", "jobs", "cronjobflows")
            ]
            world.server.faults.remove(away)
            await until(lambda: not replica.waiting_for())
