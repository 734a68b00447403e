"""The job controller is stopped, restarted and refused at any write; vcjobs still finish."""

import asyncio
import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobflow.api.resources import EVENTS, JOBS, PODS
from jobflow.sandbox.apiserver.requests.failures import failure
from support.network.anonymous import anonymous
from support.sandbox.api_server import InjectedFault
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
    "a gang": (vcjob("j", task("a", 2), task("b")), "Completed", 17),
    "ended by its workers": (
        vcjob("j", *TASKS, task_phases='{"ps": [["Running", 0]]}'),
        "Completed",
        11,
    ),
    "restarted": (vcjob("j", exit_code="1", spec=RESTARTED), "Failed", 16),
    "aborted": (vcjob("j", exit_code="1", spec=ABORTED), "Aborted", 8),
}
"""A vcjob, its final phase, and the most writes until then: one for each change of a pod."""
POINTS = [
    (name, n, after) for name, row in FLOWS.items() for n in range(row[2]) for after in (0, 1)
]


@pytest.mark.sampled(12)
@pytest.mark.parametrize(("name", "n", "after"), POINTS)
async def test_a_job_finishes_after_a_crash_at_any_write(
    world: World, name: str, n: int, after: int
) -> None:
    manifest, end, _ = FLOWS[name]
    await world.create(manifest)
    async with Dying(anonymous(world.server.url)) as client:
        client.point = Point(n, bool(after))
        async with stand_in(world, client=client, speed=1000):
            finish = asyncio.create_task(world.wait_for_end("j"))
            crash = asyncio.create_task(client.dead.wait())
            await asyncio.wait([finish, crash], return_when=asyncio.FIRST_COMPLETED)
        for pending in (finish, crash):
            pending.cancel()
        await asyncio.wait([finish, crash])
    async with stand_in(world):
        [job] = await world.wait_for_end("j")
    assert phase(job) == end
    if name != "restarted":
        replicas = sum(row["replicas"] for row in manifest["spec"]["tasks"])
        assert world.writes()["POST pods"] == replicas


@pytest.mark.parametrize("name", FLOWS)
async def test_the_crash_points_include_all_writes(world: World, name: str) -> None:
    manifest, _, writes = FLOWS[name]
    await run_job(world, manifest, speed=1000)
    assert sum(world.writes().values()) <= writes


@pytest.mark.parametrize("code", [500, 429, 503, 0])
@pytest.mark.parametrize("after", [False, True])
async def test_a_job_finishes_if_every_write_fails_once(
    world: World, code: int, after: bool
) -> None:
    seen: set[str] = set()

    def is_first_write(request: Any) -> bool:
        key = f"{request.method} {request.path} {request.body!r}"
        new = request.method in ("POST", "PATCH", "DELETE") and key not in seen
        seen.add(key)
        return new and request.path != JOBS.path(NAMESPACE)

    error = failure(code, "Trouble", "not now") if code else None
    world.server.faults.append(InjectedFault(is_first_write, error, after=after, times=None))
    job = await run_job(world, vcjob("j", task(replicas=2)))
    assert phases(job) == ["Pending", "Running", "Completed"]
    assert world.writes()["POST pods"] <= 2
    assert await world.pods() == {"j-t-0": "Succeeded", "j-t-1": "Succeeded"}


async def test_jobs_finish_after_lost_watches_and_history(world: World) -> None:
    names = [f"j{n}" for n in range(10)]
    async with stand_in(world, speed=100):
        for name in names:
            await world.create(vcjob(name))
            world.server.expire_history()
            world.server.storage.close_watches()
        jobs = await world.wait_for_end(*names)
    assert {phase(job) for job in jobs} == {"Completed"}
    assert world.writes()["POST pods"] == 10


def refuse_pods(world: World) -> None:
    refusal = failure(403, "Forbidden", 'pods "j-t-0" is forbidden: exceeded quota')
    create = ("POST", PODS.path(NAMESPACE))
    world.server.faults.append(
        InjectedFault(lambda request: (request.method, request.path) == create, refusal, times=None)
    )


async def test_a_refused_pod_is_created_again(world: World) -> None:
    refuse_pods(world)
    async with stand_in(world):
        await world.create(vcjob("j"))
        await world.until(lambda events: bool(events), EVENTS)
        world.server.faults.clear()
        [job] = await world.wait_for_end("j")
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


async def test_a_running_pod_keeps_its_times_after_a_restart(world: World) -> None:
    async with long_job(world):
        pass
    started = (await world.get(PODS, "j-t-0"))["status"]["startTime"]
    async with stand_in(world, speed=1, clock=lambda: datetime.now(UTC) + timedelta(hours=1)):
        [job] = await world.wait_for_end("j")
    status = (await world.get(PODS, "j-t-0"))["status"]
    ended = status["containerStatuses"][0]["state"]["terminated"]["finishedAt"]
    duration = datetime.fromisoformat(ended) - datetime.fromisoformat(started)
    assert (phase(job), duration) == ("Completed", timedelta(hours=1))


async def test_the_pods_of_a_job_deleted_before_a_restart_are_deleted(world: World) -> None:
    await world.create(vcjob("j", duration="1h"), vcjob("other", duration="1h"))
    async with stand_in(world, speed=1):
        await world.wait_for_job("j", "Running")
        await world.wait_for_job("other", "Running")
    await world.client.delete(JOBS, NAMESPACE, "j")
    async with stand_in(world, speed=math.inf):
        await world.wait_for_end("other")
        await world.until(lambda pods: set(pods) == {"other-t-0"}, PODS)


async def test_finished_jobs_need_no_writes_after_a_restart(world: World) -> None:
    await world.create(vcjob("j"), vcjob("k", exit_code="1"))
    async with stand_in(world):
        await world.wait_for_end("j", "k")
    before = sum(world.writes().values())
    await run_job(world, vcjob("l"))
    assert sum(world.writes().values()) == before + 7
