"""A dependency graph as lines of text: a line for each node, and lanes for the arrows.

A lane begins at a node and ends at the last node that depends on it, as in `git log --graph`. Nodes
with the same targets and the same dependants are below each other, and share a lane, which begins
to the right of the first of them:

    ●      extract
    ├─●─╮  clean
    ├─●─┤  index
    ●───╯  report
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

NODE = "●"
_CONNECTORS = {
    # (lane goes on below, line to the left, line to the right), where a lane meets a node's line
    (True, False, True): "├",
    (True, True, False): "┤",
    (True, True, True): "┼",
    (False, False, True): "╰",
    (False, True, False): "╯",
    (False, True, True): "┴",
}
_LANE, _LINE, _BEGIN, _JOIN = "│", "─", "╮", "┤"


@dataclass(frozen=True, slots=True)
class Line:
    """A node and the lanes around it."""

    node: int
    lanes: str
    """The drawing, with NODE in the node's lane; it has no trailing spaces."""


def draw_lanes(targets: Sequence[Iterable[int]], roots: Iterable[int]) -> Iterator[Line]:
    """Draw an acyclic graph: each node below its targets, and near them if possible.

    `targets` has for each node the nodes that it depends on; `roots` are the nodes without targets
    in the order to draw them.
    """
    lanes = _Lanes(targets)
    ready = lanes.together(roots)[::-1]
    waits_for = [len(row) for row in lanes.targets]
    while ready:
        node = ready.pop()
        yield Line(node, lanes.draw(node))
        met = []
        for dependant in lanes.dependants[node]:
            waits_for[dependant] -= 1
            if not waits_for[dependant]:
                met.append(dependant)
        ready += reversed(lanes.together(met))


@dataclass(slots=True)
class _Group:
    """Nodes with the same targets and the same dependants, of which there are some."""

    members: list[int]
    lane: int = -1
    """The lane of all members; that of their arrows is the next one."""


class _Lanes:
    """The lanes of arrows that still have a node to reach."""

    def __init__(self, targets: Sequence[Iterable[int]]) -> None:
        self.targets = [frozenset(row) for row in targets]
        self.dependants: list[list[int]] = [[] for _ in targets]
        for node, row in enumerate(self.targets):
            for target in row:
                self.dependants[target].append(node)
        self._groups = self._alike()
        self._missing = [len(row) for row in self.dependants]
        self._owners: list[int | None] = []
        """The node in which each lane begins, or the first one of a group; None for a free lane."""
        self._shared: set[int] = set()
        """Lanes whose last owner was a group."""
        self._freed: set[int] = set()
        """Free lanes with a node in the line above: a node there would look connected."""

    def _alike(self) -> dict[int, _Group]:
        """Return the groups of more than one node by member."""
        alike: dict[object, list[int]] = {}
        for node, row in enumerate(self.targets):
            if self.dependants[node]:
                alike.setdefault((row, tuple(self.dependants[node])), []).append(node)
        groups = [_Group(members) for members in alike.values() if len(members) > 1]
        return {member: group for group in groups for member in group.members}

    def together(self, nodes: Iterable[int]) -> list[int]:
        """Return these nodes, the members of each group behind its first one."""
        found: dict[int, None] = {}
        for node in nodes:
            group = self._groups.get(node)
            found.update(dict.fromkeys([node] if group is None else group.members))
        return [*found]

    def draw(self, node: int) -> str:
        """Draw the line of a node and move on to the next."""
        before = [owner is not None for owner in self._owners]
        groups = {target: self._groups.get(target) for target in self.targets[node]}
        owners = {target if group is None else group.members[0] for target, group in groups.items()}
        sources = {at for at, owner in enumerate(self._owners) if owner in owners}
        ended = [at for at in sorted(sources) if self._reaches_last(at)]
        group = self._groups.get(node)
        out: int | None = None
        if group is None:
            lane = self._lane_of(sources, ended)
        else:
            if group.lane < 0:
                group.lane = self._free_lane(max(sources, default=-1) + 1, 2)
            lane, out = group.lane, group.lane + 1
        self._freed = set()
        if group is not None:
            self._owners[lane + 1] = group.members[0]
            self._shared.add(lane + 1)
        elif self.dependants[node]:
            self._owners[lane] = node
            self._shared.discard(lane)
        if self._owners[lane] is None:
            self._freed.add(lane)
        before += [False] * (len(self._owners) - len(before))
        text = self._text(lane, out, sources, before)
        while self._owners and self._owners[-1] is None:
            if len(self._owners) - 1 in self._freed:
                break
            self._owners.pop()
        return text

    def _reaches_last(self, lane: int) -> bool:
        """Let a lane reach one more node; return whether that was the last one, and end it."""
        owner = self._owners[lane]
        assert owner is not None
        self._missing[owner] -= 1
        if self._missing[owner]:
            return False
        self._owners[lane] = None
        return True

    def _lane_of(self, sources: Collection[int], ended: Sequence[int]) -> int:
        """Return the lane of a node outside groups: one that ends here, or, instead of the lane of
        a group, the one that the group began from if it is free."""
        if not ended:
            return self._free_lane(min(sources, default=-1) + 1)
        return self._free_lane(max(ended[0] - 2, 0)) if ended[0] in self._shared else ended[0]

    def _free_lane(self, first: int, count: int = 1) -> int:
        """Return the first one of so many free lanes side by side, and add missing ones."""
        taken = {lane for lane, owner in enumerate(self._owners) if owner is not None} | self._freed
        at = first
        while not taken.isdisjoint(range(at, at + count)):
            at += 1
        self._owners += [None] * (at + count - len(self._owners))
        return at

    def _text(
        self, lane: int, out: int | None, sources: Collection[int], before: Sequence[bool]
    ) -> str:
        reached = [lane, *sources, *(() if out is None else (out,))]
        start, end = min(reached), max(reached)
        text = ""
        for at, is_lane in enumerate(before):
            if at == lane:
                text += NODE
            elif at == out:
                text += _JOIN if is_lane else _BEGIN
            elif at in sources:
                text += _CONNECTORS[self._owners[at] is not None, at > start, at < end]
            elif is_lane:
                text += _LANE
            else:
                text += _LINE if start < at < end else " "
            text += _LINE if start <= at < end else " "
        return text.rstrip()
