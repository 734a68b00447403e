"""Live reads of a vcjob's pods: selection, retries and the lifetime of answers."""

import json
from datetime import timedelta
from random import Random
from typing import Any

import msgspec
import pytest

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import JOBS, PODS, ObjectMeta
from jobflow.api.volcano.job import Job
from jobflow.controller.apply.api_answers import Memory
from jobflow.controller.apply.requests import Applied
from jobflow.core.planning.actions import ReadPods
from jobflow.core.planning.observed.view import PodsRead
from jobflow.sandbox.apiserver.requests.failures import RequestFailure, failure
from support.sandbox.applier_world import NOW, World
from support.sandbox.running_controller import NAMESPACE

READ = ReadPods("f-a", "uid-a")


async def test_the_pods_of_a_job_are_read_by_label_and_owner(world: World) -> None:
    for name, uid in (("f-a-w-0", "uid-a"), ("f-a-w-1", "first-life-of-f-a")):
        await world.cluster.client.create(PODS, NAMESPACE, json.dumps(pod(name, uid)).encode())
    other = pod("g-a-w-0", "uid-a", job="g-a")
    await world.cluster.client.create(PODS, NAMESPACE, json.dumps(other).encode())
    assert await world.apply(READ) == Applied(again=True)
    found = world.answers.read["uid-a"]
    assert ([entry.metadata.name for entry in found.pods], found.trouble) == (["f-a-w-0"], "")


@pytest.mark.parametrize("code", [403, 404])
async def test_a_definite_answer_is_final(world: World, code: int) -> None:
    world.fails("GET", "/pods", failure(code, "", "x"), times=None)
    assert await world.apply(READ) == Applied(again=True)
    found = world.answers.read["uid-a"]
    assert (found.pods, found.retry_at) == ((), None)
    assert found.trouble.endswith("x")


@pytest.mark.parametrize(
    ("error", "waits"),
    [
        (failure(401, "Unauthorized", "x"), (0.4, 0.8, 1.6, 3.2)),
        (failure(429, "TooManyRequests", "x", retryAfterSeconds=2), (2, 2, 2, 3.2)),
        (failure(500, "", "x"), (0.4, 0.8, 1.6, 3.2)),
        (failure(503, "", "x"), (0.4, 0.8, 1.6, 3.2)),
        (None, (0.4, 0.8, 1.6, 3.2)),
    ],
)
async def test_a_failed_read_backs_off(
    world: World, error: RequestFailure | None, waits: tuple[float, ...]
) -> None:
    world.fails("GET", "/pods", error, times=None)
    for wait in waits:
        assert await world.apply(READ) == Applied(again=True)
        found = world.answers.read["uid-a"]
        assert found.trouble
        assert found.retry_at == NOW + timedelta(seconds=wait)
    world.cluster.server.faults.clear()
    await world.apply(READ)
    assert world.answers.read["uid-a"] == PodsRead()


def test_reads_for_a_thousand_jobs_are_retried_together() -> None:
    subject = JobFlow(metadata=ObjectMeta(name="f", namespace=NAMESPACE, uid="uid-f"))
    memory = Memory(dice=Random(1).random)
    rounds = {
        memory.unread(subject, f"uid-{number}", TimeoutError(), NOW).retry_at
        for number in range(1000)
    }
    assert len(rounds) <= 20
    assert NOW + timedelta(seconds=0.2) <= min(filter(None, rounds))
    assert max(filter(None, rounds)) <= NOW + timedelta(seconds=0.8)


async def test_pods_that_were_read_are_kept_while_the_job_has_ended(world: World) -> None:
    await world.apply(READ)
    answers = world.answers
    for phase, kept in (("Completed", True), ("Running", False)):
        status = {"state": {"phase": phase}}
        manifest = {"metadata": {"name": "f-a", "uid": "uid-a"}, "status": status}
        answers.outdate({"f-a": msgspec.convert(manifest, Job)})
        assert ("uid-a" in answers.read) == kept
    await world.apply(READ)
    answers.outdate({})
    assert answers.read == {}


def pod(name: str, owner: str, *, job: str = "f-a") -> dict[str, Any]:
    reference = {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "name": job,
        "uid": owner,
        "controller": True,
    }
    meta = {
        "name": name,
        "namespace": NAMESPACE,
        "labels": {"volcano.sh/job-name": job},
        "ownerReferences": [reference],
        "finalizers": ["test/hold"],
    }
    spec = {"containers": [{"name": "main", "image": "busybox"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
