"""Worlds of flows with child flows for tests of `plan`: step a runs a child flow, b follows it."""

from typing import Any

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import FlowState, JobFlowStatus
from jobflow.api.flow.step import Step
from jobflow.core.planning.actions import CommandFlow
from jobflow.core.planning.observed.child_flow import observe
from support.plan.plan_world import World, world_of
from support.plan.steps import after
from support.plan.world_state import NOW

INNER: dict[str, Any] = {"flows": [{"name": "x"}]}


def parent(flow: dict[str, Any] = INNER, **fields: Any) -> World:
    """Return a flow whose step a runs a child flow, and on whose end b waits."""
    steps = [Step(name="a", flow=flow, **fields), Step(name="b", depends_on=after("a"))]
    return world_of(steps)


def child_of(world: World, name: str, phase: str, reason: str = "", **status: Any) -> JobFlow:
    """Return the child flow as stored, in this phase."""
    known = world.jobs[name].metadata
    ended = phase in ("Succeed", "Failed")
    return JobFlow(
        metadata=known,
        status=JobFlowStatus(
            **{
                "state": FlowState(phase=phase, reason=reason, message="why"),
                "start_time": NOW,
                "completion_time": world.now if ended else None,
                **status,
            }
        ),
    )


def with_child(world: World, name: str, phase: str, reason: str = "", **status: Any) -> World:
    world = world.later(1)
    return world.with_job(observe(child_of(world, name, phase, reason, **status)))


def commands(world: World) -> list[tuple[str, str]]:
    actions = world.plan().plan.actions
    return [(each.name, each.action) for each in actions if isinstance(each, CommandFlow)]


def running(world: World | None = None) -> World:
    return with_child((world or parent()).settled(), "f-a", "Running").settled()


def failed(world: World | None = None, **status: Any) -> World:
    return with_child(running(world), "f-a", "Failed", "StepFailed", **status).settled()
