"""The job controller is stopped, restarted and refused at any write; vcjobs still finish."""

import asyncio
import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobflow.api.resources import EVENTS, JOBS, PODS
from jobflow.sandbox.apiserver.requests.failures import failure
from jobflow.sandbox.apiserver.server import InjectedFault
from support.sandbox.crashing_requests import Dying, Point
from support.sandbox.vcjobs import task, vcjob
from support.sandbox.volcano_world import (
    NAMESPACE,
    World,
    long_job,
    phase,
    phases,
    run_job,
    stand_in,
)

ENDED_BY_WORKERS = [{"event": "TaskCompleted", "action": "CompleteJob"}]
RESTARTED = {"maxRetry": 2, "policies": [{"event": "PodFailed", "action": "RestartJob"}]}
ABORTED = {"policies": [{"event": "*", "action": "AbortJob"}]}
TASKS = task("ps"), task("w", policies=ENDED_BY_WORKERS)
FLOWS = {
    "one pod": (vcjob("j"), "Completed", 8),
    "a gang": (vcjob("j", task("a", 2), task("b")), "Completed", 14),
    "ended by its workers": (
        vcjob("j", *TASKS, task_phases='{"ps": [["Running", 0]]}'),
        "Completed",
        11,
    ),
    "restarted": (vcjob("j", exit_code="1", spec=RESTARTED), "Failed", 16),
    "aborted": (vcjob("j", exit_code="1", spec=ABORTED), "Aborted", 8),
}
"""A vcjob, its final phase, and the number of writes until then."""
POINTS = [
    (name, n, after) for name, row in FLOWS.items() for n in range(row[2]) for after in (0, 1)
]


@pytest.mark.parametrize(("name", "n", "after"), POINTS)
async def test_it_may_stop_at_any_write(world: World, name: str, n: int, after: int) -> None:
    manifest, end, _ = FLOWS[name]
    await world.create(manifest)
    async with Dying.at(world.server.url) as client:
        client.point = Point(n, bool(after))
        async with stand_in(world, client=client, speed=1000):
            over = asyncio.create_task(world.end_of("j"))
            death = asyncio.create_task(client.dead.wait())
            await asyncio.wait([over, death], return_when=asyncio.FIRST_COMPLETED)
        for waiting in (over, death):
            waiting.cancel()
        await asyncio.wait([over, death])
    async with stand_in(world):
        [job] = await world.end_of("j")
    assert phase(job) == end
    if name != "restarted":
        replicas = sum(row["replicas"] for row in manifest["spec"]["tasks"])
        assert world.writes()["POST pods"] == replicas


@pytest.mark.parametrize("name", FLOWS)
async def test_no_write_was_left_out(world: World, name: str) -> None:
    manifest, _, writes = FLOWS[name]
    await run_job(world, manifest, speed=1000)
    assert sum(world.writes().values()) <= writes


@pytest.mark.parametrize("code", [500, 429, 503, 0])
@pytest.mark.parametrize("after", [False, True])
async def test_every_write_may_fail_once(world: World, code: int, after: bool) -> None:
    seen: set[str] = set()

    def first_time(request: Any) -> bool:
        key = f"{request.method} {request.path} {request.body!r}"
        new = request.method in ("POST", "PATCH", "DELETE") and key not in seen
        seen.add(key)
        return new and request.path != JOBS.path(NAMESPACE)

    broken = failure(code, "Trouble", "not now") if code else None
    world.server.faults.append(InjectedFault(first_time, broken, after=after, times=None))
    job = await run_job(world, vcjob("j", task(replicas=2)))
    assert phases(job) == ["Pending", "Running", "Completed"]
    assert world.writes()["POST pods"] <= 2
    assert await world.pods() == {"j-t-0": "Succeeded", "j-t-1": "Succeeded"}


async def test_watches_may_end_and_history_be_forgotten(world: World) -> None:
    names = [f"j{n}" for n in range(10)]
    async with stand_in(world, speed=100):
        for name in names:
            await world.create(vcjob(name))
            world.server.expire_history()
            world.server.storage.close_watches()
        jobs = await world.end_of(*names)
    assert {phase(job) for job in jobs} == {"Completed"}
    assert world.writes()["POST pods"] == 10


def refuse_pods(world: World) -> None:
    refusal = failure(403, "Forbidden", 'pods "j-t-0" is forbidden: exceeded quota')
    making = ("POST", PODS.path(NAMESPACE))
    world.server.faults.append(
        InjectedFault(lambda request: (request.method, request.path) == making, refusal, times=None)
    )


async def test_a_refused_pod_is_tried_again(world: World) -> None:
    refuse_pods(world)
    async with stand_in(world):
        await world.create(vcjob("j"))
        await world.until(lambda events: bool(events), EVENTS)
        world.server.faults.clear()
        [job] = await world.end_of("j")
    [event] = await world.items(EVENTS)
    assert (event["reason"], event["type"]) == ("FailedCreate", "Warning")
    assert "exceeded quota" in event["message"]
    assert phase(job) == "Completed"


async def test_a_job_whose_pods_are_refused_too_often_is_terminated(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobflow.sandbox.volcano.controller.REFUSALS", 3)
    refuse_pods(world)
    job = await run_job(world, vcjob("j"))
    assert phases(job) == ["Pending", "Terminating", "Terminated"]


async def test_a_running_pod_is_taken_up_at_its_own_time(world: World) -> None:
    async with long_job(world):
        pass
    started = (await world.get(PODS, "j-t-0"))["status"]["startTime"]
    async with stand_in(world, speed=1, clock=lambda: datetime.now(UTC) + timedelta(hours=1)):
        [job] = await world.end_of("j")
    status = (await world.get(PODS, "j-t-0"))["status"]
    ended = status["containerStatuses"][0]["state"]["terminated"]["finishedAt"]
    apart = datetime.fromisoformat(ended) - datetime.fromisoformat(started)
    assert (phase(job), apart) == ("Completed", timedelta(hours=1))


async def test_a_job_that_was_deleted_meanwhile_is_forgotten(world: World) -> None:
    await world.create(vcjob("j", duration="1h"), vcjob("other", duration="1h"))
    async with stand_in(world, speed=1):
        await world.job_in("j", "Running")
        await world.job_in("other", "Running")
    await world.client.delete(JOBS, NAMESPACE, "j")
    async with stand_in(world, speed=math.inf):
        await world.end_of("other")
        await world.until(lambda pods: set(pods) == {"other-t-0"}, PODS)


async def test_finished_jobs_cost_a_new_stand_in_nothing(world: World) -> None:
    await world.create(vcjob("j"), vcjob("k", exit_code="1"))
    async with stand_in(world):
        await world.end_of("j", "k")
    before = sum(world.writes().values())
    await run_job(world, vcjob("l"))
    assert sum(world.writes().values()) == before + 7
