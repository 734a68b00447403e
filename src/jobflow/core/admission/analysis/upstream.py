"""Which steps a step depends on, directly or not. It judges nothing."""

from __future__ import annotations

from collections.abc import Iterable

from jobflow.core.spec.graph import Graph

_AT_ONCE = 4096
"""Steps that are asked about in one walk over the graph: as bits, they take 512 bytes a step."""


class Upstream:
    """Answers for the pairs that it was asked to look into, in time linear in steps and arrows for
    each `_AT_ONCE` steps that are asked about."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._asked: dict[int, set[int]] = {}
        self._found: set[tuple[int, int]] | None = None

    def ask(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Look into these (step, step it may depend on) when an answer is wanted."""
        targets = self._graph.targets
        for step, target in pairs:
            if target not in targets[step]:
                self._asked.setdefault(target, set()).add(step)
        self._found = None

    def has(self, step: int, target: int) -> bool:
        """Whether `step` depends on `target`. True also where a cycle is in the way, which is wrong
        for itself."""
        if target in self._graph.targets[step]:
            return True
        if step not in self._asked.get(target, ()):
            self.ask([(step, target)])
        if self._found is None:
            self._found = self._walked()
        return (step, target) in self._found

    def _walked(self) -> set[tuple[int, int]]:
        found: set[tuple[int, int]] = set()
        asked = sorted(self._asked)
        for begin in range(0, len(asked), _AT_ONCE):
            found |= self._reached(asked[begin : begin + _AT_ONCE])
        ordered = set(self._graph.order)
        if len(ordered) < len(self._graph):
            cyclic = (
                (step, target)
                for target, steps in self._asked.items()
                for step in steps
                if step not in ordered or target not in ordered
            )
            found.update(cyclic)
        return found

    def _reached(self, asked: list[int]) -> set[tuple[int, int]]:
        """Of these the pairs that were asked about and hold."""
        bits = {target: 1 << at for at, target in enumerate(asked)}
        above = [0] * len(self._graph)
        for step in self._graph.order:
            for target in self._graph.targets[step]:
                above[step] |= above[target] | bits.get(target, 0)
        return {
            (step, target)
            for target in asked
            for step in self._asked[target]
            if above[step] & bits[target]
        }
