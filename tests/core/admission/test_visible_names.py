"""Direct and indirect dependencies of steps."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jobflow.api.jobflow import DependsOn, Step
from jobflow.core.admission.analysis.visible_names import Upstream
from jobflow.core.spec.graph import Graph

ARROWS = st.lists(st.lists(st.integers(0, 9), max_size=3), min_size=1, max_size=10)


def reached(targets: list[list[int]], step: int) -> set[int]:
    found: set[int] = set()
    work = [step]
    while work:
        for target in targets[work.pop()]:
            if target not in found:
                found.add(target)
                work.append(target)
    return found


@given(ARROWS)
def test_upstream_is_what_a_walk_finds(drawn: list[list[int]]) -> None:
    targets = [[t for t in row if t < i] for i, row in enumerate(drawn)]
    names = [f"s{i}" for i in range(len(targets))]
    graph = Graph(
        [
            Step(name=name, depends_on=DependsOn(targets=[f"s{t}" for t in row]))
            for name, row in zip(names, targets, strict=True)
        ]
    )
    upstream = Upstream(graph)
    pairs = [(i, j) for i in range(len(names)) for j in range(len(names)) if i != j]
    upstream.ask(pairs[::2])
    assert {pair: upstream.has(*pair) for pair in pairs} == {
        (i, j): j in reached(targets, i) for i, j in pairs
    }
