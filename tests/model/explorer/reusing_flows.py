"""Small flows that reuse one that has ended."""

from dataclasses import replace
from typing import Any

from jobflow.api.flow.control import Approval, ForEach, Repeat
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.step import Step
from jobflow.core.planning.actions import CreateJob
from jobflow.core.planning.observed.child_flow import observe
from support.plan.loop_worlds import with_step
from support.plan.plan_world import World, flow
from support.plan.reusing_worlds import reusing
from support.plan.steps import mounting, step, template


def _reused(world: World, **changes: Step) -> World:
    """Return the world of a flow that reuses this one at its end. These steps change."""
    again = reusing(world)
    for name, fields in changes.items():
        again = with_step(again, name, env=fields.env, for_each=fields.for_each)
    return again


def _approved(world: World) -> World:
    """Return a flow of approvals at its end."""
    return world.settled().with_command("ApproveStep", text="ok").run()


def _mounting() -> World:
    """Return a flow whose jobs mount a claim, and whose second step has failed."""
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    world = flow("a", b="a").with_spec(volume_claims={"data": claim})
    templates = {name: template(name, mounting("data")) for name in world.templates}
    world = replace(world, templates=templates)
    return world.run(lambda step: "Failed" if step == "b" else "Completed")


def _with_child() -> tuple[World, JobFlow]:
    """Return a flow with a child flow of two steps at its end, and that child flow."""
    world = flow(a=step(flow=CHILD_OF_TWO), b="a").with_spec()
    (create,) = (each for each in world.plan().plan.actions if isinstance(each, CreateJob))
    child = World(world.child_made(create), world.templates).run().flow
    return world.settled().with_job(observe(child)).run(), child


CHILD_OF_TWO: dict[str, Any] = {
    "flows": [{"name": "i"}, {"name": "j", "dependsOn": {"targets": ["i"]}}]
}
CHANGED_CHILD: dict[str, Any] = {
    "flows": [CHILD_OF_TWO["flows"][0], {**CHILD_OF_TWO["flows"][1], "env": {"S": 2}}]
}
FAMILY, _CHILD = _with_child()
CHILDREN = {_CHILD.metadata.name: _CHILD}
"""The child flows of flows that are reused, by name."""
CHANGED = Step(env={"SEED": "2"})
THRICE = Step(for_each=ForEach(count=3), env={"I": "$(index)"})
TWICE = ForEach(count=2)
UNTIL = Repeat(until="index >= 1", max=2)

REUSING: dict[str, World] = {
    "reuse": _reused(flow("a", b="a", c="b").run(), c=CHANGED),
    "reuse of one of two": _reused(flow("a", "x", b="a", c="b x").run(), x=CHANGED),
    "reuse of a failed flow": reusing(
        flow("a", b="a").settled().ended("f-a", "Completed").run(lambda name: "Failed")
    ),
    "reuse of a claim": reusing(_mounting()),
    "reuse of items": _reused(
        flow(a=step(for_each=TWICE, env={"I": "$(index)"}), b="a").run(), a=THRICE
    ),
    "reuse of decisions": _reused(
        flow(
            "a", b=step("a", when="true", for_each=ForEach(from_="[1, 2]")), c=step(when="true")
        ).run(),
        c=CHANGED,
    ),
    "reuse after any": _reused(flow("a", "x", b=step("a x", strategy="any")).run(), x=CHANGED),
    "reuse of a repeat": _reused(flow(a=step(repeat=UNTIL), b="a").run(), b=CHANGED),
    "reuse of a child flow": reusing(FAMILY),
    "reuse of half a child flow": with_step(reusing(FAMILY), "a", flow=CHANGED_CHILD),
    "reuse behind an approval": _reused(_approved(flow(ok=step(approval=Approval()), b="ok"))),
}
