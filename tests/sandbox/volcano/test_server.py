"""vcjobs on the sandbox's API server with its job controller: phases, pods, writes."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobflow.api.resources import EVENTS, JOBS, PODS
from support.sandbox.running_controller import merge
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


async def test_a_job_completes(world: World) -> None:
    job = await run_job(world, vcjob("j"))
    assert phases(job) == ["Pending", "Running", "Completed"]
    final = {"conditions", "minAvailable", "runningDuration", "state", "version"}
    assert job["status"].keys() == final
    assert await world.pods() == {"j-t-0": "Succeeded"}


def an_hour_later() -> datetime:
    return datetime.now(UTC) + timedelta(hours=1)


async def test_a_job_with_one_pod_needs_eight_writes(world: World) -> None:
    async with long_job(world):
        pass
    async with stand_in(world, speed=1, clock=an_hour_later):
        await world.wait_for_end("j")
    assert world.writes() == {"POST pods": 1, "PATCH pods/status": 2, "PATCH jobs/status": 5}


async def test_many_pod_changes_need_few_writes_of_the_job(world: World) -> None:
    await run_job(world, vcjob("j", task(replicas=50)))
    writes = world.writes()
    assert (writes["POST pods"], writes["PATCH pods/status"]) == (50, 50)
    assert writes["PATCH jobs/status"] < 25


async def test_a_pod_at_infinite_speed_is_written_once(world: World) -> None:
    names = [f"j{n}" for n in range(20)]
    async with stand_in(world):
        await world.create(*(vcjob(name, duration="1h") for name in names))
        jobs = await world.wait_for_end(*names)
    assert {phase(job) for job in jobs} == {"Completed"}
    assert world.writes()["PATCH pods/status"] == 20


async def test_the_pod_of_a_failed_job_has_the_message(world: World) -> None:
    job = await run_job(world, vcjob("j", exit_code="3", output="no more memory"))
    pod = await world.get(PODS, "j-t-0")
    [container] = pod["status"]["containerStatuses"]
    assert phases(job) == ["Pending", "Running", "Failed"]
    assert container["state"]["terminated"]["exitCode"] == 3
    assert container["state"]["terminated"]["message"] == "no more memory"
    assert (pod["spec"]["nodeName"], pod["status"]["podIP"]) == ("sandbox", "127.0.0.1")


async def test_a_task_waits_for_its_dependency(world: World) -> None:
    tasks = task("ps"), task("w", dependsOn={"name": ["ps"]})
    async with stand_in(world, speed=1):
        await world.create(vcjob("j", *tasks, task_phases='{"ps": [["Running", 3600]]}'))
        await world.wait_for_pod("j-ps-0", "Pending")
        await world.wait_for_job("j", "Pending")
    async with stand_in(world):
        await world.wait_for_pod("j-w-0", "Succeeded")
    assert await world.pods() == {"j-ps-0": "Running", "j-w-0": "Succeeded"}


async def test_a_job_that_stays_pending_is_aborted_by_its_policy(world: World) -> None:
    policy = {"event": "PodPending", "action": "AbortJob", "timeout": "20ms"}
    marks = '{"t": [["Running", 3600]]}'
    job = await run_job(world, vcjob("j", spec={"policies": [policy]}, task_phases=marks), speed=1)
    assert phases(job) == ["Pending", "Aborting", "Aborted"]
    assert await world.pods() == {}


async def test_a_finished_job_is_deleted_after_its_ttl(world: World) -> None:
    async with stand_in(world):
        await world.create(vcjob("j", spec={"ttlSecondsAfterFinished": 0}), vcjob("other"))
        await world.wait_for_end("other")
        await world.until(lambda jobs: set(jobs) == {"other"})
        await world.until(lambda pods: set(pods) == {"other-t-0"}, PODS)


class TestUsers:
    """Changes and deletions by users."""

    async def test_the_pods_of_a_deleted_job_are_deleted(self, world: World) -> None:
        async with long_job(world):
            await world.client.delete(JOBS, NAMESPACE, "j")
            await world.until(lambda pods: not pods, PODS)
        assert world.writes()["POST pods"] == 1

    async def test_a_deleted_pod_is_recreated(self, world: World) -> None:
        async with long_job(world):
            first = (await world.get(PODS, "j-t-0"))["metadata"]["uid"]
            await world.client.delete(PODS, NAMESPACE, "j-t-0")
            await world.until(
                lambda pods: "j-t-0" in pods and pods["j-t-0"]["metadata"]["uid"] != first, PODS
            )
            await world.wait_for_job("j", "Running")

    async def test_a_pod_with_finalizers_is_replaced_after_its_deletion(self, world: World) -> None:
        patch = {"metadata": {"finalizers": ["example.com/held"]}}
        async with long_job(world):
            await merge(world.client, PODS, "j-t-0", patch)
            await world.client.delete(PODS, NAMESPACE, "j-t-0")
            await world.until(lambda jobs: "terminating" in jobs["j"]["status"])
            patch["metadata"]["finalizers"] = []
            await merge(world.client, PODS, "j-t-0", patch)
            await world.until(
                lambda pods: "j-t-0" in pods and "finalizers" not in pods["j-t-0"]["metadata"], PODS
            )
            await world.wait_for_job("j", "Running")
        assert world.writes()["DELETE pods"] == 2

    async def test_a_recreated_job_waits_for_the_name_of_the_old_pod(self, world: World) -> None:
        async with stand_in(world):
            await world.create(vcjob("j"))
            await world.wait_for_end("j")
            await world.client.delete(JOBS, NAMESPACE, "j", propagation="Orphan")
            await world.create(vcjob("j"))
            await world.wait_for_job("j", "Pending")
            await world.client.delete(PODS, NAMESPACE, "j-t-0")
            [job] = await world.wait_for_end("j")
        assert phase(job) == "Completed"

    async def test_a_job_is_scaled(self, world: World) -> None:
        async with long_job(world, task(replicas=2), spec={"minAvailable": 1}):
            await merge(world.client, JOBS, "j", {"spec": {"tasks": [task(replicas=1)]}})
            await world.until(lambda pods: set(pods) == {"j-t-0"}, PODS)


class TestBadJobs:
    """vcjobs that cannot run: Failed immediately, with a message and an Event."""

    @pytest.mark.parametrize(
        ("job", "message"),
        [
            ({"duration": "fast"}, '"fast" is not a duration: write it like 2s, 500ms or 1m30s'),
            (
                {"spec": {"policies": [{"event": "PodFailed", "action": "CompletedJob"}]}},
                "spec.policies[0].action: 'CompletedJob'",
            ),
        ],
    )
    async def test_an_invalid_job_fails_with_a_message(
        self, world: World, job: dict[str, Any], message: str
    ) -> None:
        async with stand_in(world):
            await world.create(vcjob("j", **job))
            [failed_job] = await world.wait_for_end("j")
            await world.until(lambda events: bool(events), EVENTS)
        state = failed_job["status"]["state"]
        [event] = await world.items(EVENTS)
        assert (state["phase"], state["reason"]) == ("Failed", "InvalidJob")
        assert message in state["message"]
        assert (event["type"], event["message"]) == ("Warning", state["message"])
        assert event["involvedObject"]["uid"] == failed_job["metadata"]["uid"]
        assert await world.pods() == {}

    async def test_valid_jobs_run_beside_an_invalid_one(self, world: World) -> None:
        async with stand_in(world):
            await world.create(vcjob("bad", duration=""), vcjob("good"))
            bad, good = await world.wait_for_end("bad", "good")
        assert (phase(bad), phase(good)) == ("Failed", "Completed")
