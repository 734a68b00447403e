"""Layout of a flow's steps as a tree.

A step is below the last step that all paths to it run through (its immediate dominator): branches
of a fork are below the fork, and their join is the last of the same level.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.step import Condition, Step, Strategy
from jobflow.core.spec.graph import Graph
from jobflow.core.spec.readiness import get_condition, get_strategy
from jobflow.core.text import join_names

MAX_LEVEL = 5
"""Deepest level. Deeper steps are put on it, with their dependencies in words."""

_ROOT = -1


@dataclass(frozen=True, slots=True)
class Branch:
    """A step's line in the tree."""

    step: Step
    level: int
    """Indentation, from 0."""
    follows: str
    """Dependencies that the position does not show (`after c, d`), and `daemon` or `finally`."""


def branches(flow: JobFlow, *, max_level: int = MAX_LEVEL) -> list[Branch]:
    """Return the lines of the tree: each step after all its dependencies, `finally` at the end.
    `flow` has passed admission: unknown targets and cycles are left out. n log n in the steps."""
    steps, last = flow.all_steps, len(flow.steps)
    graph = Graph(steps)
    tree = _Dominators(len(graph))
    below: dict[int, list[int]] = {}
    for step in graph.order:
        parent = tree.add(step, graph.targets[step])
        below.setdefault(parent, []).append(step)
    daemons = frozenset(step.name for step in flow.steps if step.daemon)
    lines = []
    pending = [(step, 0) for step in reversed(below.get(_ROOT, ()))]
    while pending:  # depth first
        step, level = pending.pop()
        inner = min(level + 1, max_level)
        pending += [(child, inner) for child in reversed(below.get(step, ()))]
        # a step on the deepest level may be below a step that it does not depend on
        parent = tree.parent[step] if tree.depth[step] <= max_level + 1 else _ROOT
        above = "" if parent == _ROOT else graph.names[parent]
        spec = steps[step]
        parts = (
            "finally" if step >= last else "",
            "daemon" if spec.daemon else "",
            _dependencies(spec, daemons, above),
            "item by item" if spec.matches_items else "",
        )
        lines.append(Branch(spec, level, ", ".join(filter(None, parts))))
    return lines


def guides(levels: Sequence[int]) -> list[str]:
    """Return the lines to draw before each step: `│  ├─ `."""
    continues: list[bool] = []
    drawn = []
    for level in reversed(levels):
        continues += [False] * (level + 1 - len(continues))
        stem = "".join("│  " if on else "   " for on in continues[:level])
        drawn.append(stem + ("├─ " if continues[level] else "└─ "))
        del continues[level:]
        continues.append(True)
    return drawn[::-1]


class _Dominators:
    """The dominator tree of an acyclic graph, built in topological order. `_jump` leads far up the
    tree, so that a common ancestor is found in log n (Myers, "An applicative random-access stack",
    1983)."""

    def __init__(self, steps: int) -> None:
        self.parent = [_ROOT] * (steps + 1)
        self.depth = [0] * (steps + 1)  # the last entry is the root's: list[-1]
        self._jump = [_ROOT] * (steps + 1)

    def add(self, step: int, targets: Sequence[int]) -> int:
        # its targets are already in the tree
        parent = _ROOT
        for i, target in enumerate(targets):
            parent = self._common(parent, target) if i else target
        self.parent[step] = parent
        self.depth[step] = self.depth[parent] + 1
        far = self._jump[parent]
        same = self.depth[parent] - self.depth[far] == self.depth[far] - self.depth[self._jump[far]]
        self._jump[step] = self._jump[far] if same and parent != _ROOT else parent
        return parent

    def _common(self, one: int, other: int) -> int:
        if self.depth[one] < self.depth[other]:
            one, other = other, one
        while self.depth[one] > self.depth[other]:
            far = self._jump[one]
            one = far if self.depth[far] >= self.depth[other] else self.parent[one]
        while one != other:
            if self._jump[one] != self._jump[other]:
                one, other = self._jump[one], self._jump[other]
            else:
                one, other = self.parent[one], self.parent[other]
        return one


_DEPENDENCIES: dict[str, tuple[str, str]] = {
    Condition.COMPLETED: ("after {}", "after {}"),
    Condition.FAILED: ("if {} fails", "if {} fail"),
    Condition.FINISHED: ("when {} has finished", "when {} have finished"),
    Condition.RUNNING: ("once {} runs", "once {} run"),
    Condition.NOT_FAILED: ("when {} has not failed", "when {} have not failed"),
    Condition.ALWAYS: ("when {} has ended", "when {} have ended"),
}
"""By condition, the words for one target, and for all of several."""


def _dependencies(step: Step, daemons: frozenset[str], above: str) -> str:
    groups: dict[Condition, list[str]] = {}
    for target in step.targets:
        condition = get_condition(step, target, is_daemon=target in daemons)
        groups.setdefault(condition, []).append(target)
    if not groups or groups == {Condition.COMPLETED: [above]}:
        return ""
    is_any = get_strategy(step) == Strategy.ANY and len(step.targets) > 1
    if is_any and len(groups) == 1:
        condition, targets = next(iter(groups.items()))
        one, _ = _DEPENDENCIES[condition]
        return one.format(f"any of {join_names(targets, last='or')}")
    last = "or" if is_any else "and"
    words = [
        _DEPENDENCIES[condition][len(targets) > 1 and not is_any].format(
            join_names(targets, last=last)
        )
        for condition, targets in groups.items()
    ]
    return join_names(words, last=last)
