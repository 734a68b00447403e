"""What the webhook knows of the cluster, by the store and by live reads."""

from __future__ import annotations

import json

from jobflow.api.resources import NAMESPACES
from jobflow.kube.client import Client
from jobflow.sandbox.server import ApiServer
from jobflow.store import Store
from jobflow.webhook.cluster import StoreCluster


async def test_a_namespace_is_terminating_once_it_is_being_deleted() -> None:
    async with ApiServer() as server, Client.at(server.url) as client:
        cluster = StoreCluster(Store(), client)
        team = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": "team", "finalizers": ["example.com/wait"]},
        }
        await client.create(NAMESPACES, "", json.dumps(team).encode())
        assert not await cluster.namespace_terminating("team")
        await client.delete(NAMESPACES, "", "team")
        assert await cluster.namespace_terminating("team")


async def test_a_namespace_that_cannot_be_read_is_not_terminating() -> None:
    async with ApiServer() as server, Client.at(server.url) as client:
        assert not await StoreCluster(Store(), client).namespace_terminating("nowhere")
    async with Client.at("http://127.0.0.1:1") as client:
        assert not await StoreCluster(Store(), client).namespace_terminating("team")


async def test_nothing_is_known_before_the_store_is_synced_nor_of_other_namespaces() -> None:
    store = Store()
    async with Client.at("http://127.0.0.1:1") as client:
        cluster = StoreCluster(store, client, only="team")
        assert cluster.follows("team") and not cluster.knows("team")
        for cache in (store.flows, store.jobs, store.templates_cache, store.queues_cache):
            cache.replace([], "1")
        store.commands_cache.absent()
        store.pods.cache.absent()
        assert cluster.knows("team")
        assert not cluster.follows("other") and not cluster.knows("other")
        assert cluster.queues() == {} and cluster.templates("team") == {}
        assert list(cluster.flows_using("team", "a")) == []
