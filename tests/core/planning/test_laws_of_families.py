"""Properties of `plan`, of flows and their child flows that all run."""

from dataclasses import replace
from functools import partial
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobflow.api.flow.control import ForEach
from jobflow.api.flow.status import ENDED_STEP_PHASES
from jobflow.api.flow.step import Step
from support.laws.effort_of_laws import tries
from support.laws.random_families import Family, families
from support.plan.plan_world import world_of
from support.plan.steps import template

FAMILIES = families(60)


@given(FAMILIES, st.integers(0, 30), st.sampled_from(["RestartJob", "RetryTolerated"]))
@tries(80)
def test_every_flow_of_a_family_ends_and_nothing_is_made_twice(
    family: Family, more: int, action: str
) -> None:
    """After its end the outermost flow is retried, and more happens."""
    family.end_well()
    family.root.order(action)
    for _ in range(more):
        family.happen()
    family.end_well()
    for member in family.members.values():
        conditions = member.world.plan().conditions
        assert {condition.phase for condition in conditions.values()} <= ENDED_STEP_PHASES
        assert not member.live()
        for key, count in member.created.items():
            assert count <= 1 + member.replaceable[key], f"{member.name}: {key}"
        assert set(member.handled.values()) <= {1}, "a Command was obeyed twice"


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    "action", ["SuspendFlow", "AbortJob", "ResumeJob", "TerminateJob", "TerminateNow"]
)
@given(FAMILIES)
@tries(24)
def test_a_command_on_a_flow_reaches_all_flows_below_it(action: str, family: Family) -> None:
    family.settle()
    family.root.order(action)
    family.settle()
    family.obey()
    family.settle()
    family.check_agreement()
    family.check_aborted()
    family.end_well()


def test_a_flow_below_that_has_succeeded_waits_for_its_turn_to_run_its_tolerated_failures() -> None:
    child = {"flows": [{"name": "x", "template": "t", "continueOnFailure": True}]}
    steps = [Step(name="a", flow=child, for_each=ForEach(count=2, parallelism=1))]
    family = Family(replace(world_of(steps), templates={"t": template("t")}), Random(0))
    for index in range(2):
        family.settle()
        member = family.members[f"f-a-{index}"]
        family.of(member, partial(member.enter_phase, f"f-a-{index}-x", "Failed"))
    family.settle()
    family.root.order("RetryTolerated")
    family.settle()
    assert [len(member.live()) for member in family.members.values()] == [1, 1, 0]
    family.check_agreement()
    family.end_well()
