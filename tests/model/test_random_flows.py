"""Random flows with every control primitive run as the reference says."""

import pytest
from hypothesis import given, seed

from model.carrying import Case, Simulation
from model.random_flows import EVERY, RetriedFamily, cases
from support.laws.effort_of_laws import tries

SHARES = 6
"""Each share draws different flows: 300 in `make test`, 10,000 in `make test-long`."""


@pytest.mark.sampled(3)
@pytest.mark.law
@pytest.mark.parametrize("share", range(SHARES))
def test_a_random_flow_runs_as_the_reference_says(share: int) -> None:
    @seed(share)
    @given(cases())
    @tries(56)
    def law(case: Case) -> None:
        Simulation(case).run_to_end()

    law()


@pytest.mark.sampled(3)
@pytest.mark.law
@pytest.mark.parametrize("share", range(3))
def test_a_retried_flow_with_child_flows_runs_as_the_reference_says(share: int) -> None:
    @seed(share)
    @given(cases(EVERY, RetriedFamily))
    @tries(40)
    def law(case: Case) -> None:
        Simulation(case).run_to_end()

    law()
