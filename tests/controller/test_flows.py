"""Flows on the sandbox's API server, and changes by users while they run."""

import asyncio
import json
from collections.abc import Callable

import pytest

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import StepCondition
from jobflow.api.resources import EVENTS, JOBFLOWS, JOBS, JOBTEMPLATES
from jobflow.api.volcano.job import Job
from jobflow.kube.clock import boot_clock
from jobflow.sandbox.apiserver.requests.failures import failure
from support.sandbox.running_controller import (
    DIAMOND,
    NAMESPACE,
    Cluster,
    cluster,
    flow,
    merge,
    set_phase,
    template,
)


def reason(step: str, word: str) -> Callable[[JobFlow], bool]:
    return lambda flow: condition_of(flow, step).reason == word


def phase(step: str, word: str) -> Callable[[JobFlow], bool]:
    return lambda flow: condition_of(flow, step).phase == word


def condition_of(flow: JobFlow, step: str) -> StepCondition:
    conditions = flow.status.conditions or {}
    return conditions.get(f"{flow.metadata.name}-{step}", StepCondition())


async def delete_job(world: Cluster, name: str) -> None:
    await world.client.delete(JOBS, NAMESPACE, name)
    await world.seen(JOBS, Job, lambda jobs: name not in jobs)


async def set_finalizers(world: Cluster, *names: str) -> None:
    await merge(world.client, JOBS, "f-a", {"metadata": {"finalizers": names or None}})


async def test_a_diamond_needs_few_writes() -> None:
    async with cluster() as world, world.controller(), world.ends():
        await world.apply(*(template(name) for name in DIAMOND), flow("d", DIAMOND))
        done = await world.ended("d")
        assert done.status.state.phase == "Succeed"
        names = ["d-a", "d-b", "d-c", "d-d", "d-e"]
        assert await world.jobs() == dict.fromkeys(names, "Completed")
        assert world.count("POST", JOBS) == 5
        assert world.count("PATCH", JOBFLOWS, subresource="status") <= 6
        assert world.count("PATCH", JOBFLOWS) == world.count("PATCH", JOBTEMPLATES) == 0
        await world.seen(EVENTS, JobFlow, lambda events: len(events) >= 3)
        events = {event["reason"]: event for event in await world.events()}
        counts = {reason: event["count"] for reason, event in events.items()}
        assert counts == {"JobCreated": 5, "StepCompleted": 5, "FlowSucceeded": 1}
        completed = "step a: completed; step b: completed; step c: completed; "
        assert events["StepCompleted"]["message"].startswith(completed)
        end = events["FlowSucceeded"]
        assert end["involvedObject"]["name"] == "d"
        assert end["source"] == {"component": "jobflow"}


async def test_a_late_template_starts_the_step_that_waits_for_it() -> None:
    async with cluster() as world, world.controller(), world.ends():
        await world.apply(template("a"), flow("f", {"a": "", "b": "a"}))
        await world.until("f", reason("b", "WaitingForTemplate"))
        await world.apply(template("b"))
        assert (await world.ended("f")).status.state.phase == "Succeed"


async def test_a_finished_job_that_a_user_deletes_is_not_run_again() -> None:
    async with cluster() as world, world.controller(), world.ends({"f-b": ""}):
        await world.apply(template("a"), template("b"), flow("f", {"a": "", "b": "a"}))
        await world.until_jobs(f_b="")
        await delete_job(world, "f-a")
        await set_phase(world.client, "f-b", "Completed")
        assert (await world.ended("f")).status.state.phase == "Succeed"
        assert world.count("POST", JOBS) == 2


async def test_a_finished_job_deleted_without_a_controller_is_not_run_again() -> None:
    async with cluster() as world:
        await world.apply(template("a"), template("b"), flow("f", {"a": "", "b": "a"}))
        async with world.controller(), world.ends({"f-b": ""}):
            await world.until("f", phase("a", "Completed"))
            await world.until_jobs(f_b="")
        await delete_job(world, "f-a")
        async with world.controller():
            await set_phase(world.client, "f-b", "Completed")
            assert (await world.ended("f")).status.state.phase == "Succeed"
        assert world.count("POST", JOBS) == 2


async def test_a_running_job_that_a_user_deletes_is_attempted_again() -> None:
    async with cluster() as world, world.controller(), world.ends({"f-a": "Running"}):
        await world.apply(template("a"), flow("f", {"a": ""}))
        await world.until_jobs(f_a="Running")
        await delete_job(world, "f-a")
        done = await world.ended("f")
        assert done.status.state.phase == "Succeed"
        assert await world.jobs() == {"f-a-r1": "Completed"}
        assert condition_of(done, "a").attempts == 2


async def test_a_job_deleted_before_it_is_in_the_status_is_attempted_again() -> None:
    async with cluster() as world, world.controller(), world.ends({"f-b": ""}):
        await world.apply(template("a"), template("b"), flow("f", {"a": "", "b": "a"}))
        await world.until_jobs(f_b="")
        await delete_job(world, "f-b")
        done = await world.ended("f")
        assert await world.jobs() == {"f-a": "Completed", "f-b-r1": "Completed"}
        assert condition_of(done, "b").attempts == 2


async def test_the_second_of_two_flows_with_one_job_name_fails() -> None:
    async with cluster() as world, world.controller():
        await world.apply(template("b"), template("a-b"))
        await world.apply(flow("f-a", {"b": ""}))
        await world.until_jobs(f_a_b="")
        await world.apply(flow("f", {"a-b": ""}))
        lost = await world.ended("f")
        assert condition_of(lost, "a-b").reason == "NameConflict"
        await set_phase(world.client, "f-a-b", "Completed")
        assert (await world.ended("f-a")).status.state.phase == "Succeed"


async def test_a_name_that_becomes_free_is_used() -> None:
    async with cluster() as world, world.controller(), world.ends({}):
        metadata = {"name": "f-a", "namespace": NAMESPACE, "finalizers": ["test/hold"]}
        job = {"apiVersion": JOBS.api_version, "kind": "Job", "metadata": metadata}
        await world.apply(job | {"spec": {"tasks": []}})
        await world.client.delete(JOBS, NAMESPACE, "f-a")
        await world.apply(template("a"), flow("f", {"a": ""}))
        await world.until("f", reason("a", "NameInUse"))
        await set_finalizers(world)
        assert (await world.ended("f")).status.state.phase == "Succeed"


async def test_a_new_flow_waits_for_the_jobs_of_a_deleted_one_with_its_name() -> None:
    async with cluster() as world:
        await world.apply(template("a"), flow("f", {"a": ""}))
        async with world.controller():
            await world.until_jobs(f_a="")
        await set_finalizers(world, "test/hold")
        await world.client.delete(JOBFLOWS, NAMESPACE, "f")
        await world.apply(flow("f", {"a": ""}))
        async with world.controller(), world.ends():
            await world.until("f", reason("a", "NameInUse"))
            await set_finalizers(world)
            assert (await world.ended("f")).status.state.phase == "Succeed"


async def test_a_deleted_flow_is_ignored() -> None:
    async with cluster() as world, world.controller():
        await world.apply(template("a"), flow("f", {"a": ""}))
        await world.until_jobs(f_a="")
        await world.client.delete(JOBFLOWS, NAMESPACE, "f")
        await world.seen(JOBS, Job, lambda jobs: not jobs)
        await world.apply(flow("g", {"a": ""}))
        await world.until_jobs(g_a="")
        assert world.count("POST", JOBS) == 2


async def test_a_refused_create_is_retried_when_the_template_changes() -> None:
    async with cluster() as world, world.controller(), world.ends():
        exceeded = failure(403, "Forbidden", "exceeded quota")
        quota = world.fails("POST", "/jobs", exceeded, times=None)
        await world.apply(template("a"), flow("f", {"a": ""}))
        refused = await world.until("f", reason("a", "CreateRefused"))
        assert "exceeded quota" in condition_of(refused, "a").message
        world.server.faults.remove(quota)
        change = json.dumps({"spec": {"maxRetry": 1}}).encode()
        await world.client.patch(JOBTEMPLATES, NAMESPACE, "a", change)
        assert (await world.ended("f")).status.state.phase == "Succeed"


async def test_a_create_refused_as_invalid_fails_the_step() -> None:
    async with cluster() as world, world.controller(), world.ends():
        world.fails("POST", "/jobs", failure(422, "Invalid", "no such queue"))
        await world.apply(template("a"), flow("f", {"a": ""}))
        failed = await world.ended("f")
        assert failed.status.state.phase == "Failed"
        assert condition_of(failed, "a").reason == "Refused"
        assert world.count("POST", JOBS) == 0


async def test_a_job_lost_without_a_controller_is_attempted_again() -> None:
    async with cluster() as world:
        await world.apply(template("a"), flow("f", {"a": ""}))
        async with world.controller():
            await world.until("f", phase("a", "Pending"))
        await delete_job(world, "f-a")
        async with world.controller(), world.ends():
            assert condition_of(await world.ended("f"), "a").attempts == 2
        assert await world.jobs() == {"f-a-r1": "Completed"}


async def test_a_controller_that_stops_finishes_its_requests_and_starts_nothing() -> None:
    async with cluster() as world:
        await world.apply(*(template(name) for name in DIAMOND))
        async with world.controller() as product:
            await world.apply(flow("f", DIAMOND))
            await world.until_jobs(f_a="")
            product.controller.stop()
            async with asyncio.timeout(5):
                await product.running
            await set_phase(world.client, "f-a", "Completed")
        assert await world.jobs() == {"f-a": "Completed"}


@pytest.mark.long
async def test_many_flows_at_once_each_create_their_jobs_once() -> None:
    flows = 20
    async with cluster() as world, world.controller(), world.ends():
        await world.apply(*(template(name) for name in DIAMOND))
        names = [f"f{number}" for number in range(flows)]
        await asyncio.gather(*(world.apply(flow(name, DIAMOND)) for name in names))
        for name in names:
            assert (await world.ended(name)).status.state.phase == "Succeed"
        assert world.count("POST", JOBS) == 5 * flows
        assert world.count("PATCH", JOBFLOWS, subresource="status") <= 6 * flows


async def lose_all_records(world: Cluster, job: str) -> None:
    await world.client.delete(JOBS, NAMESPACE, job)
    empty = json.dumps({"status": None}).encode()
    await world.client.patch(JOBFLOWS, NAMESPACE, "f", empty, subresource="status")
    assert (await world.flow("f")).status.conditions is None


async def run_and_lose_records(world: Cluster, end: str, condition: str) -> JobFlow:
    """a ends and b starts because of that; then every record of the end except b is lost."""
    depends_on = {"targets": ["a"], "condition": condition}
    steps = [{"name": "a"}, {"name": "b", "dependsOn": depends_on}]
    await world.apply(template("a"), template("b"), flow("f", {}, flows=steps))
    async with world.ends({"f-a": end}, otherwise="Running"):
        async with world.controller():
            await world.until_jobs(**{"f-a": end, "f-b": "Running"})
        await lose_all_records(world, "f-a")
        async with world.controller():
            await world.until("f", lambda found: found.status.conditions is not None)
            await set_phase(world.client, "f-b", "Completed")
            return await world.ended("f")


@pytest.mark.parametrize(
    ("end", "condition", "phase"),
    [("Completed", "Finished", "Succeed"), ("Failed", "Finished", "Failed")],
)
async def test_a_step_whose_records_are_lost_is_not_run_again(
    end: str, condition: str, phase: str
) -> None:
    async with cluster() as world:
        done = await run_and_lose_records(world, end, condition)
        assert done.status.state.phase == phase
        assert condition_of(done, "a").phase == end
        assert world.count("POST", JOBS) == 2
        assert (await world.jobs()).keys() == {"f-b"}


async def test_flows_run_by_the_clock_of_the_api_server(world: Cluster) -> None:
    date = "Sun, 29 Nov 2015 10:00:00 GMT"
    world.client.clock.answered(date, boot_clock(), boot_clock())
    await world.apply(template("a"), flow("f", {"a": ""}))
    async with world.controller(world.client, now=None), world.ends():
        done = await world.ended("f")
    assert done.status.start_time is not None and done.status.start_time.year == 2015
