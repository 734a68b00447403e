"""Random flows with every control primitive end as the reference says."""

import pytest
from hypothesis import given, seed

from model.carrying import Carried, Case
from model.random_flows import cases
from support.laws.effort_of_laws import tries

SHARES = 6
"""Each number draws other flows: 300 in `make test`, 10,000 in `make test-long`."""


@pytest.mark.law
@pytest.mark.parametrize("share", range(SHARES))
def test_a_flow_goes_and_ends_as_the_reference_says(share: int) -> None:
    @seed(share)
    @given(cases())
    @tries(56)
    def law(case: Case) -> None:
        Carried(case).to_the_end()

    law()
