"""Flows that are reused stay as they are until the flow that reuses them has ended."""

import asyncio
from typing import Any

from jobflow.api.resources import CRONJOBFLOWS, JOBFLOWS
from support.sandbox.running_controller import Cluster, cron, flow, set_phase, template

AGAIN = flow("again", {"a": "", "b": "a"}, reuse={"flow": "f"})
AGAIN["spec"]["flows"][0]["reusePolicy"] = "Never"
LONG = 600.0
"""Simulated seconds after which nothing is due any more."""


async def names(world: Cluster) -> set[str]:
    return {each["metadata"]["name"] for each in await world.raw(JOBFLOWS)}


async def test_a_ttl_waits_for_the_flow_that_reuses_it(world: Cluster) -> None:
    first = flow("f", {"a": "", "b": "a"}, ttlSecondsAfterFinished=60)
    await world.apply(template("a"), template("b"), first)
    async with world.controller(), world.ends({"again-a": "Running"}):
        await world.ended("f")
        await world.apply(AGAIN)
        await asyncio.sleep(LONG)
        assert await names(world) == {"f", "again"}
        await set_phase(world.client, "again-a", "Completed")
        await world.ended("again")
        await asyncio.sleep(LONG)
        assert await names(world) == {"again"}


async def test_two_flows_at_once_take_the_same_results_and_both_keep_the_flow(
    world: Cluster,
) -> None:
    first = flow("f", {"a": "", "b": "a"}, ttlSecondsAfterFinished=60)
    copies = [flow(name, {"a": "", "b": "a", "c": "b"}, reuse={"flow": "f"}) for name in "gh"]
    await world.apply(*(template(name) for name in "abc"), first)
    async with world.controller(), world.ends({"g-c": "Running", "h-c": "Running"}):
        await world.ended("f")
        await asyncio.gather(*(world.apply(copy) for copy in copies))
        await world.until_jobs(g_c="Running", h_c="Running")
        assert set(await world.jobs()) == {"f-a", "f-b", "g-c", "h-c"}
        await set_phase(world.client, "g-c", "Completed")
        await world.ended("g")
        await asyncio.sleep(LONG)
        assert await names(world) == {"f", "g", "h"}
        await set_phase(world.client, "h-c", "Completed")
        await world.ended("h")
        await asyncio.sleep(LONG)
        assert await names(world) == {"g", "h"}


async def test_a_history_limit_waits_for_the_flow_that_reuses_it(world: Cluster) -> None:
    schedule = cron(schedule="0 0 1 1 *", suspend=True, successfulJobsHistoryLimit=1)
    await world.apply(template("a"), template("b"), schedule)
    (found,) = await world.raw(CRONJOBFLOWS)
    owner: dict[str, Any] = {"apiVersion": found["apiVersion"], "kind": found["kind"]}
    owner |= {"name": "c", "uid": found["metadata"]["uid"], "controller": True}
    first, later = (flow(name, {"a": "", "b": "a"}) for name in ("f", "later"))
    for each in (first, later):
        each["metadata"]["ownerReferences"] = [owner]
    async with world.controller(), world.ends({"again-a": "Running"}):
        await world.apply(first)
        await world.ended("f")
        await world.apply(AGAIN)
        await asyncio.sleep(LONG)
        await world.apply(later)
        await world.ended("later")
        await asyncio.sleep(LONG)
        assert await names(world) == {"f", "again", "later"}
        await set_phase(world.client, "again-a", "Completed")
        await world.ended("again")
        await asyncio.sleep(1)
        assert await names(world) == {"again", "later"}


async def test_a_flow_that_is_reused_is_not_retried(world: Cluster) -> None:
    await world.apply(template("a"), template("b"), flow("f", {"a": "", "b": "a"}))
    async with world.controller(), world.ends({"f-b": "Failed", "again-a": "Running"}):
        await world.ended("f")
        await world.apply(AGAIN)
        await world.until_jobs(again_a="Running")
        await world.order("RestartJob", name="retry")
        await asyncio.sleep(LONG)
        assert (await world.flow("f")).final
        messages = [each["message"] for each in await world.events()]
        refused = "Command retry (RestartJob) was refused: flow f is reused by flow again: wait"
        assert any(message.startswith(refused) for message in messages)
        await set_phase(world.client, "again-a", "Completed")
        await world.ended("again")
        await world.order("RestartJob", name="retry")
        await world.until("f", lambda flow: not flow.final)
