"""Direct and indirect dependencies of steps."""

from hypothesis import given
from hypothesis import strategies as st

from jobflow.api.flow.step import DependsOn, Step
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.analysis.places import upstream_bits
from jobflow.core.admission.rules.size_limits import MAX_STATUS, least_status
from jobflow.core.spec.graph import Graph
from support.admission.reviewed import NOTHING_KNOWN, flow_of

ARROWS = st.lists(st.lists(st.integers(0, 9), max_size=3), min_size=1, max_size=10)


def reached(targets: list[list[int]], step: int) -> set[int]:
    """Return the steps that a step depends on, found by a walk."""
    found: set[int] = set()
    work = [step]
    while work:
        for target in targets[work.pop()]:
            if target not in found:
                found.add(target)
                work.append(target)
    return found


@given(ARROWS)
def test_upstream_bits_equal_the_steps_that_a_walk_finds(drawn: list[list[int]]) -> None:
    targets = [[t for t in row if t < i] for i, row in enumerate(drawn)]
    names = [f"s{i}" for i in range(len(targets))]
    graph = Graph(
        [
            Step(name=name, depends_on=DependsOn(targets=[f"s{t}" for t in row]))
            for name, row in zip(names, targets, strict=True)
        ]
    )
    above = upstream_bits(graph)
    for i in range(len(names)):
        assert {j for j in range(len(names)) if above[i] >> j & 1} == reached(targets, i)


def test_a_flow_of_too_many_steps_is_refused() -> None:
    facts = FlowFacts(flow_of(*["a"] * 10_001), NOTHING_KNOWN)
    assert least_status(facts) > MAX_STATUS
