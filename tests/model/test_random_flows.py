"""Random flows with every control primitive run as the reference says."""

from dataclasses import replace

import pytest
from hypothesis import Phase, find, given, seed, settings
from hypothesis import strategies as st

from jobflow.api.flow.traits import WorkKind
from model.carrying import Case, Simulation
from model.random_flows import (
    EVERY,
    Drawing,
    FamilyByHand,
    RetriedFamily,
    WithChildren,
    cases,
    run_random_flows,
)
from support.laws.effort_of_laws import tries

SHARES = 6
"""Each share draws different flows: 300 in `make test`, 10,000 in `make test-long`."""


@pytest.mark.sampled(3)
@pytest.mark.law
@pytest.mark.parametrize("share", range(SHARES))
def test_a_random_flow_runs_as_the_reference_says(share: int) -> None:
    run_random_flows(cases(), share, 56)


@pytest.mark.parametrize("kind", WorkKind)
def test_random_flows_have_every_kind_of_work(kind: WorkKind) -> None:
    def runs(case: Case) -> bool:
        return any(kind in step.kinds for step in case.flow.all_steps)

    any_one = settings(max_examples=500, database=None, derandomize=True, phases=[Phase.generate])
    find(cases(), runs, settings=any_one)


@pytest.mark.sampled(3)
@pytest.mark.law
@pytest.mark.parametrize("share", range(3))
def test_a_retried_flow_with_child_flows_runs_as_the_reference_says(share: int) -> None:
    run_random_flows(cases(EVERY, RetriedFamily), share, 40)


@pytest.mark.sampled(3)
@pytest.mark.law
@pytest.mark.parametrize("share", range(3))
def test_steps_of_child_flows_by_hand_run_as_the_reference_says(share: int) -> None:
    run_random_flows(cases(EVERY, FamilyByHand), share, 40)


@pytest.mark.sampled(3)
@pytest.mark.law
@pytest.mark.parametrize(
    ("share", "kind"), [(0, Drawing), (1, Drawing), (2, Drawing), (3, WithChildren)]
)
def test_a_flow_that_reuses_another_runs_as_the_reference_says(
    share: int, kind: type[Drawing]
) -> None:
    """The jobs of the second flow may end in other ways."""

    @seed(share)
    @given(cases(EVERY - {"volumeClaims"}, kind), st.integers(0, 2))
    @tries(24)
    def law(case: Case, shift: int) -> None:
        earlier = Simulation(case)
        earlier.run_to_end()
        scripts = {name: (*s[shift:], *s[:shift]) for name, s in case.scripts.items()}
        Simulation(replace(case, scripts=scripts), earlier=earlier).run_to_end()

    law()
