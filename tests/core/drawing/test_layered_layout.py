"""Laws of the layered layout, and the work that it does for large graphs."""

from collections import defaultdict
from itertools import pairwise

import pytest
from hypothesis import given

from jobflow.core.drawing.layered_layout import BEND_HEIGHT, Layout, layered_layout
from support.laws.acyclic_graphs import Targets, acyclic_graphs, random_graph
from support.laws.counted_work import lines_run

NEARLY = 1e-6


def lay_out(targets: Targets) -> Layout:
    return layered_layout(targets, range(len(targets)))


@given(acyclic_graphs())
def test_nodes_and_bends_of_a_column_do_not_overlap(targets: Targets) -> None:
    layout = lay_out(targets)
    assert len(layout.columns) == len(layout.rows) == len(targets)
    points = defaultdict(set)
    for node, (column, row) in enumerate(zip(layout.columns, layout.rows, strict=True)):
        points[column].add((row, 1.0, node))
    for (source, _), bends in layout.bends.items():
        for column, row in bends:
            points[column].add((row, BEND_HEIGHT, len(targets) + source))
    for column in points.values():
        for (upper, height, _), (lower, other, _) in pairwise(sorted(column)):
            assert lower - upper >= (height + other) / 2 - NEARLY


@given(acyclic_graphs())
def test_arrows_go_right_and_bend_once_in_each_column_between(targets: Targets) -> None:
    layout = lay_out(targets)
    for node, row in enumerate(targets):
        for target in row:
            start, end = layout.columns[target], layout.columns[node]
            assert start < end
            bends = layout.bends.get((target, node), [])
            assert [column for column, _ in bends] == [*range(start + 1, end)]


@given(acyclic_graphs())
def test_a_node_is_as_far_left_as_its_targets_allow(targets: Targets) -> None:
    layout = lay_out(targets)
    for node, row in enumerate(targets):
        assert layout.columns[node] == max((layout.columns[i] + 1 for i in row), default=0)
    assert layout.width == max(layout.columns, default=-1) + 1


@given(acyclic_graphs())
def test_everything_is_within_width_and_height(targets: Targets) -> None:
    layout = lay_out(targets)
    rows = [*layout.rows, *(row for bends in layout.bends.values() for _, row in bends)]
    assert all(-NEARLY <= row <= layout.height - 1 + NEARLY for row in rows)
    assert layout == lay_out(targets)


def test_a_chain_is_straight_and_a_diamond_symmetric() -> None:
    assert lay_out([[], [0], [1]]).rows == [0, 0, 0]
    rows = lay_out([[], [0], [0], [1, 2]]).rows
    assert rows[0] == rows[3] == pytest.approx((rows[1] + rows[2]) / 2)


def test_branches_that_would_cross_change_places() -> None:
    rows = lay_out([[], [], [1], [0]]).rows
    assert (rows[0] < rows[1]) == (rows[3] < rows[2])


@pytest.mark.long
def test_the_work_is_nearly_linear() -> None:
    small = lines_run(lambda: lay_out(random_graph(250, 500, reach=10)))
    large = lines_run(lambda: lay_out(random_graph(1000, 2000, reach=10)))
    assert large < 6 * small


@pytest.mark.long
def test_a_thousand_nodes_and_ten_thousand_arrows_take_little_work() -> None:
    targets = random_graph(1000, 10_000, reach=20)
    assert lines_run(lambda: lay_out(targets)) < 6_000_000


def test_arrows_are_straight_if_there_are_too_many_bends() -> None:
    targets = random_graph(1000, 2000, reach=1000)
    chain = [*([] if not node else [node - 1] for node in range(1000))]
    layout = lay_out([[*{*row, *far}] for row, far in zip(chain, targets, strict=True)])
    assert (layout.width, layout.bends) == (1000, {})
