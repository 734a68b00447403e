"""Layered layout of a dependency graph, from left to right.

Sugiyama's method in three passes: a column for each node by its longest path, the order within a
column by barycentres, and rows that are as close to the mean of the neighbours as the distance
between nodes allows (isotonic regression, by pooling adjacent violators). An arrow that spans
several columns passes a bend in each; arrows from one node share their bends. All passes are linear
in nodes, arrows and bends.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

SWEEPS = 4
"""Passes over all columns, each in both directions; more hardly change the picture."""
MAX_BENDS = 20_000
"""With more bends, arrows are straight, so that no graph takes seconds."""
BEND_HEIGHT = 0.35
"""Rows that a bend takes; a node takes one."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Positions of the nodes of a graph. Columns count from 0, rows are fractions from 0. A node of
    height h takes h rows around the middle of its row."""

    columns: Sequence[int]
    rows: Sequence[float]
    heights: Sequence[float]
    bends: dict[tuple[int, int], list[tuple[int, float]]] = field(default_factory=dict)
    """By arrow (source, target), the (column, row) points between them, from left to right."""

    @property
    def width(self) -> int:
        return max(self.columns, default=-1) + 1

    @property
    def height(self) -> float:
        points = [row for bends in self.bends.values() for _, row in bends]
        nodes = zip(self.rows, self.heights, strict=True)
        return max([*(row + (height - 1) / 2 for row, height in nodes), *points], default=-1.0) + 1


def layered_layout(
    targets: Sequence[Iterable[int]], order: Iterable[int], heights: Sequence[float] | None = None
) -> Layout:
    """Lay out an acyclic graph. `targets`: the nodes to the left of each node, on which it depends;
    `order`: every node after its targets; `heights`: the rows of each node, by default one."""
    heights = heights or [1.0] * len(targets)
    columns = [0] * len(targets)
    for node in order:
        columns[node] = max((columns[target] + 1 for target in targets[node]), default=0)
    layers = _Layers(columns, targets, heights)
    layers.sort()
    rows = layers.place()
    return Layout(columns, rows[: len(columns)], heights, layers.bends_of_arrows(rows))


class _Layers:
    """Nodes and bends by column. Bends are numbered after the nodes."""

    def __init__(
        self, columns: Sequence[int], targets: Sequence[Iterable[int]], heights: Sequence[float]
    ) -> None:
        self.heights = heights
        self.columns = list(columns)
        self.arrows = [(target, node) for node, row in enumerate(targets) for target in row]
        self.left: list[list[int]] = [[] for _ in columns]
        self.right: list[list[int]] = [[] for _ in columns]
        self.bend: dict[tuple[int, int], int] = {}
        self.nodes = len(columns)
        spans = [0] * len(columns)
        for target, node in self.arrows:
            spans[target] = max(spans[target], columns[node] - columns[target] - 1)
        # arrows from one node share their bends, so its longest arrow counts
        is_bent = sum(spans) <= MAX_BENDS
        for source, node in self.arrows:
            last = source
            for column in range(columns[source] + 1, columns[node]) if is_bent else ():
                if (bend := self.bend.get((source, column))) is None:
                    bend = self.bend[source, column] = len(self.columns)
                    self.columns.append(column)
                    self.left.append([])
                    self.right.append([])
                    self._connect(last, bend)
                last = bend
            self._connect(last, node)
        self.layers: list[list[int]] = [[] for _ in range(max(columns, default=-1) + 1)]
        for node, column in enumerate(self.columns):
            self.layers[column].append(node)

    def _connect(self, source: int, target: int) -> None:
        self.right[source].append(target)
        self.left[target].append(source)

    def _sweeps(self) -> Iterable[tuple[list[int], list[list[int]]]]:
        # each layer with the neighbours to align it with: to the right, then back
        for _ in range(SWEEPS):
            yield from ((layer, self.left) for layer in self.layers[1:])
            yield from ((layer, self.right) for layer in reversed(self.layers[:-1]))
        yield from ((layer, self.left) for layer in self.layers[1:])

    def sort(self) -> None:
        """Sort each layer by the mean position of neighbours, which removes most crossings."""
        position = [0.0] * len(self.columns)
        for layer in self.layers:
            for at, node in enumerate(layer):
                position[node] = float(at)
        for layer, neighbours in self._sweeps():
            mean = {node: _mean(neighbours[node], position, position[node]) for node in layer}
            layer.sort(key=lambda node, mean=mean: mean[node])  # type: ignore[misc]
            for at, node in enumerate(layer):
                position[node] = float(at)

    def place(self) -> list[float]:
        rows = [0.0] * len(self.columns)
        for layer in self.layers:
            for node, row in zip(layer, self._spread([0.0] * len(layer), layer), strict=True):
                rows[node] = row
        for layer, neighbours in self._sweeps():
            wanted = [_mean(neighbours[node], rows, rows[node]) for node in layer]
            for node, row in zip(layer, self._spread(wanted, layer), strict=True):
                rows[node] = row
        # the highest node or bend gets row 0
        tops = (row - (self._height(node) - 1) / 2 for node, row in enumerate(rows[: self.nodes]))
        top = min((*tops, *rows[self.nodes :]), default=0.0)
        return [row - top for row in rows]

    def _spread(self, wanted: Sequence[float], layer: Sequence[int]) -> list[float]:
        """Return the rows closest to `wanted` that keep the order and the distances of a layer."""
        offsets, offset = [], 0.0
        for at, node in enumerate(layer):
            if at:
                offset += (self._height(layer[at - 1]) + self._height(node)) / 2
            offsets.append(offset)
        blocks: list[tuple[float, int]] = []
        for row, offset in zip(wanted, offsets, strict=True):
            total, count = row - offset, 1
            # pool adjacent violators: a block that would overlap the one before joins it
            while blocks and blocks[-1][0] / blocks[-1][1] >= total / count:
                before = blocks.pop()
                total, count = total + before[0], count + before[1]
            blocks.append((total, count))
        levels = (total / count for total, count in blocks for _ in range(count))
        return [level + offset for level, offset in zip(levels, offsets, strict=True)]

    def _height(self, node: int) -> float:
        return self.heights[node] if node < self.nodes else BEND_HEIGHT

    def bends_of_arrows(
        self, rows: Sequence[float]
    ) -> dict[tuple[int, int], list[tuple[int, float]]]:
        found = {}
        for source, target in self.arrows:
            between = range(self.columns[source] + 1, self.columns[target])
            if between and (source, between[0]) in self.bend:
                points = ((column, self.bend[source, column]) for column in between)
                found[source, target] = [(column, rows[bend]) for column, bend in points]
        return found


def _mean(nodes: Sequence[int], values: Sequence[float], default: float) -> float:
    return sum(values[node] for node in nodes) / len(nodes) if nodes else default
