"""`jobDependsOnList` of templates: its content and the number of writes."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from jobflow.api.flow.jobflow import JobTemplate
from jobflow.api.resources import JOBTEMPLATES
from jobflow.api.volcano.job import Job
from jobflow.controller.template_status import (
    MAX_NAMES,
    REST_SECONDS,
    SETTLE_SECONDS,
    TemplateStatuses,
)
from jobflow.kube.cache import version_of
from jobflow.sandbox.apiserver.requests.failures import failure
from jobflow.store import Store
from jobflow.webhook.configuration import webhook_configuration
from support.sandbox.running_controller import NAMESPACE, Cluster, cluster, template

KEY = (NAMESPACE, "t")


class World:
    """A template `t` on a server, vcjobs in a store, and a clock that the test moves."""

    def __init__(self, servers: Cluster, subject: JobTemplate) -> None:
        self.servers = servers
        self.now = 0.0
        self.version = version_of(subject.metadata.resource_version)
        self.store = Store()
        self.store.templates.replace([subject], subject.metadata.resource_version)
        self.lists = self.leader()

    def leader(self) -> TemplateStatuses:
        statuses = TemplateStatuses(self.servers.client, self.store, clock=lambda: self.now)
        self.store.listeners.append(statuses)
        return statuses

    def job(self, name: str, second: int = 0, *, annotated: bool = True) -> Job:
        """A job from `t`, created in this second of the hour."""
        self.version += 1
        source = {"volcano.sh/createdByJobTemplate": f"{NAMESPACE}.t"}
        meta: dict[str, Any] = {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"uid-{name}",
            "resourceVersion": str(self.version),
            "creationTimestamp": f"2026-01-01T00:{second // 60:02}:{second % 60:02}Z",
            "annotations" if annotated else "labels": source,
        }
        job = msgspec.convert({"metadata": meta}, Job)
        self.store.jobs.changed(job)
        return job

    async def wait(self, seconds: float) -> int:
        """Let time pass and run due work; return the number of writes."""
        before = self.writes
        self.now += seconds
        self.lists._due.release()
        running = asyncio.create_task(self.lists.run())
        while self.lists._due._ready or self.lists._due._working:  # noqa: ASYNC110
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return self.writes - before

    @property
    def writes(self) -> int:
        return self.servers.count("PATCH", JOBTEMPLATES, subresource="status")

    async def names(self) -> list[str] | None:
        stored = await self.servers.client.get(JOBTEMPLATES, *KEY, JobTemplate)
        return stored.status.job_depends_on_list


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with cluster() as servers:
        await servers.apply(template("t"))
        world = World(servers, await servers.client.get(JOBTEMPLATES, *KEY, JobTemplate))
        yield world
        world.lists.stop()


async def test_a_burst_of_jobs_causes_one_write_with_the_newest_first(world: World) -> None:
    for second in range(5):
        world.job(f"j{second}", second)
    assert await world.wait(SETTLE_SECONDS / 2) == 0
    assert await world.wait(SETTLE_SECONDS / 2) == 1
    assert await world.names() == ["j4", "j3", "j2", "j1", "j0"]


async def test_no_write_follows_another_within_the_rest_time(world: World) -> None:
    world.job("first", 1)
    assert await world.wait(SETTLE_SECONDS) == 1
    world.job("second", 2)
    assert await world.wait(REST_SECONDS - 1) == 0
    assert await world.wait(1) == 1
    assert await world.names() == ["second", "first"]
    assert await world.wait(REST_SECONDS) == 0
    assert await world.wait(REST_SECONDS) == 0


async def test_only_the_newest_hundred_jobs_are_listed(world: World) -> None:
    for second in range(MAX_NAMES + 30):
        world.job(f"j{second}", second)
    await world.wait(SETTLE_SECONDS)
    assert await world.names() == [f"j{second}" for second in reversed(range(30, MAX_NAMES + 30))]


async def test_deleted_jobs_leave_the_list_and_an_empty_list_is_omitted(world: World) -> None:
    job = world.job("j")
    await world.wait(SETTLE_SECONDS)
    world.store.jobs.deleted(job)
    assert await world.wait(REST_SECONDS) == 1
    assert await world.names() is None


async def test_jobs_of_volcano_name_their_template_in_a_label(world: World) -> None:
    world.job("j", annotated=False)
    await world.wait(SETTLE_SECONDS)
    assert await world.names() == ["j"]


async def test_changes_of_an_existing_job_are_ignored(world: World) -> None:
    world.job("j", 5)
    await world.wait(SETTLE_SECONDS)
    await world.wait(REST_SECONDS)
    world.job("j", 5)
    assert len(world.lists._due._due) == 0


async def test_a_new_leader_writes_only_incorrect_lists(world: World) -> None:
    world.job("j")
    await world.wait(SETTLE_SECONDS)
    world.store.listeners.remove(world.lists)
    world.lists.stop()
    world.lists = world.leader()
    world.lists.all_templates()
    assert await world.wait(SETTLE_SECONDS) == 0
    world.job("k", 1)
    assert await world.wait(SETTLE_SECONDS) == 1


async def test_a_template_that_is_created_after_its_jobs_gets_its_list(world: World) -> None:
    world.job("j")
    found = world.store.templates.get(*KEY)
    assert found is not None
    world.store.templates.deleted(found)
    assert await world.wait(SETTLE_SECONDS) == 0
    world.version += 1
    meta = msgspec.structs.replace(found.metadata, resource_version=str(world.version))
    world.store.templates.changed(msgspec.structs.replace(found, metadata=meta))
    assert await world.wait(SETTLE_SECONDS) == 1


@pytest.mark.parametrize("code", [403, 404, 409, 500])
async def test_a_failed_write_is_retried_after_the_rest_time(world: World, code: int) -> None:
    world.servers.fails("PATCH", "", failure(code, "", "no"))
    world.job("j")
    assert await world.wait(SETTLE_SECONDS) == 0
    assert await world.wait(REST_SECONDS) == 1
    assert await world.names() == ["j"]


async def test_a_list_changes_no_generation_and_no_webhook_reviews_it(world: World) -> None:
    before = world.store.templates.get(*KEY)
    world.job("j")
    await world.wait(SETTLE_SECONDS)
    after = world.store.templates.get(*KEY)
    assert before is not None and after is not None
    assert after.metadata.generation == before.metadata.generation
    reviewed = {
        resource
        for webhook in webhook_configuration("https://x", b"")["webhooks"]
        for rule in webhook["rules"]
        for resource in rule["resources"]
    }
    assert reviewed == {"jobflows", "jobtemplates", "cronjobflows"}
