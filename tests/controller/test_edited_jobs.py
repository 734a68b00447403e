"""Jobs of a running flow that somebody edits, or replaces by others of their names."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from jobflow.api import labels
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import StepCondition
from jobflow.api.resources import EVENTS, JOBFLOWS, JOBS, Object
from jobflow.api.volcano.job import Job
from support.sandbox.running_controller import (
    NAMESPACE,
    Cluster,
    cluster,
    flow,
    merge,
    set_phase,
    template,
)

EDITS: dict[str, dict[str, Any]] = {
    "the annotation": {"annotations": {labels.STEP: "zzz"}},
    "labels and annotations": {"labels": None, "annotations": None},
    "the owner": {"ownerReferences": None},
    "everything": {"labels": None, "annotations": None, "ownerReferences": None},
}


def condition_of(flow: JobFlow, step: str) -> StepCondition:
    return (flow.status.conditions or {}).get(f"f-{step}", StepCondition())


def runs(step: str) -> Callable[[JobFlow], bool]:
    return lambda flow: condition_of(flow, step).phase == "Running"


async def start(world: Cluster) -> None:
    """Start a flow whose first step runs until the test ends it."""
    await world.apply(template("a"), template("b"), flow("f", {"a": "", "b": "a"}))
    await world.until("f", runs("a"))


class Event(Object, frozen=True, kw_only=True):
    reason: str = ""
    message: str = ""


async def until_event(world: Cluster, reason: str, message: str) -> None:
    def is_sent(events: Mapping[str, Event]) -> bool:
        return any(each.reason == reason and message in each.message for each in events.values())

    await world.seen(EVENTS, Event, is_sent)


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
async def test_an_edited_job_runs_once_and_ends_its_step(edit: dict[str, Any]) -> None:
    async with cluster() as world, world.ends({"f-a": "Running"}):
        async with world.controller():
            await start(world)
            await merge(world.client, JOBS, "f-a", {"metadata": edit})
            await set_phase(world.client, "f-a", "Completed")
            assert (await world.ended("f")).status.state.phase == "Succeed"
        assert world.count("POST", JOBS) == 2


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
async def test_a_job_edited_without_a_controller_ends_its_step(edit: dict[str, Any]) -> None:
    async with cluster() as world, world.ends({"f-a": "Running"}):
        async with world.controller():
            await start(world)
        await merge(world.client, JOBS, "f-a", {"metadata": edit})
        async with world.controller():
            await set_phase(world.client, "f-a", "Completed")
            assert (await world.ended("f")).status.state.phase == "Succeed"
        assert world.count("POST", JOBS) == 2


async def test_an_edit_is_an_event() -> None:
    async with cluster() as world, world.ends({"f-a": "Running"}), world.controller():
        await start(world)
        await merge(world.client, JOBS, "f-a", {"metadata": {"ownerReferences": None}})
        message = (
            "somebody changed the owner references of f-a, which stays a job of the flow; it is "
            "not deleted with the flow any more"
        )
        await until_event(world, "JobEdited", message)


async def test_a_job_without_an_owner_that_is_deleted_runs_again() -> None:
    async with cluster() as world, world.ends({"f-a": "Running"}), world.controller():
        await start(world)
        await merge(world.client, JOBS, "f-a", {"metadata": {"ownerReferences": None}})
        await world.client.delete(JOBS, NAMESPACE, "f-a")
        assert condition_of(await world.ended("f"), "a").attempts == 2


async def test_a_job_without_an_owner_is_kept_after_the_end() -> None:
    async with cluster() as world, world.ends({"f-a": "Running"}), world.controller():
        steps = {"a": "", "b": ""}
        await world.apply(template("a"), template("b"), flow("f", steps, jobRetainPolicy="delete"))
        await world.until("f", runs("a"))
        await merge(world.client, JOBS, "f-a", {"metadata": {"ownerReferences": None}})
        await set_phase(world.client, "f-a", "Completed")
        await world.until_jobs(f_a="Completed", f_b=None)


async def test_a_namesake_is_neither_taken_nor_deleted() -> None:
    async with cluster() as world, world.ends({"f-a": "Running"}):
        async with world.controller():
            await start(world)
            job = next(item for item in await world.raw(JOBS) if item["metadata"]["name"] == "f-a")
            uid = await replace_job(world, job)
            await until_event(world, "JobLost", "another job has its name now")
            done = await world.ended("f")
        assert condition_of(done, "a").job == "f-a-r1"
        assert done.status.state.phase == "Succeed"
        left = {item["metadata"]["name"]: item["metadata"]["uid"] for item in await world.raw(JOBS)}
        assert left["f-a"] == uid


async def replace_job(world: Cluster, job: dict[str, Any]) -> str:
    """Delete a job and create it again as it was, and return the UID of the new one."""
    await world.client.delete(JOBS, NAMESPACE, "f-a")
    kept = ("name", "namespace", "labels", "annotations", "ownerReferences")
    metadata = {key: job["metadata"][key] for key in kept}
    body = json.dumps({**job, "metadata": metadata}).encode()
    answer = json.loads(await world.client.create(JOBS, NAMESPACE, body))
    await world.seen(JOBS, Job, lambda jobs: jobs["f-a"].status.state.phase == "Running")
    return str(answer["metadata"]["uid"])


async def test_an_edited_child_flow_runs_once_and_ends_its_step() -> None:
    steps = [{"name": "a", "flow": {"flows": [{"name": "x", "template": "a"}]}}]
    async with cluster() as world, world.ends({"f-a-x": "Running"}):
        async with world.controller():
            await world.apply(template("a"), flow("f", {}, flows=steps))
            await world.until("f", runs("a"))
            edit = {"labels": None, "annotations": None, "ownerReferences": None}
            await merge(world.client, JOBFLOWS, "f-a", {"metadata": edit})
            await set_phase(world.client, "f-a-x", "Completed")
            assert (await world.ended("f")).status.state.phase == "Succeed"
        assert world.count("POST", JOBFLOWS) == 2
