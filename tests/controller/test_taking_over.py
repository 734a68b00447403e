"""A new leader knows the effects of the last one even if no watch shows them. No job runs twice."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import RunCondition
from jobflow.api.resources import JOBFLOWS, JOBS, JOBTEMPLATES
from jobflow.api.volcano.job import Job
from jobflow.controller.controller import lead
from jobflow.kube import reflector
from jobflow.kube.client import Client
from jobflow.sandbox.apiserver.requests.failures import failure
from jobflow.store import Store, feeds
from support.network.anonymous import anonymous
from support.sandbox.following_replica import FollowingReplica
from support.sandbox.job_pods import end_pod, make_pod
from support.sandbox.running_controller import NAMESPACE, Cluster, flow, merge, set_phase, template
from support.time.alongside import until


class Hearing(Client):
    """A client whose watches can hold events back and deliver them later."""

    def start(self) -> None:
        self._delivers = asyncio.Event()
        self._delivers.set()
        self.answered: list[tuple[str, dict[str, str]]] = []

    async def request(self, method: str, path: str, **more: Any) -> bytes:
        answer = await super().request(method, path, **more)
        self.answered.append((path, dict(more.get("query", ()))))
        return answer

    async def until_listed(self, path: str) -> None:
        await until(lambda: any(path == seen for seen, _ in self.answered))

    def hold_events(self) -> None:
        self._delivers.clear()

    def deliver_events(self) -> None:
        self._delivers.set()

    async def watch(self, *args: Any, **more: Any) -> AsyncGenerator[bytes, None]:
        async with aclosing(super().watch(*args, **more)) as frames:
            async for frame in frames:
                await self._delivers.wait()
                yield frame


@asynccontextmanager
async def follower(world: Cluster) -> AsyncIterator[FollowingReplica[Hearing]]:
    async with Hearing(anonymous(world.server.url)) as client:
        assert isinstance(client, Hearing)
        client.start()
        replica = FollowingReplica(client)
        await replica.store.synced.wait()
        client.hold_events()
        try:
            yield replica
        finally:
            await replica.end()


async def test_existing_jobs_are_not_created_again(world: Cluster) -> None:
    await world.apply(template("a"), template("b"), flow("f", {"a": "", "b": "a"}))
    async with follower(world) as replica:
        async with world.controller():
            await world.until_jobs(f_a="")
            await set_phase(world.client, "f-a", "Completed")
            await world.until_jobs(f_b="")
            await world.until("f", lambda flow: "f-b" in (flow.status.conditions or {}))
        replica.client.answered.clear()
        async with replica.leading():
            await until_leading(world, replica)
            await set_phase(world.client, "f-b", "Completed")
            replica.client.deliver_events()
            done = await world.ended("f")
    assert done.status.state.phase == "Succeed"
    assert world.count("POST", JOBS) == 2
    refused = [seen for seen in world.server.requests if seen.code == 409]
    assert refused == []


async def test_jobs_are_created_from_the_current_template(world: Cluster) -> None:
    await world.apply(template("a"))
    async with follower(world) as replica:
        await world.apply(flow("f", {"a": ""}))
        await merge(world.client, JOBTEMPLATES, "a", {"spec": {"queue": "new"}})
        async with replica.leading():
            await world.until_jobs(f_a="")
    (job,) = await world.raw(JOBS)
    assert job["spec"]["queue"] == "new"


async def test_a_deleted_flow_gets_no_job(world: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector, "DELETIONS_WITHIN", 0.05)
    await world.apply(flow("gone", {"a": ""}))
    async with follower(world) as replica:
        await world.client.delete(JOBFLOWS, NAMESPACE, "gone")
        await world.apply(template("a"), flow("there", {"a": ""}))
        async with replica.leading():
            await world.until_jobs(there_a="")
        assert replica.store.flows.get(NAMESPACE, "gone") is None
    assert set(await world.jobs()) == {"there-a"}


async def test_a_new_leader_waits_for_the_end_of_a_deleted_job(world: Cluster) -> None:
    """The job completed and was deleted without a leader, so only the watch shows its end."""
    await world.apply(template("a"), template("b"), flow("f", {"a": "", "b": "a"}))
    async with world.controller():
        await world.until_jobs(f_a="")
        await world.until("f", lambda flow: "f-a" in (flow.status.conditions or {}))
    async with follower(world) as replica:
        replica.client.answered.clear()
        await set_phase(world.client, "f-a", "Completed")
        await world.client.delete(JOBS, NAMESPACE, "f-a")
        async with replica.leading(), world.ends():
            await until_leading(world, replica)
            assert world.count("POST", JOBS) == 1
            replica.client.deliver_events()
            done = await world.ended("f")
    assert done.status.state.phase == "Succeed"
    assert world.count("POST", JOBS) == 2


async def test_each_kind_is_listed_once_despite_first_refusals(world: Cluster) -> None:
    await world.apply(template("a"), flow("f", {"a": ""}))
    async with follower(world) as replica:
        replica.client.answered.clear()
        initializing = failure(429, "TooManyRequests", "storage is (re)initializing")
        world.fails("GET", JOBTEMPLATES.path(), initializing)
        async with replica.leading():
            await world.until_jobs(f_a="")
        paths = [resource.path() for resource in (JOBFLOWS, JOBTEMPLATES, JOBS)]
        lists = [(path, query) for path, query in replica.client.answered if path in paths]
        read = [path for path, query in lists if "limit" in query]
        assert sorted(read) == sorted(paths)
        assert all("resourceVersion" not in query for _, query in lists)


async def test_one_list_reads_many_changes(world: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector, "READ_ONE_BY_ONE", 3)
    async with follower(world) as replica:
        names = [f"t{number}" for number in range(5)]
        await world.apply(*(template(name) for name in names))
        world.server.requests.clear()
        await replica.feeds.templates.catch_up()
        assert set(replica.store.templates_in(NAMESPACE)) == set(names)
        asked = [seen for seen in world.server.requests if seen.method == "GET"]
        assert len(asked) == 2


async def test_a_term_that_ends_before_the_first_read_does_nothing(world: Cluster) -> None:
    ending = asyncio.Event()
    ending.set()
    store = Store()
    await lead(world.client, ending, store=store, feeds=feeds(store, world.client))
    assert not [seen for seen in world.server.requests if seen.method != "GET"]


async def test_a_new_leader_reads_the_pods_of_ended_jobs(world: Cluster) -> None:
    """Its watches show neither, but the outputs are not lost."""
    await world.apply(template("a"), flow("f", {"a": ""}))
    async with world.controller():
        await world.until_jobs(f_a="")
        await world.until("f", lambda flow: "f-a" in (flow.status.conditions or {}))
    async with follower(world) as replica:
        job = await world.client.get(JOBS, NAMESPACE, "f-a", Job)
        name = await make_pod(world.client, job.metadata)
        await end_pod(world.client, NAMESPACE, name, message="by the way")
        await set_phase(world.client, "f-a", "Completed")
        async with replica.leading():
            done = await world.ended("f")
    assert (done.status.conditions or {})["f-a"].outputs == {"text": "by the way"}


async def until_leading(world: Cluster, replica: FollowingReplica[Hearing]) -> None:
    """Wait until the replica leads, and for requests that it must not send."""
    await replica.client.until_listed(JOBS.path())
    await asyncio.sleep(0.2)


async def test_a_new_leader_continues_a_repeat(world: Cluster) -> None:
    steps = [{"name": "a", "repeat": {"until": "index == 1", "max": 5}}]
    await world.apply(template("a"), flow("f", {}, flows=steps))
    async with follower(world) as replica:
        async with world.controller():
            await world.until_jobs(f_a_0="")
            await set_phase(world.client, "f-a-0", "Completed")
            await world.until_jobs(f_a_1="")
            await world.until("f", lambda flow: len(runs_of(flow)) == 2)
        replica.client.answered.clear()
        async with replica.leading():
            await until_leading(world, replica)
            await set_phase(world.client, "f-a-1", "Completed")
            replica.client.deliver_events()
            done = await world.ended("f")
    assert done.status.state.phase == "Succeed"
    assert [run.phase for run in runs_of(done)] == ["Completed", "Completed"]
    assert world.count("POST", JOBS) == 2


async def test_a_new_leader_keeps_the_delay_between_two_attempts(world: Cluster) -> None:
    steps = [{"name": "a", "retry": {"limit": 1, "backoff": {"duration": "1h", "max": "1h"}}}]
    await world.apply(template("a"), flow("f", {}, flows=steps))
    async with follower(world) as replica:
        async with world.controller():
            await world.until_jobs(f_a="")
            await set_phase(world.client, "f-a", "Failed")
            before = await world.until("f", lambda flow: reason_of(flow, "f-a") == "Retrying")
        replica.client.answered.clear()
        async with replica.leading():
            await until_leading(world, replica)
            replica.client.deliver_events()
            await asyncio.sleep(0.1)
    after = await world.flow("f")
    assert after.status.conditions == before.status.conditions
    assert world.count("POST", JOBS) == 1


async def test_a_suspended_flow_stays_suspended(world: Cluster) -> None:
    steps = {"a": "", "b": "a"}
    await world.apply(template("a"), template("b"), flow("f", steps))
    async with follower(world) as replica:
        async with world.controller():
            await world.until_jobs(f_a="")
            await world.order("SuspendFlow")
            await world.until("f", lambda flow: flow.status.suspended_at is not None)
        await set_phase(world.client, "f-a", "Completed")
        async with replica.leading():
            done = await world.until("f", lambda flow: reason_of(flow, "f-b") == "Suspended")
    assert (done.status.conditions or {})["f-a"].phase == "Completed"
    assert world.count("POST", JOBS) == 1


def runs_of(flow: JobFlow) -> list[RunCondition]:
    condition = (flow.status.conditions or {}).get("f-a")
    return (condition.runs if condition is not None else None) or []


def reason_of(flow: JobFlow, key: str) -> str:
    condition = (flow.status.conditions or {}).get(key)
    return condition.reason if condition is not None else ""
