"""Statuses of running flows over which somebody else writes."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import EVENTS, JOBFLOWS, JOBS, Object
from jobflow.kube.client import Client
from jobflow.kube.reflector import METADATA_ONLY
from jobflow.sandbox.apiserver.requests.in_process import InProcessConnections
from support.sandbox.following_replica import FollowingReplica
from support.sandbox.running_controller import (
    Cluster,
    cluster,
    flow,
    merge,
    set_phase,
    template,
    write_status,
)
from support.time.leaping_loop import clock

VOLCANOS: dict[str, Any] = {
    "state": {"phase": "Failed"},
    "conditions": {
        "f-a": {"phase": "Running", "job": None, "uid": None, "attempts": None},
        "f-b": None,
    },
    "jobStatusList": None,
    "startTime": None,
    "runningJobs": None,
}
"""What Volcano's own controller writes over a flow that it did not start."""
EDITS: dict[str, Any] = {
    "everything": None,
    "the flow": {"state": None},
    "the end of the flow": {
        "state": {"phase": "Succeed"},
        "completionTime": "2026-01-01T00:00:00Z",
    },
    "conditions": {"conditions": None},
    "a step": {"conditions": {"f-a": {"phase": "Failed", "reason": "JobFailed"}}},
    "a step, as not begun": {"conditions": {"f-a": {"phase": "Waiting", "attempts": 0}}},
    "the next step": {"conditions": {"f-b": {"phase": "Completed"}}},
    "Volcano's": VOLCANOS,
}


class Event(Object, frozen=True, kw_only=True):
    reason: str = ""
    message: str = ""


def runs(flow: JobFlow) -> bool:
    condition = (flow.status.conditions or {}).get("f-a")
    return condition is not None and condition.phase == "Running" and condition.attempts == 1


async def start(world: Cluster) -> None:
    await world.apply(template("a"), template("b"), flow("f", {"a": "", "b": "a"}))
    await world.until("f", runs)


async def until_reported(world: Cluster) -> None:
    """Wait for the Event about a status that somebody else has written."""
    reasons = {"StatusOverwritten"}
    await world.seen(
        EVENTS, Event, lambda events: reasons <= {each.reason for each in events.values()}
    )


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
async def test_the_leader_writes_its_status_again(edit: Any) -> None:
    async with cluster() as world, world.ends({"f-a": "Running"}), world.controller():
        await start(world)
        await write_status(world.client, JOBFLOWS, "f", edit)
        await world.until("f", runs)
        await set_phase(world.client, "f-a", "Completed")
        done = await world.ended("f")
        assert (done.status.state.phase, done.status.progress) == ("Succeed", "2/2")
        assert world.count("POST", JOBS) == 2
        await until_reported(world)


async def test_a_flow_that_has_ended_stays_ended() -> None:
    async with cluster() as world, world.ends(), world.controller():
        await world.apply(template("a"), flow("f", {"a": ""}))
        done = await world.ended("f")
        await write_status(world.client, JOBFLOWS, "f", {"state": {"phase": "Running"}})
        again = await world.ended("f")
        assert again.status == done.status
        assert world.count("POST", JOBS) == 1


async def test_a_status_that_is_overwritten_again_is_written_every_ten_seconds() -> None:
    async with cluster() as world, world.ends({"f-a": "Running"}), world.controller():
        await start(world)
        began = clock()
        for _ in range(3):
            await write_status(world.client, JOBFLOWS, "f", {"state": {"phase": "Failed"}})
            await world.until("f", lambda flow: flow.status.state.phase == "Running")
        assert 20 <= clock() - began < 21


async def test_labels_of_a_flow_are_not_a_status() -> None:
    async with cluster() as world, world.ends({"f-a": "Running"}), world.controller():
        await start(world)
        await merge(world.client, JOBFLOWS, "f", {"metadata": {"labels": {"x": "y"}}})
        await set_phase(world.client, "f-a", "Completed")
        await world.ended("f")
        assert "StatusOverwritten" not in {event["reason"] for event in await world.events()}


async def test_a_parent_does_not_believe_another_writer_about_its_child() -> None:
    steps = [{"name": "a", "flow": {"flows": [{"name": "x", "template": "a"}]}}]
    async with cluster() as world, world.ends({"f-a-x": "Running"}), world.controller():
        await world.apply(template("a"), flow("f", {}, flows=steps))
        await world.until("f", runs)
        await write_status(world.client, JOBFLOWS, "f-a", {"state": {"phase": "Failed"}})
        await set_phase(world.client, "f-a-x", "Completed")
        assert (await world.ended("f")).status.state.phase == "Succeed"


class ManagingClient(Client):
    """A client of an API server that notes who has written the statuses of flows."""

    managers: tuple[str, ...] = ()
    after_list: Callable[[], Awaitable[None]] | None = None
    """Called once, after the list that a new leader reads at the beginning of its term."""

    async def request(self, method: str, path: str, **options: Any) -> bytes:
        body = await super().request(method, path, **options)
        if method != "GET" or "/jobflows" not in path:
            return body
        answer = json.loads(body)
        owned = {"f:status": {"f:conditions": {}}}
        entries = [
            {"manager": name, "operation": "Update", "subresource": "status", "fieldsV1": owned}
            for name in self.managers
        ]
        for item in answer.get("items", [answer]):
            item["metadata"]["managedFields"] = entries
        if options.get("accept") == METADATA_ONLY and self.after_list is not None:
            after_list, self.after_list = self.after_list, None
            await after_list()
        return json.dumps(answer).encode()


@asynccontextmanager
async def new_leader(
    world: Cluster,
    *managers: str,
    overwrite: Callable[[], Awaitable[None]] | None = None,
) -> AsyncIterator[None]:
    """Start a replica that leads. `managers`: who has written the statuses of flows, as far as
    `managedFields` says. `overwrite`: writes over a status after the replica has listed flows, for
    Volcano's controller."""
    auth = world.client.auth
    client = ManagingClient(auth, connections=InProcessConnections(auth, world.server))
    client.managers = managers

    async def write() -> None:
        assert overwrite is not None
        await overwrite()
        client.managers = (*managers, "vc-controller-manager")

    client.after_list = None if overwrite is None else write
    async with client:
        replica = FollowingReplica(client)
        try:
            async with replica.leading():
                yield
        finally:
            await replica.end()


@pytest.mark.parametrize("job", [{}, {"ownerReferences": None}], ids=["owned", "without an owner"])
async def test_a_new_leader_rebuilds_a_status_that_volcano_has_overwritten(
    job: dict[str, Any],
) -> None:
    async with cluster() as world, world.ends({"f-a": "Running"}):
        async with world.controller():
            await start(world)
        await write_status(world.client, JOBFLOWS, "f", VOLCANOS)
        await merge(world.client, JOBS, "f-a", {"metadata": job})
        async with new_leader(world, "vc-controller-manager"):
            await world.until("f", runs)
            await set_phase(world.client, "f-a", "Completed")
            done = await world.ended("f")
        assert (done.status.state.phase, done.status.progress) == ("Succeed", "2/2")
        assert world.count("POST", JOBS) == 2


async def test_a_new_leader_recognizes_a_writer_that_came_after_its_list() -> None:
    async with cluster() as world, world.ends({"f-a": "Running"}):
        async with world.controller():
            await start(world)

        async def overwrite() -> None:
            await write_status(world.client, JOBFLOWS, "f", VOLCANOS)

        async with new_leader(world, "jobflow", overwrite=overwrite):
            await until_reported(world)
            await world.until("f", runs)
            await set_phase(world.client, "f-a", "Completed")
            done = await world.ended("f")
        assert (done.status.state.phase, done.status.progress) == ("Succeed", "2/2")
        assert world.count("POST", JOBS) == 2


async def test_a_new_leader_leaves_an_overwritten_flow_without_jobs_alone() -> None:
    async with cluster() as world:
        async with world.controller(), world.ends():
            await world.apply(template("a"), flow("f", {"a": ""}, jobRetainPolicy="delete"))
            await world.ended("f")
            await world.until_jobs(f_a=None)
        await write_status(world.client, JOBFLOWS, "f", {"state": {"phase": "Failed"}})
        async with new_leader(world, "jobflow", "vc-controller-manager"):
            await world.apply(flow("g", {"a": ""}))
            await world.until_jobs(g_a="")
        assert world.count("POST", JOBS) == 2
