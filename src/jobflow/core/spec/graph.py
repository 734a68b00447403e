"""The dependency graph of a flow's steps: targets, dependants, order and cycles. A step is its
position in `spec.flows`. All algorithms are iterative and linear in steps and targets."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from jobflow.api.flow.jobflow import JobFlowSpec
from jobflow.api.flow.step import DependsOn, Step
from jobflow.api.flow.traits import Plain, fields_of
from jobflow.core.lazy import lazy_property

_NONE: tuple[int, ...] = ()


class Graph:
    """The dependencies between steps. A target makes no arrow if it is unknown, the step itself, or
    repeated. If several steps have one name, it means the first of them."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.names: list[str] = [step.name for step in steps]
        self.index: dict[str, int] = dict(zip(self.names, range(len(steps)), strict=True))
        if len(self.index) != len(steps):
            self.index = {}
            for i, name in enumerate(self.names):
                self.index.setdefault(name, i)
        self.unknown: list[tuple[int, int]] = []
        """(step, position in its targets) of each target that is not a step of the flow."""
        self.own: list[tuple[int, int]] = []
        """(step, position in its targets) of each target that is the step itself."""
        self.targets: list[Sequence[int]] = [_NONE] * len(steps)
        """For each step the steps that it depends on, in the order of its targets."""
        self.in_order = True
        """Whether every step comes after all steps that it depends on, so nothing is cyclic."""
        position = self.index.get
        rows = self.targets  # most steps have one or two targets: they are not worth a list
        for i, step in enumerate(steps):
            depends_on = step.depends_on
            if depends_on is None or not (names := depends_on.targets):
                continue
            # in place of an unknown target, the step itself takes the slower way
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
        try:
            row = [*dict.fromkeys(map(self.index.__getitem__, names))]
        except KeyError:
            row = []
        if not row or step in row:
            found = [self.index.get(name) for name in names]
            self.unknown += [(step, at) for at, target in enumerate(found) if target is None]
            self.own += [(step, at) for at, target in enumerate(found) if target == step]
            row = [j for j in dict.fromkeys(found) if j is not None and j != step]
        return row

    @property
    def is_sound(self) -> bool:
        """Whether every target is another step, and no steps wait for each other."""
        return not (self.unknown or self.own or len(self.order) < len(self))

    def __len__(self) -> int:
        return len(self.names)

    @lazy_property
    def dependants(self) -> list[list[int]]:
        """For each step the steps that depend on it, in the order of `spec.flows`."""
        dependants: list[list[int]] = [[] for _ in self.names]
        for step, targets in enumerate(self.targets):
            for target in targets:
                dependants[target].append(step)
        return dependants

    @lazy_property
    def order(self) -> Sequence[int]:
        """The steps, each after all that it depends on, and otherwise as in `spec.flows`. Steps of
        a cycle, and all that depend on one, are left out."""
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
                        ready.append(dependant)  # an earlier step that had to wait
        return order

    @lazy_property
    def cycles(self) -> list[list[int]]:
        """One cycle of each strongly connected component: `[0, 1, 2, 0]` for a -> b -> c -> a. It
        is a shortest cycle through the component's first step, with which it begins and ends."""
        if self.in_order or len(self.order) == len(self):
            return []
        # strongly connected components, by Kosaraju's algorithm; no step of a cycle has an order
        seen = [False] * len(self)
        for step in self.order:
            seen[step] = True
        finished = _walk_depth_first(self.targets, range(len(self)), seen.copy())
        found = (
            set(_walk_depth_first(self.dependants, (step,), seen))
            for step in reversed(finished)
            if not seen[step]
        )
        components = [component for component in found if len(component) > 1]
        return [self._find_cycle(each) for each in sorted(components, key=min)]

    def _find_cycle(self, component: set[int]) -> list[int]:
        start = min(component)
        came_from = {start: start}
        queue = deque((start,))
        while True:
            step = queue.popleft()
            for dependant in self.dependants[step]:
                if dependant == start:
                    return [*walk_back(came_from, start, step), start]
                if dependant in component and dependant not in came_from:
                    came_from[dependant] = step
                    queue.append(dependant)


def find_reachable(follow: Callable[[int], Iterable[int]], steps: Iterable[int]) -> set[int]:
    """Return these steps and all that are reached from them. `follow`: returns those behind one."""
    found = set(steps)
    work = list(found)
    while work:
        new = [step for step in follow(work.pop()) if step not in found]
        found.update(new)
        work += new
    return found


def walk_back(came_from: dict[int, int], start: int, last: int) -> list[int]:
    """Return the path from `start` to `last`, both included, that a search has found."""
    path = [last]
    while path[-1] != start:
        path.append(came_from[path[-1]])
    return path[::-1]


def _walk_depth_first(
    arrows: Sequence[Sequence[int]], roots: Iterable[int], seen: list[bool]
) -> list[int]:
    """Return the steps to which arrows lead from the roots, in the order in which the walk leaves
    them. Steps that are `seen` are left out; the others become so."""
    finished: list[int] = []
    for root in roots:
        if seen[root]:
            continue
        seen[root] = True
        path = [root]
        targets = [iter(arrows[root])]
        while path:
            following = next((step for step in targets[-1] if not seen[step]), None)
            if following is None:
                finished.append(path.pop())
                targets.pop()
            else:
                seen[following] = True
                path.append(following)
                targets.append(iter(arrows[following]))
    return finished


Select = Callable[[Iterable[Any]], list[tuple[int, Any]]]


def _with_options(struct: type[msgspec.Struct], *, within: str = "") -> Select:
    """Return a function that selects the values in which an option is set, with their positions.
    `within`: the field of the given objects that has the value, or None."""
    # compiled, because it looks at every step and a call for each takes three times as long
    options = [field.name for field in fields_of(struct) if field.get(Plain) is None]
    tests = " or ".join(f"value.{name} is not None" for name in options)
    if within:
        tests = f"(value := each.{within}) is not None and ({tests})"
    each = "each" if within else "value"
    select: Select = eval(
        f"lambda values: [(i, value) for i, {each} in enumerate(values) if {tests}]"
    )
    return select


select_steps = _with_options(Step)
select_dependencies = _with_options(DependsOn, within="depends_on")
select_specs = _with_options(JobFlowSpec)


class Outline:
    """The steps of one list, by position. Admission and plans of a flow share it."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.dependencies_with_options = select_dependencies(steps)
        """Dependencies with a field set beyond targets, by the position of their step."""
        if any(each.items is not None for _, each in self.dependencies_with_options):
            steps = [msgspec.structs.replace(step, for_each=step.fan_out) for step in steps]
        self.steps = steps
        """Each step; one that has the items of its targets has an empty `forEach`."""
        self.graph = Graph(self.steps)

    @lazy_property
    def with_options(self) -> list[tuple[int, Step]]:
        return select_steps(self.steps)


NO_STEPS = Outline(())
