"""Indexes of the store: users of templates, jobs of flows, ends of deleted jobs."""

from typing import Any

import msgspec
import pytest

from jobflow.api.flow.cronjobflow import CronJobFlow
from jobflow.api.flow.jobflow import JobFlow, JobTemplate
from jobflow.api.volcano.job import Job
from jobflow.store import Queue, Store


class World:
    def __init__(self) -> None:
        self.store = Store()
        self.version = 0

    def meta(self, name: str, **more: Any) -> dict[str, Any]:
        self.version += 1
        meta = {"name": name, "namespace": "ns", "uid": f"uid-{name}"}
        return {**meta, "resourceVersion": str(self.version), **more}

    def flow(self, name: str, *templates: str, **status: Any) -> JobFlow:
        steps = [{"name": f"s{i}", "template": word} for i, word in enumerate(templates)]
        manifest = {"metadata": self.meta(name), "spec": {"flows": steps}, "status": status}
        flow = msgspec.convert(manifest, JobFlow)
        self.store.flows.changed(flow)
        return flow

    def job(
        self, name: str, flow: str, phase: str = "", kind: str = "JobFlow", **status: Any
    ) -> Job:
        owner = {"kind": kind, "name": flow, "uid": f"uid-{flow}", "controller": True}
        meta = self.meta(name, ownerReferences=[owner])
        job = msgspec.convert(
            {"metadata": meta, "status": {"state": {"phase": phase}} | status}, Job
        )
        self.store.jobs.changed(job)
        return job

    def users(self, template: str) -> list[str]:
        return [flow.metadata.name for flow in self.store.flows_using("ns", template)]


@pytest.fixture
async def world() -> World:
    return World()


async def test_a_flow_may_have_taken_claims_once_it_is_bound_to_another_one(world: World) -> None:
    def changed(status: dict[str, Any], **spec: Any) -> list[str]:
        manifest = {"metadata": world.meta("new"), "spec": spec, "status": status}
        world.store.flows.changed(msgspec.convert(manifest, JobFlow))
        return [flow.metadata.name for flow in world.store.claim_takers("ns")]

    claims, bound = {"data": {}}, {"reuse": {"flow": "old", "uid": "1"}}
    assert changed({}, volumeClaims=claims) == []
    assert changed(bound) == []
    assert changed(bound, volumeClaims=claims) == ["new"]
    assert [*world.store.claim_takers("other")] == []
    world.store.flows.deleted(msgspec.convert({"metadata": world.meta("new")}, JobFlow))
    assert [*world.store.claim_takers("ns")] == []


async def test_a_flow_reuses_another_one_until_it_ends(world: World) -> None:
    def reusing(phase: str, *, kept: str = "", bound: str = "") -> JobFlow:
        reuse = {"flow": "old"} | ({"uid": kept} if kept else {})
        status = {"reuse": {"flow": "old", "uid": bound}} if bound else {}
        manifest = {
            "metadata": world.meta("new"),
            "spec": {"reuse": reuse},
            "status": {"state": {"phase": phase}} | status,
        }
        return msgspec.convert(manifest, JobFlow)

    old, flows = world.flow("old"), world.store.flows
    flows.changed(reusing(""))
    assert world.store.reused_by(old) == ["new"]
    for of_another in (reusing("", kept="uid-x"), reusing("Running", bound="uid-x")):
        flows.changed(of_another)
        assert world.store.reused_by(old) == []
    flows.changed(reusing("Running", bound="uid-old"))
    assert world.store.reused_by(old) == ["new"]
    assert world.store.reused_by(world.flow("new")) == []
    flows.changed(reusing("Running", kept="uid-old"))
    flows.changed(reusing("Failed", kept="uid-old"))
    assert world.store.reused_by(old) == []
    for last in ("", "Failed"):  # it may have ended just before it was deleted
        flows.changed(reusing(""))
        flows.deleted(reusing(last))
        assert world.store.reused_by(old) == []


async def test_the_flows_of_a_template_change_with_their_specs(world: World) -> None:
    world.flow("f", "t", "u")
    world.flow("g", "t")
    assert (world.users("t"), world.users("u")) == (["f", "g"], ["f"])
    last = world.flow("f", "u")
    assert (world.users("t"), world.users("u")) == (["g"], ["f"])
    world.store.flows.deleted(last)
    assert world.users("u") == []
    assert world.store.flows_using("other", "t") == []


async def test_a_flow_uses_the_templates_of_steps_cases_and_finally(world: World) -> None:
    cases = [{"when": "true", "template": "big"}, {"template": "small"}, {}]
    steps = [{"name": "a", "switch": cases}, {"name": "b", "template": "t"}]
    last = [{"name": "c", "switch": cases[:1]}, {"name": "d"}]
    spec = {"flows": steps, "finally": last}
    flow = msgspec.convert({"metadata": world.meta("f"), "spec": spec}, JobFlow)
    world.store.flows.changed(flow)
    assert flow.templates == ["big", "small", "a", "t", "d"]
    assert all(world.users(name) == ["f"] for name in flow.templates)
    world.store.flows.deleted(flow)
    assert not any(world.users(name) for name in flow.templates)


async def test_a_recreated_flow_uses_the_templates_of_its_own_spec(world: World) -> None:
    for name, uid in (("t", "uid-1"), ("u", "uid-2")):
        meta = world.meta("f", generation=1, uid=uid)
        manifest = {"metadata": meta, "spec": {"flows": [{"name": "a", "template": name}]}}
        world.store.flows.changed(msgspec.convert(manifest, JobFlow))
    assert (world.users("t"), world.users("u")) == ([], ["f"])


async def test_jobs_are_found_by_their_flow(world: World) -> None:
    world.flow("f")
    world.job("j", "f")
    world.job("k", "f", "Running")
    world.job("other", "g")
    world.job("foreign", "f", kind="CronJob")
    assert world.store.jobs_of("uid-f").keys() == {"j", "k"}
    assert world.store.deleted_of("uid-f") == frozenset()


@pytest.mark.parametrize(
    "status",
    [
        {"jobStatusList": [{"name": "j", "state": "Completed"}]},
        {"conditions": {"f-a": {"job": "j", "phase": "Completed"}}},
    ],
    ids=lambda status: next(iter(status)),
)
async def test_the_end_of_a_deleted_job_is_kept(world: World, status: dict[str, Any]) -> None:
    world.flow("f")
    world.store.jobs.deleted(world.job("j", "f", "Completed"))
    assert world.store.jobs_of("uid-f")["j"].phase == "Completed"
    assert world.store.deleted_of("uid-f") == {"j"}
    world.flow("f", jobStatusList=[{"name": "j", "state": "Running"}])
    assert world.store.deleted_of("uid-f") == {"j"}
    world.flow("f", **status)
    assert world.store.jobs_of("uid-f") == {}


async def test_the_recorded_end_of_a_run_counts_too(world: World) -> None:
    world.flow("f")
    for name in ("f-a-0", "f-a-1", "f-a-2"):
        world.store.jobs.deleted(world.job(name, "f", "Completed"))
    runs = [
        {"index": 0, "phase": "Completed", "attempts": 1},
        {"index": 1, "phase": "Failed", "job": "f-a-1-r1", "attempts": 2},
        {"index": 2, "phase": "Running", "job": "f-a-2", "attempts": 1},
    ]
    world.flow("f", conditions={"f-a": {"phase": "Completed", "attempts": 4, "runs": runs}})
    assert world.store.deleted_of("uid-f") == {"f-a-1", "f-a-2"}


async def test_a_deleted_run_is_kept_until_the_status_has_it(world: World) -> None:
    world.flow("f")
    world.store.jobs.deleted(world.job("f-a-0", "f", "Running"))
    world.flow("f", conditions={"f-a": {"phase": "Running", "attempts": 1, "runs": []}})
    assert world.store.deleted_of("uid-f") == {"f-a-0"}
    run = {"index": 0, "phase": "Running", "attempts": 1}
    world.flow("f", conditions={"f-a": {"phase": "Running", "attempts": 1, "runs": [run]}})
    assert world.store.deleted_of("uid-f") == frozenset()


async def test_a_deletion_counts_as_the_end_of_an_ended_job(world: World) -> None:
    world.flow("f")
    running = world.job("j", "f", "Running")
    ended = msgspec.structs.replace(
        running,
        metadata=msgspec.structs.replace(running.metadata, resource_version="99"),
        status=msgspec.convert({"state": {"phase": "Completed"}}, type(running.status)),
    )
    world.store.jobs.deleted(ended)
    assert world.store.deleted_of("uid-f") == {"j"}


async def test_a_job_that_is_deleted_while_it_runs_is_kept(world: World) -> None:
    world.flow("f")
    world.store.jobs.deleted(world.job("j", "f", "Running"))
    assert world.store.deleted_of("uid-f") == {"j"}
    world.flow("f", conditions={"f-a": {"job": "j", "phase": "Waiting"}})
    assert world.store.jobs_of("uid-f") == {}


async def test_kept_jobs_are_dropped_with_their_flow(world: World) -> None:
    flow = world.flow("f")
    world.store.jobs.deleted(world.job("j", "f", "Completed"))
    world.version += 1
    world.store.flows.deleted(flow)
    assert world.store.jobs_of("uid-f") == {}
    world.store.jobs.deleted(world.job("k", "f", "Completed"))
    assert world.store.jobs_of("uid-f") == {}


async def test_the_last_counts_of_a_job_are_kept_after_its_end_and_deletion(world: World) -> None:
    world.flow("f")
    failed = {"main": {"phase": {"Failed": 1}}}
    world.job("j", "f", "Running", taskStatusCount={"main": {"phase": {"Running": 1}}})
    world.job("j", "f", "Failed", taskStatusCount=failed)
    world.job("j", "f", "Failed")
    last = world.job("j", "f", "Failed", runningDuration="3s")

    def counts() -> Any:
        (job,) = world.store.jobs_of("uid-f").values()
        assert (job.phase, job.status.running_duration) == ("Failed", "3s")
        return msgspec.to_builtins(job.status.task_status_count)

    assert counts() == failed
    world.store.jobs.deleted(last)
    assert world.store.deleted_of("uid-f") == {"j"}
    assert counts() == failed


async def test_counts_of_another_job_with_the_same_name_are_ignored(world: World) -> None:
    world.flow("f")
    world.job("j", "f", "Running", taskStatusCount={"main": {"phase": {"Running": 1}}})
    owner = {"kind": "JobFlow", "name": "f", "uid": "uid-f", "controller": True}
    meta = world.meta("j", ownerReferences=[owner]) | {"uid": "another"}
    world.store.jobs.changed(msgspec.convert({"metadata": meta}, Job))
    assert world.store.jobs_of("uid-f")["j"].status.task_status_count is None


async def test_a_recreated_job_is_the_live_one(world: World) -> None:
    world.flow("f")
    world.store.jobs.deleted(world.job("j", "f", "Completed"))
    world.job("j", "f", "Running")
    assert world.store.jobs_of("uid-f")["j"].phase == "Running"
    assert world.store.deleted_of("uid-f") == frozenset()


async def test_a_job_can_change_its_owner(world: World) -> None:
    world.flow("f")
    world.job("j", "g")
    world.job("j", "f")
    assert world.store.jobs_of("uid-g") == {}
    assert world.store.jobs_of("uid-f").keys() == {"j"}


async def test_templates_are_found_by_namespace(world: World) -> None:
    template = msgspec.convert({"metadata": world.meta("t")}, JobTemplate)
    world.store.templates.changed(template)
    assert world.store.templates_in("ns") == {"t": template}
    assert world.store.templates.get("ns", "t") == template
    world.store.templates.deleted(template)
    assert world.store.templates_in("ns") == {}


async def test_queues_are_known_only_if_they_are_served(world: World) -> None:
    store = world.store
    assert store.queue_states() is None
    queue = {"metadata": {"name": "default", "resourceVersion": "1"}, "status": {"state": "Open"}}
    store.queues.replace([msgspec.convert(queue, Queue)], "1")
    assert store.queue_states() == {"default": "Open"}
    store.queues.absent()
    assert store.queue_states() is None


async def test_the_store_is_synced_when_every_kind_was_listed(world: World) -> None:
    store = world.store
    for cache in (store.flows, store.templates, store.jobs):
        assert not store.synced.is_set()
        cache.replace([], "1")
    others = (store.queues, store.commands, store.pods.cache, store.crons)
    for absent in (cache.absent for cache in others):
        assert not store.synced.is_set()
        absent()
    assert store.synced.is_set()
    await store.synced.wait()


async def test_a_slim_job_keeps_the_fields_that_are_read(world: World) -> None:
    labels = {"flow.volcano.sh/attempt": "2", "team": "x"}
    owner = {"kind": "JobFlow", "name": "f", "uid": "uid-f", "controller": True}
    meta = world.meta("j", labels=labels, ownerReferences=[owner], annotations={"note": "y"})
    conditions = [{"status": "Pending", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    status = {"state": {"phase": "Running"}, "conditions": conditions, "runningDuration": "3s"}
    original = msgspec.convert({"metadata": meta, "status": status}, Job)
    world.store.jobs.changed(original)
    slim = world.store.jobs_of("uid-f")["j"]
    assert slim.status == original.status
    assert slim.metadata.labels == {"flow.volcano.sh/attempt": "2"}
    assert slim.metadata.annotations is None
    assert slim.metadata.owner_references == original.metadata.owner_references


@pytest.mark.parametrize(
    ("other", "counts"),
    [({}, True), ({"kind": "Job"}, False), ({"name": "d"}, False), ({"controller": False}, False)],
)
async def test_a_flow_belongs_to_a_cronjobflow_by_kind_name_and_uid(
    world: World, other: dict[str, Any], counts: bool
) -> None:
    owner = {"kind": "CronJobFlow", "name": "c", "uid": "uid-c", "controller": True} | other
    flow = {"metadata": world.meta("c-1", ownerReferences=[owner])}
    world.store.flows.changed(msgspec.convert(flow, JobFlow))
    cron = msgspec.convert({"metadata": world.meta("c")}, CronJobFlow)
    assert bool(world.store.flows_of(cron)) is counts


def test_all_copies_start_over_if_one_shows_that_the_server_went_back() -> None:
    """The list of jobs may only lack some, as if they had been deleted."""
    store = Store()
    store.flows.start_over([], "5")
    assert store.jobs.suspect and store.pods.cache.suspect and not store.flows.suspect
    store.started_over.clear()
    store.jobs.start_over([], "6")
    assert not (store.jobs.suspect or store.flows.suspect)
    assert store.started_over.is_set()
