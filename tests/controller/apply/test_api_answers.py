"""Answers of the API server are dropped when nothing needs them any more."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from jobflow.api.resources import JOBFLOWS
from jobflow.api.volcano.job import Job
from jobflow.core.planning.actions import AbortJob, DeleteFlow
from jobflow.kube.client import Client
from jobflow.sandbox.apiserver.requests.failures import failure
from support.network.anonymous import anonymous
from support.sandbox.applier_world import NOW
from support.sandbox.applier_world import World as Applying
from support.sandbox.manual_reconciler import KEY, World, set_plan
from support.sandbox.running_controller import (
    NAMESPACE,
    Product,
    cluster,
    flow,
    set_phase,
    template,
)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with cluster() as servers:
        await servers.apply(flow("f", {"a": ""}))
        ended = b'{"status": {"state": {"phase": "Succeed"}}}'
        await servers.client.patch(JOBFLOWS, *KEY, ended, subresource="status")
        yield World(servers, await servers.flow("f"))


async def test_a_refused_delete_is_sent_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.servers.fails("DELETE", "", failure(403, "Forbidden", "no"), times=None)
    flow = await world.servers.flow("f")
    set_plan(monkeypatch, actions=(DeleteFlow(flow.metadata.uid),))
    world.queue.add(KEY)
    working = asyncio.create_task(world.reconciler.work())
    for _ in range(20):
        await asyncio.sleep(0.1)
        world.queue.add(KEY)
    world.queue.close()
    await working
    deletes = [seen for seen in world.servers.server.requests if seen.method == "DELETE"]
    assert len(deletes) == 1, "the clock of the queue is stopped"


async def test_answers_for_deleted_and_ended_flows_are_dropped() -> None:
    async with cluster() as servers, Client(anonymous(servers.server.url)) as client:
        await servers.apply(template("a"), flow("f", {"a": ""}), flow("g", {"a": ""}))
        product = Product(client)
        memory = product.controller._reconciler.memory
        await servers.until_jobs(f_a="", g_a="")
        assert len(memory._answers) == 2
        await set_phase(servers.client, "f-a", "Completed")
        deleted = b'{"metadata": {"annotations": {"flow.volcano.sh/force-delete": "true"}}}'
        await servers.client.patch(JOBFLOWS, NAMESPACE, "g", deleted)
        await servers.client.delete(JOBFLOWS, NAMESPACE, "g")
        await servers.ended("f")
        await asyncio.sleep(5)
        assert (memory._answers, memory._waiting) == ({}, {})
        await product.kill()


async def test_the_time_of_an_abort_is_kept_until_the_job_has_ended() -> None:
    async with cluster() as servers:
        await servers.apply(flow("f", {"a": ""}))
        world = Applying(servers, await servers.flow("f"))
        await world.apply(AbortJob("f-a", "uid-a"))
        for phase, kept in (("Running", True), ("Aborted", False)):
            manifest = {
                "metadata": {"name": "f-a", "uid": "uid-a"},
                "status": {"state": {"phase": phase}},
            }
            world.answers.outdate({"f-a": msgspec.convert(manifest, Job)})
            assert world.answers.aborts == ({"uid-a": NOW} if kept else {})
