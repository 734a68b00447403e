"""Pods that the store keeps, their jobs, and the fields that it keeps."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.volcano.job import Job
from jobflow.api.volcano.pod import Pod
from jobflow.store import Store, slim_job, slim_pod
from jobflow.store.pods import recorded_ends

LABELS = {"volcano.sh/job-name": "j", "volcano.sh/task-spec": "worker"}


class World:
    def __init__(self) -> None:
        self.store = Store()
        self.version = 0

    def meta(self, name: str, uid: str = "", **more: Any) -> dict[str, Any]:
        self.version += 1
        meta = {"name": name, "namespace": "ns", "uid": uid or f"uid-{name}"}
        return {**meta, "resourceVersion": str(self.version), **more}

    def flow(self, **status: Any) -> JobFlow:
        flow = msgspec.convert({"metadata": self.meta("f"), "status": status}, JobFlow)
        self.store.flows.changed(flow)
        return flow

    def record_end(self, phase: str = "Completed") -> None:
        """Record the end of `j` in the status of the flow."""
        self.flow(jobStatusList=[{"name": "j", "state": phase}])

    def job(self, phase: str = "", kind: str = "JobFlow", uid: str = "uid-j") -> Job:
        owner = {"kind": kind, "name": "f", "uid": "uid-f", "controller": True}
        meta = self.meta("j", uid, ownerReferences=[owner])
        job = msgspec.convert({"metadata": meta, "status": {"state": {"phase": phase}}}, Job)
        self.store.jobs.changed(job)
        return job

    def pod(self, name: str = "j-worker-0", job: str = "uid-j", **status: Any) -> Pod:
        pod = a_pod(self.meta(name), job, **status)
        self.store.pods.cache.changed(pod)
        return pod

    @property
    def kept(self) -> set[str]:
        """Names of the pods in the copy, which the index also has."""
        names = {pod.metadata.name for pod in self.store.pods.cache}
        assert names == set(self.store.pods.of("uid-j"))
        return names


def a_pod(meta: dict[str, Any], job: str, **status: Any) -> Pod:
    owner = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "name": "j",
        "uid": job,
        "controller": True,
    }
    meta = {"labels": LABELS, **meta, "ownerReferences": [owner] if job else []}
    return msgspec.convert({"metadata": meta, "status": status}, Pod)


@pytest.fixture
async def world() -> World:
    return World()


async def test_pods_are_found_by_the_uid_of_their_vcjob(world: World) -> None:
    world.flow()
    world.job("Running")
    world.pod("j-worker-0", phase="Running")
    world.pod("j-worker-1")
    pods = world.store.pods.of("uid-j")
    assert {name: pod.phase for name, pod in pods.items()} == {
        "j-worker-0": "Running",
        "j-worker-1": "Pending",
    }
    assert world.store.pods.of("other") == {}
    world.store.pods.cache.deleted(world.pod("j-worker-1"))
    assert world.kept == {"j-worker-0"}


async def test_a_pod_without_a_vcjob_of_a_flow_is_not_kept(world: World) -> None:
    world.pod(job="")
    world.job("Running", kind="CronJob")
    world.pod()
    assert world.kept == set()


async def test_a_pod_is_kept_until_its_vcjob_is_known(world: World) -> None:
    world.pod()
    assert world.kept == {"j-worker-0"}
    world.job(kind="CronJob")
    assert world.kept == set()


async def test_pods_are_kept_until_the_status_has_the_end_of_their_vcjob(world: World) -> None:
    world.flow()
    world.job("Running")
    world.pod(phase="Running")
    world.job("Completed")
    world.pod(phase="Succeeded")
    world.record_end("Running")
    assert world.kept == {"j-worker-0"}
    world.record_end()
    assert world.kept == set()
    world.pod(phase="Succeeded")
    assert world.kept == set(), "what comes late is not kept either"


@pytest.mark.parametrize("order", ["fjp", "fpj", "jfp", "jpf", "pfj", "pjf"])
async def test_the_order_of_lists_does_not_matter(world: World, order: str) -> None:
    reported: dict[str, Callable[[], object]] = {
        "f": world.record_end,
        "j": lambda: world.job("Completed"),
        "p": world.pod,
    }
    for letter in order:
        reported[letter]()
    assert world.kept == set()


async def test_pods_of_an_ended_flow_are_dropped_after_their_vcjobs_end(world: World) -> None:
    world.flow()
    world.job("Completed")
    world.pod()
    world.flow(state={"phase": "Failed"})
    assert world.kept == set()


async def test_pods_of_an_older_vcjob_with_the_same_name_are_separate(world: World) -> None:
    world.flow()
    world.job(uid="second")
    world.pod("j-worker-0", job="first")
    world.pod("j-worker-1", job="second")
    assert set(world.store.pods.of("first")) == {"j-worker-0"}
    assert set(world.store.pods.of("second")) == {"j-worker-1"}


async def test_a_list_without_a_pod_removes_it(world: World) -> None:
    world.flow()
    world.job("Running")
    pod = world.pod()
    world.store.pods.cache.replace([], pod.metadata.resource_version)
    assert world.kept == set()


async def test_pods_of_an_ended_vcjob_are_dropped_with_its_flow(world: World) -> None:
    flow = world.flow()
    job = world.job("Completed")
    pod = world.pod()
    world.store.flows.deleted(flow)
    world.store.jobs.deleted(job)
    world.store.pods.cache.deleted(pod)
    assert world.kept == set()
    assert world.store.pods._closing == {}


async def test_a_store_without_pods_is_synced_without_them() -> None:
    store = Store(pods=False)
    store.flows.replace([], "1")
    store.templates.replace([], "1")
    store.jobs.replace([], "1")
    store.queues.absent()
    store.crons.absent()
    assert not store.synced.is_set()
    store.commands.absent()
    assert store.synced.is_set()


async def test_a_slim_pod_keeps_the_fields_that_are_read() -> None:
    ended = {"exitCode": 0, "reason": "Completed", "message": '{"acc": 1}'}
    status = {
        "phase": "Succeeded",
        "podIP": "10.0.0.7",
        "containerStatuses": [{"name": "main", "state": {"terminated": ended}}, {"name": "side"}],
    }
    meta = {
        "name": "j-worker-0",
        "namespace": "ns",
        "uid": "u",
        "resourceVersion": "5",
        "annotations": {"huge": "x" * 1000},
        "labels": LABELS | {"volcano.sh/task-index": "0", "app": "strange"},
    }
    original = a_pod(meta, "uid-j", **status)
    slim = slim_pod(original)
    assert slim.status == original.status
    assert (slim.owner, slim.task, slim.index) == ("uid-j", "worker", 0)
    assert slim.metadata.labels == {"volcano.sh/task-spec": "worker", "volcano.sh/task-index": "0"}
    assert slim.metadata.annotations is None


async def test_a_slim_pod_keeps_a_task_that_only_an_annotation_names() -> None:
    meta = {"name": "j-ps-3", "labels": {}, "annotations": {"volcano.sh/task-spec": "ps"}}
    slim = slim_pod(a_pod(meta, "uid-j"))
    assert (slim.task, slim.index) == ("ps", 3)


@pytest.mark.parametrize(("index", "code", "text"), [(0, 0, "said"), (1, 0, ""), (1, 3, "said")])
async def test_only_messages_that_can_be_outputs_are_kept(index: int, code: int, text: str) -> None:
    state = {"terminated": {"exitCode": code, "message": "said"}}
    pod = a_pod({"name": f"j-w-{index}"}, "uid-j", containerStatuses=[{"state": state}])
    [container] = slim_pod(pod).status.container_statuses or []
    assert container.state.terminated is not None
    assert container.state.terminated.message == text


async def test_equal_outlines_are_one_object() -> None:
    def job(replicas: int) -> Job:
        resources = {"requests": {"cpu": "500m", "memory": 10**30}}
        spec = {"template": {"spec": {"containers": [{"resources": resources}]}}}
        return msgspec.convert({"spec": {"tasks": [{"replicas": replicas, **spec}]}}, Job)

    slim = slim_job(job(1))
    assert slim.spec == job(1).spec
    assert slim_job(job(1)).spec is slim.spec
    assert slim_job(job(2)).spec != slim.spec


def gone(world: World, name: str, **status: Any) -> None:
    """Delete a pod after this last status."""
    last = world.pod(name, **status)
    world.store.pods.cache.deleted(a_pod({**world.meta(name)}, last.owner, **status))


async def test_the_last_status_of_a_deleted_first_pod_stays_until_the_end_is_recorded(
    world: World,
) -> None:
    world.flow()
    world.job("Aborting")
    gone(world, "j-worker-0", phase="Failed")
    world.pod("j-worker-0", phase="Running")
    assert not world.store.pods.gone_of("uid-j"), "there is a new one"
    gone(world, "j-worker-0", phase="Failed")
    world.job("Aborted")
    assert set(world.store.pods.gone_of("uid-j")) == {"j-worker-0"}
    world.record_end("Aborted")
    assert not world.store.pods.gone_of("uid-j")


async def test_a_pod_that_is_deleted_while_it_runs_leaves_nothing(world: World) -> None:
    world.flow()
    world.job("Running")
    gone(world, "j-worker-0", phase="Running")
    assert not world.store.pods.gone_of("uid-j")


async def test_the_end_of_a_job_whose_name_was_dropped_is_that_of_the_last_attempt(
    world: World,
) -> None:
    """A status that is too large has no names of jobs that follow from the attempt."""
    again = {"phase": "Completed", "attempts": 2}
    conditions = {"a": {**again, "attempts": 3}, "b": {"runs": [{**again, "index": 1}]}}
    ended = recorded_ends(world.flow(conditions=conditions))
    assert {"a-r2", "b-1-r1"} < ended and "a-r1" not in ended


async def test_nothing_of_a_deleted_job_is_kept(world: World) -> None:
    world.flow()
    job = world.job("Aborting")
    gone(world, "j-worker-0", phase="Failed")
    world.store.jobs.deleted(job)
    assert not world.store.pods.gone_of("uid-j")
