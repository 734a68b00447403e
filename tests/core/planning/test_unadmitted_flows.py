"""Whatever a flow, its status and its vcjobs say, a plan is made of it, and there are words for
it: one flow that nobody understands is not to hold up the others."""

from __future__ import annotations

from random import Random

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from jobflow.api.flow_status import JobFlowStatus
from jobflow.api.jobflow import JobFlow
from jobflow.core.admission.analysis.flow_facts import Known
from jobflow.core.admission.validate import validate_flow
from jobflow.core.explain.explain import explain, explain_step
from support.laws.cpu_time import least_cpu
from support.laws.effort_of_laws import tries
from support.laws.unadmitted_flows import Odd
from support.plan.plan_world import NOW, World

SEVERAL = 20
SOON = 12
"""Plans after which the status of an odd flow is settled."""
LONGEST = 2.0
"""Seconds of CPU time for one plan. The longest takes 0.1 s, several times as much on a machine
that is busy."""


@given(st.integers(0, 2**32))
@tries(25)
def test_plans_are_made_of_it_until_nothing_changes_any_more(seed: int) -> None:
    odd = Odd(Random(seed))
    for _ in range(SEVERAL):
        settled(odd.world())


def settled(world: World) -> World:
    """The world once each plan's status has been stored: after a few plans there is nothing to
    store, none of them takes long, and none asks for the next one at once."""
    for _ in range(SOON):
        planned, seconds = least_cpu(world.plan, LONGEST)
        assert seconds < LONGEST
        assert not planned.asks_at_once
        status = msgspec.json.encode(planned.status)
        assert msgspec.json.decode(status, type=JobFlowStatus) == planned.status
        if planned.status == world.flow.status:
            return world
        world = world.with_status(planned.status)
    raise AssertionError(f"the status changes for ever: {world.plan().status}")


@given(st.integers(0, 2**32))
@tries(25)
def test_it_is_judged_and_explained(seed: int) -> None:
    odd = Odd(Random(seed))
    for _ in range(SEVERAL):
        world = odd.world()
        flow: JobFlow = world.flow
        assert explain(flow, now=NOW).sentences
        for name in {step.name for step in flow.all_steps}:
            assert explain_step(flow, name, now=NOW).sentences
        validate_flow(flow, Known(templates=world.templates, queues={}))
