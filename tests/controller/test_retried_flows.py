"""Retried flows: answers to creates from before the retry no longer count."""

from datetime import UTC, datetime

import pytest

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import JOBS
from jobflow.sandbox.apiserver.requests.failures import failure
from support.sandbox.running_controller import NAMESPACE, Cluster, flow, template


def count_creates(world: Cluster) -> int:
    path = JOBS.path(NAMESPACE)
    return sum(r.method == "POST" and r.path == path for r in world.server.requests)


async def until_failed(world: Cluster, reason: str) -> None:
    done = await world.ended("f")
    conditions = done.status.conditions or {}
    assert (conditions["f-a"].phase, conditions["f-a"].reason) == ("Failed", reason)


def succeeded(flow: JobFlow) -> bool:
    return flow.status.state.phase == "Succeed"


@pytest.mark.parametrize(
    "spec", [{}, {"forEach": {"count": 2}}, {"repeat": {"until": "true", "max": 2}}]
)
async def test_a_refused_create_is_sent_again(world: Cluster, spec: dict[str, object]) -> None:
    world.fails("POST", "/jobs", failure(422, "Refused", "not today"), times=2)
    manifest = flow("f", {"a": ""})
    manifest["spec"]["flows"][0] |= spec
    await world.apply(template("a"), manifest)
    async with world.ends(), world.controller():
        await until_failed(world, "Refused")
        before = count_creates(world)
        world.server.faults.clear()
        await world.order("RestartJob", name="restart")
        await world.until("f", succeeded)
    assert count_creates(world) > before


async def test_a_name_that_was_in_use_is_tried_again(world: Cluster) -> None:
    foreign_job = {**template("f-a"), "kind": "Job", "apiVersion": JOBS.api_version}
    await world.apply(template("a"), foreign_job, flow("f", {"a": ""}))
    async with world.ends({"f-a": ""}), world.controller():
        await until_failed(world, "NameConflict")
        before = count_creates(world)
        await world.order("RestartJob", name="restart")
        await world.until("f", lambda flow: flow.final and count_creates(world) > before)
        await until_failed(world, "NameConflict")
        assert count_creates(world) == before + 1
        await world.client.delete(JOBS, NAMESPACE, "f-a")
    async with world.ends(), world.controller():
        await world.order("RestartJob", name="restart")
        await world.until("f", succeeded)


async def test_a_retry_does_not_wait_for_an_earlier_backoff(world: Cluster) -> None:
    fault = world.fails("POST", "/jobs", failure(403, "Refused", "not today"), times=None)
    moment = datetime.now(UTC)
    await world.apply(template("a"), flow("f", {"a": ""}))
    async with world.ends(), world.controller(now=lambda: moment):
        await world.until("f", lambda f: f.status.state.reason == "CreateRefused")
        await world.order("TerminateJob")
        await world.ended("f")
        fault.times = 0
        await world.order("RestartJob", name="restart")
        await world.until("f", succeeded)
