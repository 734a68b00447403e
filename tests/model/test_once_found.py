"""What random flows once found, as small as it was made."""

from __future__ import annotations

from typing import Any

from jobflow.api.control import ForEach, Patch, Repeat, Retry
from jobflow.api.jobflow import JobFlow, JobFlowSpec, Step
from jobflow.api.meta import ObjectMeta
from model.acting import Script
from model.carrying import Carried, Case
from model.random_flows import TEMPLATES
from worlds import FLOW_UID, NOW, World

FAILS = (Script(lasts=1, end="Failed"),)


def carried(
    *steps: Step,
    commands: tuple[tuple[int, str], ...] = (),
    scripts: dict[str, tuple[Script, ...]],
    **spec: Any,
) -> World:
    """The flow at its end; steps without a script complete. Each runs the template t."""
    made = JobFlowSpec(flows=list(steps), **spec)
    metadata = ObjectMeta(
        name="f", namespace="ns", uid=FLOW_UID, generation=1, creation_timestamp=NOW
    )
    names = [step.name for step in (*steps, *(made.finally_ or ()))]
    told = {name: scripts.get(name, (Script(),)) for name in names}
    case = Case(JobFlow(metadata=metadata, spec=made), TEMPLATES, told, commands)
    return Carried(case).to_the_end()


def reasons(world: World) -> dict[str, str]:
    conditions = world.flow.status.conditions or {}
    return {key.removeprefix("f-"): condition.reason for key, condition in conditions.items()}


def test_what_sets_off_an_abort_is_not_aborted_by_it() -> None:
    retry = Retry(limit=2, when="outputs.n > 1")
    b = Step(name="b", template="t", retry=retry)
    world = carried(b, scripts={"b": FAILS}, failure_policy="Abort")
    assert reasons(world) == {"b": "ExpressionError"}


def test_a_create_that_is_refused_sets_off_an_abort_and_is_told() -> None:
    world = carried(
        Step(name="a", template="t", retry=Retry(limit=1)),
        Step(name="b", template="t"),
        scripts={"a": (Script(lasts=9),), "b": (Script(refused=True),)},
        failure_policy="Abort",
    )
    assert reasons(world) == {"a": "FailurePolicy", "b": "Refused"}


def test_an_attempt_that_was_ended_for_good_is_not_asked_whether_to_try_again() -> None:
    world = carried(
        Step(name="b", template="t", retry=Retry(limit=2, when="outputs.n > 1")),
        Step(name="c", template="t"),
        scripts={"b": (Script(lasts=9),), "c": FAILS},
        failure_policy="Abort",
    )
    assert reasons(world) == {"b": "FailurePolicy", "c": "JobFailed"}


def test_outputs_of_a_job_that_completes_though_it_was_to_be_aborted_are_kept() -> None:
    """A step that completed never runs again, so they would be lost for good."""
    last = Step(name="y", template="t", patch=Patch(job_spec={"queue": "q-$(steps.c.outputs.n)"}))
    world = carried(
        Step(name="c", template="t"),
        finally_=[last],
        commands=((3, "AbortJob"), (6, "ResumeJob")),
        scripts={"c": (Script(lasts=3, output={"n": 0}),)},
    )
    assert world.flow.status.state.phase == "Succeed"


def test_a_retried_loop_goes_on_with_what_has_not_completed() -> None:
    world = carried(
        Step(name="a", template="t", for_each=ForEach(items=["x", "y"])),
        Step(name="r", template="t", repeat=Repeat(until="outputs.n > 1", max=3)),
        commands=((20, "RestartJob"),),
        scripts={
            "a": (Script(), Script(lasts=1, end="Failed"), Script()),
            "r": (Script(output={"n": 0}), Script(end="Failed"), Script(output={"n": 2})),
        },
        failure_policy="Continue",
    )
    assert world.flow.status.state.phase == "Succeed"
    names = {"f-a-0", "f-a-1", "f-a-1-r1", "f-r-0", "f-r-1", "f-r-1-r1"}
    assert set(world.jobs) == names
