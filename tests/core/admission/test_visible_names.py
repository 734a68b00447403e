"""Direct and indirect dependencies of steps."""

from hypothesis import given
from hypothesis import strategies as st

from jobflow.api.jobflow import DependsOn, Step
from jobflow.core.admission.analysis.visible_names import Upstream
from jobflow.core.spec.graph import Graph

ARROWS = st.lists(st.lists(st.integers(0, 9), max_size=3), min_size=1, max_size=10)


def reached(targets: list[list[int]], step: int) -> set[int]:
    """All that a step depends on, found by walking."""
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


def test_it_answers_what_it_was_not_told_to_look_into() -> None:
    steps = [
        Step(name=name, depends_on=DependsOn(targets=targets.split()))
        for name, targets in {"a": "", "b": "a", "c": "b", "d": ""}.items()
    ]
    upstream = Upstream(Graph(steps))
    assert upstream.has(1, 0)
    for _ in range(2):
        assert [upstream.has(2, target) for target in (0, 1, 3)] == [True, True, False]
    assert not upstream.has(0, 2)
