"""Steps with runs and retries for tests of `plan`: what they are, and how their vcjobs end.

The step is `a`, and `b` depends on it. Nothing here decides anything.
"""

from dataclasses import replace
from typing import Any

import msgspec

from jobflow.api.control import Backoff, ForEach, Repeat, Retry
from jobflow.api.flow_status import RunCondition
from jobflow.api.jobflow import Step
from support.plan.plan_pods import pod_of
from support.plan.plan_world import World, world_of
from support.plan.planned import Planned
from support.plan.steps import after
from support.sandbox.containers import ended, with_containers


def stepped(*, condition: str | None = None, **fields: Any) -> World:
    steps = [Step(name="a", **fields), Step(name="b", depends_on=after("a", condition=condition))]
    return world_of(steps)


def each(count: int = 3, *, parallelism: int | None = None, **fields: Any) -> World:
    return stepped(for_each=ForEach(count=count, parallelism=parallelism), **fields)


def repeated(until: str = "outputs.done", most: int = 3, **fields: Any) -> World:
    return stepped(repeat=Repeat(until=until, max=most), **fields)


def retried(limit: int = 2, *, step: dict[str, Any] | None = None, **retry: Any) -> World:
    """`a` is retried, with backoffs of a second unless that is said."""
    retry.setdefault("backoff", Backoff(duration="1s", factor=1))
    return stepped(retry=Retry(limit=limit, **retry), **(step or {}))


def ends(world: World, phase: str, *names: str) -> World:
    """These vcjobs go into a phase, a second later; then all is done that can be."""
    world = world.later(1)
    for name in names:
        world = world.ended(name, phase)
    return world.settled()


def leaves(
    world: World, name: str, message: str, *, phase: str = "Completed", watched: bool = True
) -> World:
    """A vcjob ends, and its pod leaves a message; it is not yet planned what follows."""
    world = world.later(1).ended(name, phase)
    job = world.jobs[name]
    failed = phase != "Completed"
    pod = pod_of(job, "t", 0, "Failed" if failed else "Succeeded")
    pod = with_containers(pod, ended(int(failed), message=message), node=f"n-{name}")
    pods = {job.metadata.uid: {pod.metadata.name: pod}}
    seen = {**world.pods, **pods} if watched else world.pods
    return replace(world, live={**world.live, **pods}, pods=seen)


def waited(world: World) -> World:
    """Wait until the next plan is due, and apply plans until nothing is left to do."""
    wake = world.plan().plan.requeue_after
    assert wake is not None, "no plan is due"
    return world.later(wake.total_seconds()).settled()


def there(world: World) -> dict[str, str]:
    left = [name for name in sorted(world.jobs) if name not in world.deleted]
    return {name: world.jobs[name].phase for name in left}


def runs(planned: Planned, step: str = "a") -> dict[int, str]:
    """The phase and reason of each run that has begun: `Completed`, `Failed JobFailed`."""
    known = planned.conditions[step].runs or []
    return {
        run.index: f"{run.phase} {run.reason}".strip() for run in known if run.index is not None
    }


def run(planned: Planned, index: int, step: str = "a") -> RunCondition:
    return next(each for each in planned.conditions[step].runs or () if each.index == index)


def with_step(world: World, name: str, **fields: Any) -> World:
    """The flow as if the step had always had these fields."""
    steps = [
        msgspec.structs.replace(step, **fields) if step.name == name else step
        for step in world.flow.steps
    ]
    return world.with_spec(flows=steps)
