"""The flow of a job: the one whose status has its UID, else its controller owner."""

from typing import Any

import msgspec
import pytest

from jobflow.api import labels
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.volcano.job import Job
from jobflow.store import Store
from jobflow.store.indexes import Owner

UID = "8d2f1ec4-5f7b-4a2e-9f57-0b5a3f1f7a10"
KNOWN = {"f-a": {"phase": "Running", "job": "f-a", "uid": "jS8exF97Si6fVwtaPx96EA", "attempts": 1}}
ENDED = {"f-a": {"phase": "Completed", "job": "f-a", "attempts": 1}}


class World:
    def __init__(self) -> None:
        self.store = Store()
        self.version = 0

    def meta(self, name: str, **more: Any) -> dict[str, Any]:
        self.version += 1
        meta = {"name": name, "namespace": "ns", "uid": f"uid-{name}"}
        return {**meta, "resourceVersion": str(self.version), **more}

    def flow(self, name: str = "f", **conditions: Any) -> None:
        manifest = {"metadata": self.meta(name), "status": {"conditions": conditions}}
        self.store.flows.changed(msgspec.convert(manifest, JobFlow))

    def job(self, owner: str = "", uid: str = UID, **more: Any) -> Job:
        reference = {"kind": "JobFlow", "name": owner, "uid": f"uid-{owner}", "controller": True}
        meta = self.meta("f-a", uid=uid, ownerReferences=[reference] if owner else None, **more)
        job = msgspec.convert({"metadata": meta}, Job)
        self.store.jobs.changed(job)
        return job

    def jobs(self, flow: str = "f") -> list[str]:
        return list(self.store.jobs_of(f"uid-{flow}"))


@pytest.fixture
async def world() -> World:
    return World()


@pytest.mark.parametrize("owner", ["", "g"])
async def test_a_job_of_a_known_uid_stays_with_its_flow(world: World, owner: str) -> None:
    world.job("f")
    world.flow(**KNOWN)
    world.job(owner)
    assert (world.jobs(), world.jobs("g")) == (["f-a"], [])


@pytest.mark.parametrize("owner", ["", "g"])
async def test_a_status_finds_a_job_that_is_not_its_own(world: World, owner: str) -> None:
    world.job(owner)
    world.flow(**KNOWN)
    assert (world.jobs(), world.jobs("g")) == (["f-a"], [])


async def test_a_job_goes_to_its_owner_once_the_status_has_its_end(world: World) -> None:
    world.flow(**KNOWN)
    world.job("g")
    world.flow(**ENDED)
    assert (world.jobs(), world.jobs("g")) == ([], ["f-a"])


async def test_a_job_without_an_owner_is_forgotten_with_its_flow(world: World) -> None:
    world.flow(**KNOWN)
    job = world.job()
    world.store.flows.deleted(msgspec.convert({"metadata": world.meta("f")}, JobFlow))
    assert world.jobs() == []
    world.store.jobs.deleted(job)
    assert world.jobs() == []


async def test_a_deleted_job_without_an_owner_keeps_its_end(world: World) -> None:
    world.flow(**KNOWN)
    job = world.job()
    ended = msgspec.convert({"state": {"phase": "Completed"}}, type(job.status))
    last = msgspec.structs.replace(
        job,
        status=ended,
        metadata=msgspec.structs.replace(job.metadata, resource_version="9"),
    )
    world.store.jobs.deleted(last)
    assert (world.jobs(), world.store.deleted_of("uid-f")) == (["f-a"], {"f-a"})


async def test_a_job_without_an_owner_belongs_to_the_flow_that_has_created_it(world: World) -> None:
    world.flow()
    created_by = {labels.CREATED_BY_FLOW: "ns.f", labels.FLOW_UID: "uid-f"}
    world.job("f", annotations=created_by)
    job = world.job(annotations=created_by)
    owner = world.store.owners.of(job)
    assert (world.jobs(), owner) == (["f-a"], Owner("f", "uid-f"))


async def test_another_controller_counts_before_the_flow_that_has_created_a_job(
    world: World,
) -> None:
    world.job("g", annotations={labels.FLOW_UID: "uid-f"})
    assert (world.jobs(), world.jobs("g")) == ([], ["f-a"])


async def test_a_flow_without_an_owner_is_nobodys_child(world: World) -> None:
    annotations = {labels.CREATED_BY_FLOW: "ns.f", labels.FLOW_UID: "uid-f"}
    manifest = {"metadata": world.meta("f-a", annotations=annotations)}
    world.store.flows.changed(msgspec.convert(manifest, JobFlow))
    assert world.jobs() == []


async def test_another_job_of_the_name_goes_to_its_owner(world: World) -> None:
    world.flow(**KNOWN)
    world.job("g", uid="another")
    assert (world.jobs(), world.jobs("g")) == ([], ["f-a"])
