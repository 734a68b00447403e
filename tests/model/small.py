"""Small flows that run to their end, with scripts for their vcjobs."""

from __future__ import annotations

from typing import Any

from jobflow.api.control import Patch
from jobflow.api.jobflow import JobFlow, JobFlowSpec, Step
from jobflow.api.meta import ObjectMeta
from model.acting import Script
from model.carrying import Carried, Case
from model.random_flows import TEMPLATES
from support.plan.plan_world import FLOW_UID, NOW, World


def carried(
    *steps: Step,
    commands: tuple[tuple[int, str], ...] = (),
    scripts: dict[str, tuple[Script, ...]],
    crashes: int | None = None,
    **spec: Any,
) -> World:
    """Return the flow at its end. Steps without a script complete; each uses the template t."""
    made = JobFlowSpec(flows=list(steps), **spec)
    metadata = ObjectMeta(
        name="f", namespace="ns", uid=FLOW_UID, generation=1, creation_timestamp=NOW
    )
    names = [step.name for step in (*steps, *(made.finally_ or ()))]
    told = {name: scripts.get(name, (Script(),)) for name in names}
    case = Case(JobFlow(metadata=metadata, spec=made), TEMPLATES, told, commands, crashes)
    return Carried(case).to_the_end()


def step(name: str, **fields: Any) -> Step:
    """A step that runs the template t."""
    return Step(name=name, template="t", **fields)


def uses_output(step: str) -> Patch:
    """A patch with the output `n` of a step."""
    return Patch(job_spec={"queue": f"q-$(steps.{step}.outputs.n)"})


def reasons(world: World) -> dict[str, str]:
    conditions = world.flow.status.conditions or {}
    return {key.removeprefix("f-"): condition.reason for key, condition in conditions.items()}
