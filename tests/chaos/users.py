"""What users and other controllers do: they create flows, steer them, and get in their way."""

import asyncio
import contextlib
import json
import time
from collections.abc import Sequence
from typing import Any

from chaos.flows import SHAPES, flow, templates
from chaos.schedule import Disturbance, Kind, Lane
from chaos.volcano import ERRORS
from chaos.world import World
from jobflow.api import labels
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import COMMANDS, JOBFLOWS, JOBS, JOBTEMPLATES, Resource
from jobflow.api.volcano.command import Action
from jobflow.api.volcano.job import Job
from jobflow.kube.client import ApiError
from support.sandbox.running_controller import flow_command

AGAIN_SECONDS = 0.5


async def create_flow(world: World, event: Disturbance) -> None:
    """Create a flow, however often it takes."""
    manifest = flow(f"f{event.number}", event.choose(sorted(SHAPES)))
    await create(world, JOBFLOWS, manifest)


async def create(world: World, resource: Resource, manifest: dict[str, Any]) -> None:
    """Create an object unless it exists."""
    body, api = json.dumps(manifest).encode(), world.api
    while True:
        try:
            await api.client.create(resource, api.namespace, body)
            return
        except ApiError as error:
            if error.already_exists:
                return
        except ERRORS:
            pass
        await asyncio.sleep(AGAIN_SECONDS)


async def create_templates(world: World) -> None:
    """Create the templates that do not exist, also those of which a restored etcd knows only that
    they were deleted."""
    for template in templates():
        await create(world, JOBTEMPLATES, template)


# ---------------------------------------------------------------------- commands


def outermost(world: World, *, final: bool = False) -> list[JobFlow]:
    """Return the outermost flows that have finished, or those that have not, by name."""
    found = [each for each in world.volcano.flows if each.final == final and not each.is_child]
    return sorted(found, key=lambda each: each.metadata.name)


async def command(world: World, target: JobFlow, action: str, name: str) -> None:
    """Send a Command, unless the API server does not answer."""
    body = flow_command(target.metadata, action, name)
    with contextlib.suppress(*ERRORS):
        await world.api.client.create(COMMANDS, world.api.namespace, body)


async def cancel(world: World, event: Disturbance) -> None:
    for target in picked(event, outermost(world)):
        world.records.cancelled.add(target.metadata.name)
        await command(world, target, Action.TERMINATE_JOB, f"cancel-{event.number}")


async def retry(world: World, event: Disturbance) -> None:
    """Retry a flow that has failed."""
    failed = [each for each in outermost(world, final=True) if each.status.state.phase == "Failed"]
    for target in picked(event, failed):
        world.records.retried_at[target.metadata.name].append(time.monotonic())
        await command(world, target, Action.RESTART_JOB, f"retry-{event.number}")


async def suspend(world: World, event: Disturbance) -> None:
    """Suspend a flow for a while."""
    for target in picked(event, outermost(world)):
        await command(world, target, Action.SUSPEND_FLOW, f"suspend-{event.number}")
        await asyncio.sleep(event.seconds)
        await command(world, target, Action.RESUME_JOB, f"resume-{event.number}")


# ---------------------------------------------------------------------- in the way


def picked(event: Disturbance, among: Sequence[Any]) -> list[Any]:
    """Return the object that an event is about, if any exists."""
    return [event.choose(among)] if among else []


def running_jobs(world: World) -> list[Job]:
    """Return the jobs that run, as statuses of flows say, by name."""
    names = {name for each in world.volcano.flows for name in each.status.running_jobs or ()}
    found = [job for job in world.volcano.jobs if job.metadata.name in names and not job.ended]
    return sorted(found, key=lambda job: job.metadata.name)


async def delete_job(world: World, event: Disturbance) -> None:
    for job in picked(event, running_jobs(world)):
        attempt = world.records.see(job)
        attempt.deleted_by_user = True
        attempt.leave()
        await delete(world, JOBS, job.metadata.name, uid=job.metadata.uid)


EDITS: tuple[dict[str, Any], ...] = (
    {"labels": None},
    {"annotations": None},
    {"labels": {labels.STEP: "zzz", labels.ATTEMPT: "7"}, "annotations": {labels.STEP: "zzz"}},
    {"ownerReferences": None},
)


async def edit_job(world: World, event: Disturbance) -> None:
    for job in picked(event, running_jobs(world)):
        changes = EDITS[event.number % len(EDITS)]
        await edit(world, JOBS, job.metadata.name, {"metadata": changes})


async def write_status(world: World, event: Disturbance) -> None:
    """Write over the status of a flow as Volcano's own controller does."""
    for target in picked(event, outermost(world)):
        world.records.overwritten.add(target.metadata.name)
        foreign = {"status": {"state": {"phase": "Failed"}, "jobStatusList": None}}
        await edit(world, JOBFLOWS, target.metadata.name, foreign, "status")


async def delete_flow(world: World, event: Disturbance) -> None:
    for target in picked(event, outermost(world)):
        await delete(world, JOBFLOWS, target.metadata.name)


async def delete(world: World, resource: Resource, name: str, uid: str | None = None) -> None:
    with contextlib.suppress(*ERRORS):
        await world.api.client.delete(resource, world.api.namespace, name, uid=uid)


async def change_template(world: World, event: Disturbance) -> None:
    template = event.choose(templates())
    changes = {"spec": {"maxRetry": 1 + event.number}}
    await edit(world, JOBTEMPLATES, template["metadata"]["name"], changes)


async def replace_template(world: World, event: Disturbance) -> None:
    """Delete a template, and create it again later."""
    template = event.choose(templates())
    await delete(world, JOBTEMPLATES, template["metadata"]["name"])
    await asyncio.sleep(event.seconds)
    await create_templates(world)


async def edit(
    world: World, resource: Resource, name: str, changes: dict[str, Any], subresource: str = ""
) -> None:
    api, body = world.api, json.dumps(changes).encode()
    by = [("fieldManager", "vc-controller-manager")]
    with contextlib.suppress(*ERRORS):
        await api.client.patch(
            resource, api.namespace, name, body, subresource=subresource, query=by
        )


STEERING = Lane(
    (
        Kind("a flow is cancelled", cancel),
        Kind("a failed flow is retried", retry),
        Kind("a flow is suspended", suspend, (0.5, 6.0)),
        Kind("a job is deleted", delete_job),
        Kind("a job is edited", edit_job),
        Kind("the status of a flow is overwritten", write_status),
        Kind("a flow is deleted", delete_flow),
        Kind("a template is changed", change_template),
        Kind("a template is deleted", replace_template, (0.0, 4.0)),
    ),
    pauses=(0.5, 3.0),
)
SUBMITTING = Lane((Kind("a flow is created", create_flow),), pauses=(0.3, 2.5))
