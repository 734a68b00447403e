"""Small flows with explicit scripts, which run to their end as the reference says."""

from functools import partial
from typing import Any

import msgspec
import pytest

from jobflow.api.flow.control import Patch, Retry
from jobflow.api.flow.jobflow import JobFlow, JobFlowSpec
from jobflow.api.flow.step import DependsOn, Step
from jobflow.api.resources import ObjectMeta
from model.acting import Script
from model.carrying import Case, Simulation
from model.random_values import TEMPLATES
from support.plan.plan_world import World
from support.plan.steps import after
from support.plan.world_state import FLOW_UID, NOW


def end_of(
    *steps: Step,
    commands: tuple[tuple[int, str], ...] = (),
    scripts: dict[str, tuple[Script, ...]],
    crashes: int | None = None,
    **spec: Any,
) -> World:
    """Return the flow at its end. Steps without a script complete; each uses the template t."""
    body = JobFlowSpec(flows=list(steps), **spec)
    metadata = ObjectMeta(
        name="f", namespace="ns", uid=FLOW_UID, generation=1, creation_timestamp=NOW
    )
    names = [step.name for step in (*steps, *(body.finally_ or ()))]
    by_step = {name: scripts.get(name, (Script(),)) for name in names}
    case = Case(
        JobFlow(metadata=metadata, spec=body), TEMPLATES, by_step, commands, crashes=crashes
    )
    return Simulation(case).run_to_end()


def step(name: str, **fields: Any) -> Step:
    return Step(name=name, template="t", **fields)


def matching(targets: str, **fields: Any) -> DependsOn:
    return msgspec.structs.replace(after(targets, **fields), items="Matching")


def use_output(step: str) -> Patch:
    return Patch(job_spec={"queue": f"q-$(steps.{step}.outputs.n)"})


def reasons(world: World) -> dict[str, str]:
    conditions = world.flow.status.conditions or {}
    return {key.removeprefix("f-"): condition.reason for key, condition in conditions.items()}


FAILS = (Script(lasts=1, end="Failed"),)
EVICTED = Script(end="Terminated", disrupted=True, watched=False)
"""Its pods have to be read."""
ASKS = Retry(limit=2, when="outputs.n > 1")
NO_SUCH_ITEM = 'steps["a"].items[0].phase == "Completed"'


def row(title: str, reasons: dict[str, str], *steps: Step, jobs: str = "", **fields: Any) -> Any:
    """A small flow and how it ends: the reason of each step, and its vcjobs (`f-…`) unless ""."""
    flow = partial(end_of, *steps, **{"scripts": {}, **fields})
    return pytest.param(flow, reasons, jobs, id=title)
