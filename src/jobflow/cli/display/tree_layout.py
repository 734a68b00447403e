"""Where each step of a flow stands in a tree, so that what runs before what can be read off.

A tree cannot show a graph. A step stands below the last step that everything before it runs
through (its immediate dominator): what forks is below its fork, and the join of a fork is the last
of the same branch. What the place does not say, words do: "after c, d". It draws nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from jobflow.api.jobflow import Condition, JobFlow, Step, Strategy
from jobflow.core.spec.graph import Graph
from jobflow.core.violations import some

MAX_LEVEL = 5
"""How far the tree goes in. What is below that stays there and says in words what it follows."""

_ROOT = -1


@dataclass(frozen=True, slots=True)
class Branch:
    """A step's line in the tree."""

    step: Step
    level: int
    """How far in it stands, from 0."""
    follows: str
    """What it runs after, where its place does not say that: `after c, d`; what it is, where it is
    no ordinary step: `daemon`, `finally`; else empty."""


def branches(flow: JobFlow, *, max_level: int = MAX_LEVEL) -> list[Branch]:
    """The lines of the flow's tree, each step behind all that it depends on, those of `finally` at
    the end.

    `flow` has passed admission: unknown targets and cycles are left out. n log n in the steps.
    """
    graph = Graph(flow.steps)
    tree = _Dominators(len(graph))
    below: dict[int, list[int]] = {}
    for step in graph.order:
        parent = tree.add(step, graph.targets[step])
        below.setdefault(parent, []).append(step)
    daemons = frozenset(step.name for step in flow.steps if step.daemon)
    shown = [
        Branch(
            flow.steps[step],
            level,
            _said(flow.steps[step], daemons, graph.names, _shown_parent(tree, step, max_level)),
        )
        for step, level in _walk(below, max_level)
    ]
    return shown + [Branch(step, 0, "finally") for step in flow.spec.finally_ or ()]


def guides(levels: Sequence[int]) -> list[str]:
    """What is drawn before each line: `│  ├─ `. A branch goes on while one of its level follows."""
    goes_on: list[bool] = []
    drawn = []
    for level in reversed(levels):
        goes_on += [False] * (level + 1 - len(goes_on))
        stem = "".join("│  " if on else "   " for on in goes_on[:level])
        drawn.append(stem + ("├─ " if goes_on[level] else "└─ "))
        del goes_on[level:]
        goes_on.append(True)
    return drawn[::-1]


class _Dominators:
    """The dominator tree of an acyclic graph, built step by step in running order.

    `jump` leads far up the tree, so that a common ancestor is found in log n (Myers, "An
    applicative random-access stack", 1983).
    """

    def __init__(self, steps: int) -> None:
        self.parent = [_ROOT] * (steps + 1)
        self.depth = [0] * (steps + 1)  # the last entry is the root's: list[-1]
        self._jump = [_ROOT] * (steps + 1)

    def add(self, step: int, targets: Sequence[int]) -> int:
        """Put a step into the tree, all of whose targets are there; returns its parent."""
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


def _walk(below: Mapping[int, Sequence[int]], max_level: int) -> Iterator[tuple[int, int]]:
    """The steps from the top down, each before what is below it, with their levels."""
    waiting = [(step, 0) for step in reversed(below.get(_ROOT, ()))]
    while waiting:
        step, level = waiting.pop()
        yield step, level
        inner = min(level + 1, max_level)
        waiting += [(child, inner) for child in reversed(below.get(step, ()))]


def _shown_parent(tree: _Dominators, step: int, max_level: int) -> int | None:
    """The step that a line stands directly below; None where the tree is too deep to show it."""
    return tree.parent[step] if tree.depth[step] <= max_level + 1 else None


_WORDS: dict[str, str] = {
    Condition.COMPLETED: "after {}",
    Condition.FAILED: "if {} fails",
    Condition.FINISHED: "when {} has ended",
    Condition.RUNNING: "once {} runs",
}


def _said(step: Step, daemons: frozenset[str], names: Sequence[str], parent: int | None) -> str:
    above = "" if parent is None or parent == _ROOT else names[parent]
    said = ("daemon" if step.daemon else "", _follows(step, daemons, above))
    return ", ".join(filter(None, said))


def _follows(step: Step, daemons: frozenset[str], above: str) -> str:
    """`above`: the step that its line stands directly below."""
    targets = step.targets
    if not targets or step.depends_on is None:
        return ""
    condition = step.depends_on.condition or Condition.COMPLETED
    if condition == Condition.COMPLETED and daemons.issuperset(targets):
        condition = Condition.RUNNING  # a service is not waited for
    if condition == Condition.COMPLETED and targets == [above]:
        return ""
    any_of = "any of " if step.depends_on.strategy == Strategy.ANY and len(targets) > 1 else ""
    return _WORDS.get(condition, "after {}").format(any_of + some(targets))
