"""Wave: the steps that are decided again because others have changed."""

from collections.abc import Iterator
from heapq import heappop, heappush

from jobflow.core.planning.context import PlanContext


class Wave:
    """Positions to decide, in dependency order, to which deciding them adds others."""

    def __init__(self, ctx: PlanContext) -> None:
        self._order, self._ranks = ctx.layout.graph.order, ctx.layout.ranks
        self.added: set[int] = set()
        self._waiting: list[int] = []
        """The ranks of those to come, as a heap."""

    def add(self, position: int) -> None:
        """Add a position once. A step in a cycle has no rank, and is never decided by a pass."""
        rank = self._ranks.get(position)
        if rank is not None and position not in self.added:
            self.added.add(position)
            heappush(self._waiting, rank)

    def __iter__(self) -> Iterator[int]:
        while self._waiting:
            yield self._order[heappop(self._waiting)]
