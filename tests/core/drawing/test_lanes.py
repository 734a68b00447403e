"""The lanes of a graph: a drawing can be read back as the graph, whatever the graph is."""

import pytest
from hypothesis import given

from jobflow.core.drawing.graph_text import NODE, draw_lanes
from support.laws.acyclic_graphs import Targets, acyclic_graphs, random_graph
from support.laws.counted_work import lines_run

ENDS, GOES_ON = frozenset("╰╯┴"), frozenset("├┤┼")


def draw(targets: Targets) -> list[tuple[int, str]]:
    roots = [node for node, row in enumerate(targets) if not row]
    return [(line.node, line.lanes) for line in draw_lanes(targets, roots)]


def read(lines: list[tuple[int, str]]) -> dict[int, set[int]]:
    """Return the targets of each node by following the lanes with the eye. A node is one of a group
    if a lane begins right of it, or if it is right below one of the group and joins that lane."""
    above: dict[int, set[int]] = {}
    found: dict[int, set[int]] = {}
    group: int | None = None
    for node, text in lines:
        cells = dict(enumerate(text[::2]))
        [own] = [at for at, cell in cells.items() if cell == NODE]
        begins = cells.get(own + 1) == "╮"
        joins = group == own and cells.get(own + 1) == "┤"
        group = own if begins or joins else None
        joined = {at for at, cell in cells.items() if cell in ENDS | GOES_ON}
        if begins:
            assert own + 1 not in above, "a lane begins on another one"
            above[own + 1] = {node}
        elif joins:
            joined.remove(own + 1)
            above[own + 1].add(node)
        assert joined <= above.keys(), "a connector without a lane above it"
        assert {at for at, cell in cells.items() if cell == "│"} <= above.keys()
        reached = {own, *joined, *((own + 1,) if group is not None else ())}
        between = text[2 * min(reached) : 2 * max(reached) + 1]
        assert " " not in between, "the line to the node has a gap"
        found[node] = set().union(*(above[at] for at in joined | ({own} & above.keys())))
        going_on = {at for at, cell in cells.items() if cell in GOES_ON | {"│", "╮"}}
        above = {at: above[at] for at in going_on}
        if group is None:
            above[own] = {node}
    return found


@given(acyclic_graphs())
def test_a_drawing_says_what_the_graph_says(targets: Targets) -> None:
    lines = draw(targets)
    assert sorted(node for node, _ in lines) == [*range(len(targets))]
    assert read(lines) == {node: {*row} for node, row in enumerate(targets)}
    assert all(text == text.rstrip() for _, text in lines)


@given(acyclic_graphs())
def test_a_node_is_below_its_targets(targets: Targets) -> None:
    places = {node: at for at, (node, _) in enumerate(draw(targets))}
    assert all(places[target] < places[node] for node, row in enumerate(targets) for target in row)


@pytest.mark.parametrize(
    ("targets", "picture"),
    [
        ([[], [0], [1]], ["●", "●", "●"]),
        ([[], [0], [0], [1, 2]], ["●", "├─●─╮", "╰─●─┤", "●───╯"]),
        ([[], [], [0, 1]], ["●─╮", "●─┤", "  ●"]),
        ([[], [0], [0], [1, 2], [1, 2]], ["●", "├─●─╮", "╰─●─┤", "    ├─●", "●───╯"]),
        ([[], [0], [0], [1], [2, 3]], ["●", "├─●", "│ ●", "● │", "●─╯"]),
        ([[], []], ["●", "  ●"]),
        ([[], [], [], [0, 2], [1, 2]], ["●", "│ ●", "│ │ ●", "●─│─┤", "  ●─╯"]),
    ],
)
def test_small_graphs(targets: Targets, picture: list[str]) -> None:
    assert [text for _, text in draw(targets)] == picture


@pytest.mark.long
def test_a_thousand_nodes_and_ten_thousand_arrows_take_little_work() -> None:
    targets = random_graph(1000, 10_000, reach=1000)
    assert lines_run(lambda: draw(targets)) < 20_000_000
