"""Steps with runs and retries for tests of `plan`, and ways in which their vcjobs end.

The step is `a`, and `b` depends on it. No decisions are made here.
"""

from dataclasses import replace
from typing import Any

import msgspec

from jobflow.api.flow.control import Backoff, ForEach, Repeat, Retry
from jobflow.api.flow.status import RunCondition
from jobflow.api.flow.step import Step
from support.plan.plan_pods import pod_of
from support.plan.plan_world import World, world_of
from support.plan.planned import Planned
from support.plan.steps import after
from support.sandbox.containers import ended, with_containers


def two_steps(*, condition: str | None = None, **fields: Any) -> World:
    steps = [Step(name="a", **fields), Step(name="b", depends_on=after("a", condition=condition))]
    return world_of(steps)


def for_each(count: int = 3, *, parallelism: int | None = None, **fields: Any) -> World:
    return two_steps(for_each=ForEach(count=count, parallelism=parallelism), **fields)


def repeated(until: str = "outputs.done", most: int = 3, **fields: Any) -> World:
    return two_steps(repeat=Repeat(until=until, max=most), **fields)


def retried(limit: int = 2, *, step: dict[str, Any] | None = None, **retry: Any) -> World:
    """`a` is retried, with backoffs of a second unless `retry` sets another one."""
    retry.setdefault("backoff", Backoff(duration="1s", factor=1))
    return two_steps(retry=Retry(limit=limit, **retry), **(step or {}))


def end_jobs(world: World, phase: str, *names: str) -> World:
    """Set the phase of these vcjobs a second later, and apply plans until nothing is left to do."""
    world = world.later(1)
    for name in names:
        world = world.ended(name, phase)
    return world.settled()


def finish(
    world: World, name: str, message: str, *, phase: str = "Completed", watched: bool = True
) -> World:
    """End a vcjob whose pod has a termination message. Nothing is planned after it yet."""
    world = world.later(1).ended(name, phase)
    job = world.jobs[name]
    failed = phase != "Completed"
    pod = pod_of(job, "t", 0, "Failed" if failed else "Succeeded")
    pod = with_containers(pod, ended(int(failed), message=message), node=f"n-{name}")
    pods = {job.metadata.uid: {pod.metadata.name: pod}}
    seen = {**world.pods, **pods} if watched else world.pods
    return replace(world, live={**world.live, **pods}, pods=seen)


def wait(world: World) -> World:
    """Wait until the next plan is due, and apply plans until nothing is left to do."""
    wake = world.plan().plan.requeue_after
    assert wake is not None, "no plan is due"
    return world.later(wake.total_seconds()).settled()


def jobs_in(world: World) -> dict[str, str]:
    names = [name for name in sorted(world.jobs) if name not in world.deleted]
    return {name: world.jobs[name].phase for name in names}


def runs(planned: Planned, step: str = "a") -> dict[int, str]:
    """The phase and reason of each run that has started: `Completed`, `Failed JobFailed`."""
    known = planned.conditions[step].runs or []
    return {
        run.index: f"{run.phase} {run.reason}".strip() for run in known if run.index is not None
    }


def run(planned: Planned, index: int, step: str = "a") -> RunCondition:
    return next(entry for entry in planned.conditions[step].runs or () if entry.index == index)


def with_step(world: World, name: str, **fields: Any) -> World:
    """Change these fields of a step, as if it had always had them."""
    steps = [
        msgspec.structs.replace(step, **fields) if step.name == name else step
        for step in world.flow.steps
    ]
    return world.with_spec(flows=steps)
