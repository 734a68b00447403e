"""The webhook's view of the cluster, from the store and from live reads."""

import asyncio
import json

import msgspec
import pytest

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import JOBFLOWS, NAMESPACES
from jobflow.core.admission.changes import Need
from jobflow.kube.client import Client
from jobflow.store import Store
from jobflow.webhook import cluster
from jobflow.webhook.cluster import StoreCluster
from jobflow.webhook.review.envelope import NotReady
from support.admission.reviewed import flow_of
from support.network.anonymous import anonymous
from support.network.scripted_server import Answer, ScriptedServer
from support.sandbox.api_server import ApiServer
from support.sandbox.manifests import jobflow


async def test_a_namespace_that_is_being_deleted_is_terminating() -> None:
    async with ApiServer() as server, Client(anonymous(server.url)) as client:
        known = StoreCluster(Store(), client)
        assert not await known.namespace_terminating("team"), "it does not exist"
        metadata = {"name": "team", "finalizers": ["example.com/wait"]}
        team = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        await client.create(NAMESPACES, "", json.dumps(team).encode())
        assert not await known.namespace_terminating("team")
        await client.delete(NAMESPACES, "", "team")
        assert await known.namespace_terminating("team")
    async with Client(anonymous("http://127.0.0.1:1")) as client:
        assert not await StoreCluster(Store(), client).namespace_terminating("team")


async def test_a_namespace_is_known_if_it_is_followed_and_the_store_is_synced() -> None:
    store = Store()
    async with Client(anonymous("http://127.0.0.1:1")) as client:
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
    async with Client(anonymous("http://127.0.0.1:1")) as client:
        before = turns
        needs = await StoreCluster(store, client).needed_by("team", "s9")
    assert turns - before == 5
    assert needs == [Need(f"f{i}", "s9") for i in range(10)]
    task.cancel()


async def test_a_flow_is_read_as_it_is_now() -> None:
    async with ApiServer() as server, Client(anonymous(server.url)) as client:
        known = StoreCluster(Store(), client)
        assert await known.flow("default", "f") is None
        await client.create(JOBFLOWS, "default", json.dumps(jobflow("f", {"a": []})).encode())
        found = await known.flow("default", "f")
        assert found is not None and found.metadata.uid


async def test_a_flow_that_cannot_be_read_is_not_taken_for_missing() -> None:
    async with Client(anonymous("http://127.0.0.1:1")) as client:
        known = StoreCluster(Store(), client)
        with pytest.raises(NotReady, match="flow f cannot be read .*; try again"):
            await known.flow("default", "f")
        assert not await known.flow_is_gone("default", "f", "1")


async def test_an_answer_that_is_no_object_is_a_read_that_failed() -> None:
    async with ScriptedServer() as server, Client(anonymous(server.url)) as client:
        server.others += [Answer(200, "<html>"), Answer(200, "<html>")]
        known = StoreCluster(Store(), client)
        assert not await known.namespace_terminating("team")
        assert not await known.flow_is_gone("team", "f", "1")
        assert len(server.requests) == 2


async def test_a_flow_whose_claims_another_one_has_is_spent() -> None:
    spec = {"flows": [{"name": "a"}], "volumeClaims": {"data": {}}}
    first = {"metadata": {"name": "first", "namespace": "team", "uid": "1"}, "spec": spec}
    second = {
        "metadata": {"name": "second", "namespace": "team", "uid": "2"},
        "spec": spec,
        "status": {"reuse": {"flow": "first", "uid": "1"}, "reusedClaims": {"data": "first-data"}},
    }
    store = Store()
    store.flows.replace([msgspec.convert(each, JobFlow) for each in (first, second)], "1")
    async with Client(anonymous("http://127.0.0.1:1")) as client:
        known = StoreCluster(store, client)
    assert known.why_spent("team", "first") == "its volume claims belong to the flow second"
    assert known.why_spent("team", "second") == known.why_spent("team", "third") == ""
