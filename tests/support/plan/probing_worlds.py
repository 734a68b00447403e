"""Worlds in which a step probes the vcjob of its target. No decisions are made here."""

from dataclasses import replace
from typing import Any

import msgspec

from jobflow.api.flow.step import DependsOn, Probe, Step
from jobflow.api.volcano.job import TaskState
from support.plan.plan_world import World, world_of
from support.plan.planned import Planned
from support.plan.steps import after, template

SERVE: dict[str, Any] = {
    "tasks": [{"name": "ps", "replicas": 1}, {"name": "worker", "replicas": 3}]
}
SUCCEEDED = {"taskStatusList": [{"taskName": "worker", "phase": "Succeeded"}]}
HEALTHY = {"httpGetList": [{"taskName": "ps", "path": "/healthz", "port": 8080}]}
PORT = {"tcpSocketList": [{"taskName": "t", "port": 80}]}
OPEN = {"tcpSocketList": [{"taskName": "worker", "port": 2222}]}


def probed(targets: str, probe: dict[str, Any], **more: Any) -> DependsOn:
    depends_on = after(targets, **more)
    return msgspec.structs.replace(depends_on, probe=msgspec.convert(probe, Probe))


def serving(probe: dict[str, Any], *, spec: Any = None, **more: Any) -> World:
    """`next` probes `serve`, whose vcjob runs a ps and three workers."""
    steps = [Step(name="serve"), Step(name="next", depends_on=probed("serve", probe, **more))]
    world = world_of(steps)
    world = replace(world, templates={**world.templates, "serve": template("serve", spec or SERVE)})
    return world.with_jobs(serve="Running").settled()


def workers(world: World, phases: str, **more: Any) -> World:
    return world.with_pods("serve", ps="Running", worker=phases, **more)


def plan_after_reads(world: World) -> Planned:
    """The plan after all its reads, with nothing written."""
    for _ in range(3):
        planned = world.plan()
        if not planned.reads:
            return planned
        world = world.apply(planned, write=False)
    raise AssertionError("it reads without end")


def with_counts(world: World, **tasks: dict[str, int]) -> World:
    job = world.jobs["f-serve"]
    counts = {task: TaskState(phase=phases) for task, phases in tasks.items()}
    status = msgspec.structs.replace(job.status, task_status_count=counts)
    return world.with_job(msgspec.structs.replace(job, status=status))
