"""Whatever a flow, its status and its vcjobs say, a plan is made of it, and there are words for
it: one flow that nobody understands is not to hold up the others."""

from __future__ import annotations

from random import Random

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from jobflow.api.jobflow import JobFlow
from jobflow.core.explain import explain, explain_step
from jobflow.core.outline import Known
from jobflow.core.validate import validate_flow
from laws import tries
from odd import Odd
from worlds import NOW

SEVERAL = 20


@given(st.integers(0, 2**32))
@tries(50)
def test_a_plan_is_made_of_it_and_of_what_comes_of_that(seed: int) -> None:
    odd = Odd(Random(seed))
    for _ in range(SEVERAL):
        world = odd.world()
        for _ in range(3):
            planned = world.plan()
            status = msgspec.json.encode(planned.status)
            assert msgspec.json.decode(status, type=type(planned.status)) == planned.status
            world = world.with_status(planned.status)


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
