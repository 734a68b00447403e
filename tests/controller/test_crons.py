"""CronJobFlows on the sandbox's API server, with a clock that leaps to the next timer."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from jobflow.api.flow.cronjobflow import CronJobFlow
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.labels import SKIP
from jobflow.api.resources import CRONJOBFLOWS, JOBFLOWS
from jobflow.core.cron import scheduled_name
from jobflow.sandbox.apiserver.requests.failures import failure
from jobflow.store import feeds
from support.sandbox.running_controller import (
    NAMESPACE,
    Cluster,
    cron,
    flow,
    merge,
    set_phase,
    template,
)
from support.time.leaping_loop import now

MINUTE = timedelta(minutes=1)


async def get(world: Cluster, name: str = "c") -> CronJobFlow:
    return await world.client.get(CRONJOBFLOWS, NAMESPACE, name, CronJobFlow)


async def flows(world: Cluster) -> list[JobFlow]:
    found = [msgspec.convert(each, JobFlow) for each in await world.raw(JOBFLOWS)]
    return sorted(found, key=lambda flow: flow.metadata.name)


async def apply(world: Cluster, **spec: Any) -> None:
    """Apply a CronJobFlow that is due in 9 minutes, and then each 10 minutes, and its template."""
    await asyncio.sleep(11 * 60 - now().timestamp() % 600)
    await world.apply(template("a"), cron(**spec))
    status = {"status": {"lastScheduleTime": f"{now():%Y-%m-%dT%H:%M:%SZ}"}}
    await merge(world.client, CRONJOBFLOWS, "c", status, subresource="status")


async def let(minutes: float) -> None:
    """Let this much simulated time pass."""
    await asyncio.sleep(minutes * 60)


def times(found: list[JobFlow]) -> list[datetime]:
    """Return the scheduled times that the names of flows contain."""
    epoch = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
    return [epoch + int(flow.metadata.name.rpartition("-")[2]) * MINUTE for flow in found]


@pytest.mark.long
async def test_a_flow_starts_at_each_scheduled_time(world: Cluster) -> None:
    await apply(world, successfulJobsHistoryLimit=10)
    async with world.controller(), world.ends():
        started = now()
        await let(30)
        made = await flows(world)
        status = (await get(world)).status
    at = times(made)
    assert len(at) == 3
    assert all(time.minute % 10 == 0 and started < time <= now() for time in at)
    assert {flow.status.state.phase for flow in made} == {"Succeed"}
    assert (status.active, status.active_count, status.last_schedule_time) == (None, 0, at[-1])
    assert status.last_successful_time == max(
        flow.status.completion_time for flow in made if flow.status.completion_time
    )


@pytest.mark.long
async def test_a_restart_and_a_second_leader_start_no_second_flow(world: Cluster) -> None:
    await apply(world)
    async with world.controller(), world.controller(), world.ends():
        await let(10)
    async with world.controller(), world.ends():
        await let(1)
        assert len(await flows(world)) == 1
    assert world.count("POST", JOBFLOWS) == 1


async def test_a_crash_between_the_flow_and_the_status_starts_no_second_flow(
    world: Cluster,
) -> None:
    await apply(world)
    async with world.controller(), world.ends():
        await let(0.1)
        error = failure(500, "InternalError", "x")
        world.fails("PATCH", "cronjobflows/c/status", error, times=None)
        await let(10)
        (made,) = await flows(world)
    world.server.faults.clear()
    async with world.controller(), world.ends():
        await let(1)
        assert (await get(world)).status.last_schedule_time == times([made])[0]
    assert world.count("POST", JOBFLOWS) == 1


async def test_a_create_that_fails_is_tried_again(world: Cluster) -> None:
    await apply(world)
    world.fails("POST", "/jobflows", failure(503, "ServiceUnavailable", "x"), times=3)
    async with world.controller(), world.ends():
        await let(10)
        assert len(await flows(world)) == 1


async def test_a_name_that_another_flow_has_is_reported_and_left_alone(world: Cluster) -> None:
    await world.apply(cron(schedule="0 0 1 1 *"))
    await merge(
        world.client,
        CRONJOBFLOWS,
        "c",
        {"status": {"lastScheduleTime": "2020-01-01T00:00:00Z"}},
        subresource="status",
    )
    year = datetime(now().year, 1, 1, tzinfo=UTC)
    await world.apply(flow(scheduled_name("c", year), {"a": ""}))
    async with world.controller():
        await let(2)
        reasons = {event["reason"] for event in await world.events()}
    assert "NameInUse" in reasons
    assert len(await flows(world)) == 1


async def test_replace_cancels_the_old_flow_and_starts_the_next_one(world: Cluster) -> None:
    await apply(world, concurrencyPolicy="Replace")
    async with world.controller(), world.ends(otherwise="Running"):
        await let(10)
        (old,) = await flows(world)
        name = old.metadata.name
        await world.until(name, lambda flow: flow.status.state.reason == "Cancelled", within=900)
        assert [each.metadata.name for each in await flows(world)] == [name]
        await set_phase(world.client, f"{name}-a", "Aborted")
        await let(1)
        first, second = await flows(world)
    assert (first.status.state.phase, first.status.state.reason) == ("Failed", "Cancelled")
    assert times([second])[0] - times([first])[0] == 10 * MINUTE
    assert not second.final


IN_TURN = {"concurrencyPolicy": "Wait", "requirePreviousSuccess": True}
TTL = {"spec": {"flows": [{"name": "a"}], "ttlSecondsAfterFinished": 60}}


async def test_with_wait_a_ttl_leaves_the_flow_that_failed_until_it_is_skipped(
    world: Cluster,
) -> None:
    await apply(world, **IN_TURN, jobFlowTemplate=TTL)
    async with world.controller(), world.ends(otherwise="Failed"):
        await let(30)
        (failed,) = await flows(world)
        assert (await get(world)).status.waits_for == failed.metadata.name
        skip = {"metadata": {"annotations": {SKIP: failed.metadata.name}}}
        await merge(world.client, CRONJOBFLOWS, "c", skip)
        await let(5)
        (following,) = await flows(world)
        assert times([following])[0] - times([failed])[0] == 10 * MINUTE
        assert SKIP not in ((await get(world)).metadata.annotations or {})


async def test_with_wait_times_that_were_missed_get_their_flows_in_order_also_with_a_ttl(
    world: Cluster,
) -> None:
    await apply(world, **IN_TURN, jobFlowTemplate=TTL)
    await let(40)
    async with world.controller(), world.ends():
        await let(4)
        assert (await get(world)).status.waits_for is None
        last = (await get(world)).status.last_schedule_time
        await let(4)
        assert await flows(world) == []
    assert last is not None and now() - last < 15 * MINUTE
    assert world.count("POST", JOBFLOWS) == 4


def writes(world: Cluster) -> int:
    statuses = world.count("PATCH", CRONJOBFLOWS, subresource="status")
    return statuses + world.count("POST", JOBFLOWS)


@pytest.mark.parametrize("killed", range(2, 8))
async def test_with_wait_a_leader_that_is_killed_makes_no_time_twice_and_loses_none(
    world: Cluster, killed: int
) -> None:
    """After so many writes of the schedule, none succeeds any more until another leader comes."""
    await apply(world, **IN_TURN, jobFlowTemplate=TTL)
    await let(20)
    error = failure(500, "InternalError", "x")
    async with world.controller(), world.ends():
        await let(0.1)
        for _ in range(10_000):
            if writes(world) >= killed:
                break
            await asyncio.sleep(0.01)
        for verb, path in (("PATCH", "cronjobflows/c"), ("POST", "/jobflows")):
            world.fails(verb, path, error, times=None)
        await let(4)
    world.server.faults.clear()
    async with world.controller(), world.ends():
        await let(4)
        assert (await get(world)).status.waits_for is None
    assert world.count("POST", JOBFLOWS) == 2


async def test_a_copy_that_is_too_old_starts_no_flow_of_a_suspended_cron(world: Cluster) -> None:
    """The watch is lost, so the controller does not see the suspension."""
    await apply(world)
    async with world.controller() as product:
        await let(0.1)
        kinds = [each.resource for each in feeds(product.store, world.client)]
        product.tasks[kinds.index(CRONJOBFLOWS)].cancel()
        await merge(world.client, CRONJOBFLOWS, "c", {"spec": {"suspend": True}})
        await let(25)
    assert await flows(world) == []


@pytest.mark.long
async def test_history_is_kept_within_its_limits(world: Cluster) -> None:
    await apply(world, successfulJobsHistoryLimit=2)
    async with world.controller(), world.ends():
        await let(40)
        kept = times(await flows(world))
        last = (await get(world)).status.last_schedule_time
    assert last is not None
    assert kept == [last - 10 * MINUTE, last]
