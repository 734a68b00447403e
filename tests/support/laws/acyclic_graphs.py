"""Acyclic graphs for laws about drawings."""

import random

from hypothesis import strategies as st

Targets = list[list[int]]
"""For each node the nodes that it depends on."""


@st.composite
def acyclic_graphs(draw: st.DrawFn, most: int = 14) -> Targets:
    """Draw a graph whose nodes depend only on earlier ones."""
    targets: Targets = []
    for node in range(draw(st.integers(0, most))):
        earlier = st.integers(0, node - 1) if node else st.nothing()
        targets.append(draw(st.lists(earlier, unique=True, max_size=4 if node else 0)))
    return targets


def random_graph(nodes: int, arrows: int, *, reach: int, seed: int = 1) -> Targets:
    """Return a large connected graph; an arrow goes at most `reach` nodes back."""
    dice = random.Random(seed)
    found = {(node, dice.randrange(max(node - reach, 0), node)) for node in range(1, nodes)}
    while len(found) < arrows:
        node = dice.randrange(1, nodes)
        found.add((node, dice.randrange(max(node - reach, 0), node)))
    targets: Targets = [[] for _ in range(nodes)]
    for node, target in sorted(found):
        targets[node].append(target)
    return targets
