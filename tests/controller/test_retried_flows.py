"""Retried flows: earlier answers to their creates no longer count."""

from datetime import UTC, datetime

import pytest

from jobflow.api.jobflow import JobFlow
from jobflow.api.resources import JOBS
from jobflow.sandbox.apiserver.requests.failures import failure
from support.sandbox.running_controller import NAMESPACE, Cluster, flow, template


def asked(world: Cluster) -> int:
    path = JOBS.path(NAMESPACE)
    return sum(r.method == "POST" and r.path == path for r in world.server.requests)


async def failed(world: Cluster, reason: str) -> None:
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
    made = flow("f", {"a": ""})
    made["spec"]["flows"][0] |= spec
    await world.apply(template("a"), made)
    async with world.ends(), world.controller():
        await failed(world, "Refused")
        before = asked(world)
        world.server.faults.clear()
        await world.order("RestartJob", name="restart")
        await world.until("f", succeeded)
    assert asked(world) > before


async def test_a_name_that_was_taken_is_asked_for_again(world: Cluster) -> None:
    stranger = {**template("f-a"), "kind": "Job", "apiVersion": JOBS.api_version}
    await world.apply(template("a"), stranger, flow("f", {"a": ""}))
    async with world.ends({"f-a": ""}), world.controller():
        await failed(world, "NameConflict")
        before = asked(world)
        await world.order("RestartJob", name="restart")
        await world.until("f", lambda flow: not flow.status.handled_commands and flow.final)
        await failed(world, "NameConflict")
        assert asked(world) == before + 1
        await world.client.delete(JOBS, NAMESPACE, "f-a")
    async with world.ends(), world.controller():
        await world.order("RestartJob", name="restart")
        await world.until("f", succeeded)


async def test_a_backoff_from_before_is_not_waited_for(world: Cluster) -> None:
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
