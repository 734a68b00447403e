"""Laws of timelines."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobflow.core.timelines.timeline import timeline
from model.carrying import Case, Simulation
from model.random_flows import cases
from support.laws.acyclic_graphs import Targets, acyclic_graphs
from support.laws.effort_of_laws import tries
from support.plan.timelines import check_laws, done, flow_of, of, record, seconds


@given(acyclic_graphs(), st.data())
def test_nothing_waits_on_the_path_if_each_step_starts_at_once(
    targets: Targets, data: st.DataObject
) -> None:
    ends: list[int] = []
    records = []
    for node, row in enumerate(targets):
        start = max((ends[target] for target in row), default=0)
        ends.append(start + data.draw(st.integers(1, 5)))
        records.append(record(f"s{node}", (start, start, ends[node])))
    steps: dict[str, Any] = {
        f"s{node} <- {' '.join(f's{target}' for target in row)}".removesuffix(" <- "): done(
            f"s{node}"
        )
        for node, row in enumerate(targets)
    }
    found = of(flow_of(steps, records, end=max(ends, default=0)))
    assert seconds(found) == [0, 0, max(ends, default=0)]
    for before, behind in pairwise(found.path):
        assert int(before.step[1:]) in targets[int(behind.step[1:])]


@pytest.mark.law
@given(cases())
@tries(56)
def test_the_path_takes_all_the_time_of_a_random_flow_at_every_moment(case: Case) -> None:
    simulation = Simulation(case)
    check_at_each_moment(simulation)


def check_at_each_moment(simulation: Simulation) -> None:
    """Run a flow to its end, and check the timeline at each moment."""
    advance = simulation.advance

    def advance_and_check() -> None:
        advance()
        flow = simulation.world.flow
        found = timeline(flow, now=simulation.world.now)
        if found is not None:
            check_laws(found)
        assert (found is None) == (flow.status.start_time is None)

    simulation.advance = advance_and_check  # type: ignore[method-assign]
    simulation.run_to_end()
