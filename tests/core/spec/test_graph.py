"""The dependency graph: order, cycles and wrong targets, for graphs of any shape and size."""

import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobflow.api.flow.step import DependsOn, Step
from jobflow.core.spec.graph import Graph
from support.laws.counted_work import lines_run


def graph(*steps: str) -> Graph:
    """Return a graph: in `graph("a", "b: a")`, b depends on a."""
    parts = (step.partition(":") for step in steps)
    return Graph([_step(name, targets.split()) for name, _, targets in parts])


def _step(name: str, targets: Sequence[str] = ()) -> Step:
    return Step(name=name, depends_on=DependsOn(targets=list(targets)) if targets else None)


def numbered(count: int, targets: Callable[[int], Sequence[int]]) -> list[Step]:
    return [_step(f"s{i}", [f"s{j}" for j in targets(i)]) for i in range(count)]


def order(of: Graph) -> list[str]:
    return [of.names[step] for step in of.order]


def cycles(of: Graph) -> list[str]:
    return [" -> ".join(of.names[step] for step in cycle) for cycle in of.cycles]


def test_a_diamond_has_its_targets_and_dependants():
    diamond = graph("a", "b: a", "c: a", "d: b c")
    assert [list(targets) for targets in diamond.targets] == [[], [0], [0], [1, 2]]
    assert diamond.dependants == [[1, 2], [3], [3], []]
    assert order(diamond) == ["a", "b", "c", "d"]
    assert len(diamond) == 4


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ((), ""),
        (("a", "b: a", "c"), "a b c"),
        (("c: b", "b: a", "a"), "a b c"),
        (("z", "c: b", "y", "b: a", "x", "a", "w"), "z y x a b c w"),
        (("d: b c", "c: a", "b: a", "a"), "a c b d"),
        (("a: nowhere", "b: b a a"), "a b"),
        (("a: c", "b: a", "c: b", "d: c", "e"), "e"),
    ],
)
def test_steps_keep_the_order_of_the_flow_if_targets_allow(steps, expected):
    assert order(graph(*steps)) == expected.split()


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (("a", "b: a"), []),
        (("a: a",), []),
        (("a: b", "b: a"), ["a -> b -> a"]),
        (("a: c", "b: a", "c: b"), ["a -> b -> c -> a"]),
        (("x", "b: x c", "c: b", "d: c", "e: f d", "f: e"), ["b -> c -> b", "e -> f -> e"]),
        # The shortest cycle through the first step of the group.
        (("a: b e", "b: a", "c: a", "d: c", "e: d"), ["a -> b -> a"]),
        # A step between two groups of cycles is in no cycle.
        (("a: b", "b: a", "m: b", "y: m z", "z: y"), ["a -> b -> a", "y -> z -> y"]),
    ],
)
def test_each_group_of_cycles_shows_one_in_start_order(steps, expected):
    assert cycles(graph(*steps)) == expected


def test_unknown_targets_and_own_names_are_recorded():
    invalid = graph("a: x a", "b: a y a x")
    assert invalid.unknown == [(0, 0), (1, 1), (1, 3)]
    assert invalid.own == [(0, 1)]
    assert [list(targets) for targets in invalid.targets] == [[], [0]]


def test_a_duplicate_name_refers_to_the_first_step():
    double = graph("a", "b", "a: b", "c: a")
    assert double.index == {"a": 0, "b": 1, "c": 3}
    assert [list(targets) for targets in double.targets] == [[], [], [1], [0]]


SIZE = 5_000


@pytest.mark.parametrize(
    ("steps", "last"),
    [
        (numbered(SIZE, lambda i: [i - 1] if i else []), SIZE - 1),
        (numbered(SIZE, lambda i: [i - 1] if i else [])[::-1], 0),
        (numbered(SIZE, lambda i: range(SIZE - 1) if i == SIZE - 1 else []), SIZE - 1),
        (numbered(SIZE, lambda i: [0] if i else []), SIZE - 1),
        (numbered(142, lambda i: range(i)), 141),
        (numbered(142, lambda i: range(i))[::-1], 0),
    ],
    ids=["chain", "chain backwards", "fan-in", "fan-out", "dense", "dense backwards"],
)
def test_large_graphs_of_any_shape_have_an_order(steps, last):
    large = Graph(steps)
    assert len(large.order) == len(large)
    assert large.order[-1] == last
    assert large.cycles == []


def test_a_cycle_through_all_of_5000_steps_is_found():
    (cycle,) = Graph(numbered(SIZE, lambda i: [(i - 1) % SIZE])).cycles
    assert cycle == [*range(SIZE), 0]


@pytest.mark.long
def test_2500_cycles_of_5000_steps_are_found():
    found = Graph(numbered(SIZE, lambda i: [i ^ 1])).cycles
    assert found == [[i, i + 1, i] for i in range(0, SIZE, 2)]


@pytest.mark.parametrize(
    "targets",
    [
        lambda i: [i + 1],
        lambda i: [j for j in (i - 1, i - 2) if j >= 0],
        lambda i: [(i * 7 + 1) % 500, (i * 3 + 2) % 500],
        lambda i: [i ^ 1],
    ],
    ids=["chain backwards", "ladder", "tangle", "pairs"],
)
def test_four_times_the_steps_take_at_most_five_times_the_work(targets):
    def work(count: int) -> int:
        steps = numbered(count, targets)
        return lines_run(lambda: (Graph(steps).order, Graph(steps).cycles))

    assert work(2_000) < 5 * work(500)


@st.composite
def edges(draw: st.DrawFn) -> list[tuple[int, ...]]:
    count = draw(st.integers(1, 9))
    targets = st.lists(st.integers(0, count - 1), max_size=4).map(tuple)
    return draw(st.lists(targets, min_size=count, max_size=count))


@given(edges())
def test_order_and_cycles_equal_those_of_a_naive_search(targets: list[tuple[int, ...]]):
    found = Graph(numbered(len(targets), lambda i: targets[i]))
    upstream = _upstream(targets)
    cyclic = {i for i, above in enumerate(upstream) if i in above}
    assert set(found.order) == {
        i for i, above in enumerate(upstream) if i not in cyclic and not cyclic & above
    }
    place = {step: at for at, step in enumerate(found.order)}
    assert all(place[t] < place[i] for i in found.order for t in targets[i] if t != i)
    groups = {frozenset(j for j in upstream[i] if i in upstream[j]) for i in cyclic}
    assert len(found.cycles) == len(groups)
    for cycle in found.cycles:
        assert cycle[0] == cycle[-1]
        assert len(set(cycle)) == len(cycle) - 1
        pairs = zip(cycle, cycle[1:], strict=False)
        assert all(before in targets[after] for before, after in pairs)


def _upstream(targets: list[tuple[int, ...]]) -> list[set[int]]:
    """Return all steps that each step depends on, directly or not, except itself."""
    above = [set(row) - {i} for i, row in enumerate(targets)]
    for _ in targets:
        above = [row.union(*(above[j] for j in row)) for row in above]
    return above


@given(edges(), st.randoms(use_true_random=False))
def test_the_ordered_steps_do_not_depend_on_the_listing(
    targets: list[tuple[int, ...]], chance: random.Random
):
    steps = numbered(len(targets), lambda i: targets[i])
    shuffled = chance.sample(steps, len(steps))
    here, there = Graph(steps), Graph(shuffled)
    assert {here.names[i] for i in here.order} == {there.names[i] for i in there.order}
