"""The webhook's view of the cluster, from the store and from live reads."""

import asyncio
import json

import pytest

from jobflow.api.resources import NAMESPACES
from jobflow.core.admission.changes import Need
from jobflow.kube.client import Client
from jobflow.store import Store
from jobflow.webhook import cluster
from jobflow.webhook.cluster import StoreCluster
from support.admission.reviewed import flow_of
from support.sandbox.api_server import ApiServer


async def test_a_namespace_that_is_being_deleted_is_terminating() -> None:
    async with ApiServer() as server, Client.at(server.url) as client:
        known = StoreCluster(Store(), client)
        assert not await known.namespace_terminating("team"), "it does not exist"
        metadata = {"name": "team", "finalizers": ["example.com/wait"]}
        team = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        await client.create(NAMESPACES, "", json.dumps(team).encode())
        assert not await known.namespace_terminating("team")
        await client.delete(NAMESPACES, "", "team")
        assert await known.namespace_terminating("team")
    async with Client.at("http://127.0.0.1:1") as client:
        assert not await StoreCluster(Store(), client).namespace_terminating("team")


async def test_a_namespace_is_known_if_it_is_followed_and_the_store_is_synced() -> None:
    store = Store()
    async with Client.at("http://127.0.0.1:1") as client:
        known = StoreCluster(store, client, only="team")
        assert known.follows("team") and not known.knows("team")
        for cache in (store.flows, store.jobs, store.templates, store.crons, store.queues):
            cache.replace([], "1")
        store.commands.absent()
        store.pods.cache.absent()
        assert known.knows("team")
        assert not known.follows("other") and not known.knows("other")
        assert known.queues() == {} and known.templates("team") == {}
        assert await known.needed_by("team", "a") == []


async def test_other_tasks_run_during_a_search_of_flows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "STEPS_AT_A_TIME", 20)
    store = Store()
    flows = [flow_of(*(f"s{i}" for i in range(10)), name=f"f{i}") for i in range(10)]
    store.flows.replace(flows, "1")
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(count_turns())
    async with Client.at("http://127.0.0.1:1") as client:
        before = turns
        needs = await StoreCluster(store, client).needed_by("team", "s9")
    assert turns - before == 5
    assert needs == [Need(f"f{i}", "s9") for i in range(10)]
    task.cancel()
