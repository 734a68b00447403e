"""The dependency graph of a flow's steps, in small integers. It judges nothing: it only shows.

Steps are their positions in `spec.flows`. An arrow `x -> y` means that y depends on x. Everything
is linear in steps and targets and nothing recurses, whatever the shape.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from functools import cached_property

from jobflow.api.jobflow import Step

_NONE: tuple[int, ...] = ()


class Graph:
    """Who depends on whom.

    Targets that are no step, own targets and repeated targets make no arrow; `unknown` and `own`
    say where the first two stand. Of several steps with one name, the name means the first.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        """Linear in the steps and all their targets."""
        self.names: list[str] = [step.name for step in steps]
        """By position."""
        self.index: dict[str, int] = dict(zip(self.names, range(len(steps)), strict=True))
        """Position by name."""
        if len(self.index) != len(steps):
            self.index = _first_positions(self.names)
        self.unknown: list[tuple[int, int]] = []
        """(step, position in its targets) of each target that is no step of the flow."""
        self.own: list[tuple[int, int]] = []
        """(step, position in its targets) of each target that is the step itself."""
        self.targets: list[Sequence[int]] = [_NONE] * len(steps)
        """For each step the steps it depends on, in the order in which it names them."""
        self.in_order = True
        """Whether every step stands behind all that it depends on; then nothing is cyclic."""
        self._link(steps)

    def _link(self, steps: Sequence[Step]) -> None:
        """Fill in `targets`, and what is wrong with them."""
        position = self.index.get
        rows = self.targets
        for i, step in enumerate(steps):
            depends_on = step.depends_on
            if depends_on is None or not (names := depends_on.targets):
                continue
            if len(names) == 1:
                target = position(names[0], i)
                if target < i:
                    rows[i] = (target,)
                    continue
            elif len(names) == 2:
                target, other = position(names[0], i), position(names[1], i)
                if target < i and other < i and target != other:
                    rows[i] = (target, other)
                    continue
            rows[i] = row = self._row(i, names)
            if self.in_order and row and max(row) > i:
                self.in_order = False

    def _row(self, step: int, names: Sequence[str]) -> list[int]:
        """Its targets, once each; what is wrong with them is noted."""
        try:
            row = [*dict.fromkeys(map(self.index.__getitem__, names))]
        except KeyError:
            row = []
        if not row or step in row:
            found = [self.index.get(name) for name in names]
            self._note_faults(step, found)
            row = [j for j in dict.fromkeys(found) if j is not None and j != step]
        return row

    def _note_faults(self, step: int, found: Iterable[int | None]) -> None:
        for at, target in enumerate(found):
            if target is None:
                self.unknown.append((step, at))
            elif target == step:
                self.own.append((step, at))

    def __len__(self) -> int:
        """How many steps there are."""
        return len(self.names)

    @cached_property
    def dependants(self) -> list[list[int]]:
        """For each step the steps that depend on it, in the order of `spec.flows`."""
        dependants: list[list[int]] = [[] for _ in self.names]
        for step, targets in enumerate(self.targets):
            for target in targets:
                dependants[target].append(step)
        return dependants

    @cached_property
    def order(self) -> Sequence[int]:
        """Each step behind all that it depends on, else as in `spec.flows`.

        Steps of a cycle and all that depend on one are left out: the graph is acyclic exactly if
        the order holds every step. Where `spec.flows` already is such an order, this is that.
        """
        if self.in_order:
            return range(len(self))
        waits_for = [len(targets) for targets in self.targets]
        order: list[int] = []
        for reached in range(len(self)):
            if waits_for[reached]:
                continue
            ready = deque((reached,))
            while ready:
                step = ready.popleft()
                order.append(step)
                for dependant in self.dependants[step]:
                    waits_for[dependant] -= 1
                    if not waits_for[dependant] and dependant < reached:
                        ready.append(dependant)  # passed over before, it comes as soon as it can
        return order

    @cached_property
    def cycles(self) -> list[list[int]]:
        """One cycle of each knot of steps that wait for each other (strongly connected component).

        In running order, the first step again at the end: `[0, 1, 2, 0]` for a -> b -> c -> a. It
        starts at the knot's first step in `spec.flows` and is a shortest one through that step.
        """
        if self.in_order or len(self.order) == len(self):
            return []
        return [self._cycle(knot) for knot in sorted(self._knots(), key=min)]

    def _cycle(self, knot: set[int]) -> list[int]:
        """A shortest cycle through the knot's first step: breadth-first along the arrows."""
        start = min(knot)
        came_from = {start: start}
        queue = deque((start,))
        while True:
            step = queue.popleft()
            for dependant in self.dependants[step]:
                if dependant == start:
                    return [*_walk_back(came_from, start, step), start]
                if dependant in knot and dependant not in came_from:
                    came_from[dependant] = step
                    queue.append(dependant)

    def _knots(self) -> list[set[int]]:
        """The strongly connected components of two steps or more.

        Kosaraju's way: walk backwards, then forwards from the last that was left; steps in
        `order` are in no cycle and are passed over.
        """
        outside = [False] * len(self)
        for step in self.order:
            outside[step] = True
        left = _leaving_order(self.targets, outside.copy())
        knots = []
        for step in reversed(left):
            if not outside[step]:
                knot = _reached(self.dependants, step, outside)
                if len(knot) > 1:
                    knots.append(knot)
        return knots


def _first_positions(names: Sequence[str]) -> dict[str, int]:
    positions: dict[str, int] = {}
    for i, name in enumerate(names):
        positions.setdefault(name, i)
    return positions


def _walk_back(came_from: dict[int, int], start: int, last: int) -> list[int]:
    """The way from `start` to `last`, both included."""
    way = [last]
    while way[-1] != start:
        way.append(came_from[way[-1]])
    return way[::-1]


def _leaving_order(arrows: Sequence[Sequence[int]], seen: list[bool]) -> list[int]:
    """Steps not `seen`, in the order in which a depth-first walk along the arrows leaves them."""
    left: list[int] = []
    for root in range(len(arrows)):
        if seen[root]:
            continue
        seen[root] = True
        path = [root]
        rest = [iter(arrows[root])]
        while path:
            following = next((step for step in rest[-1] if not seen[step]), None)
            if following is None:
                left.append(path.pop())
                rest.pop()
            else:
                seen[following] = True
                path.append(following)
                rest.append(iter(arrows[following]))
    return left


def _reached(arrows: Sequence[Sequence[int]], start: int, seen: list[bool]) -> set[int]:
    """`start` and all not yet `seen` that the arrows lead to; they count as seen from now on."""
    seen[start] = True
    reached = {start}
    work = [start]
    while work:
        for step in arrows[work.pop()]:
            if not seen[step]:
                seen[step] = True
                reached.add(step)
                work.append(step)
    return reached
