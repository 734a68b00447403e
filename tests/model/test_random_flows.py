"""Flows with every control primitive, carried through by `plan`, end as the reference says."""

from __future__ import annotations

from hypothesis import given

from laws import tries
from model.carrying import Carried, Case
from model.landed import LANDED
from model.random_flows import cases


@given(cases(LANDED))
@tries(334)
def test_a_flow_goes_and_ends_as_the_reference_says(case: Case) -> None:
    Carried(case).to_the_end()
