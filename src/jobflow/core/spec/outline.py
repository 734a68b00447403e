"""Outline: the steps of a list, their dependencies, and which of them have options."""

from __future__ import annotations

from collections.abc import Sequence

from jobflow.api.flow.step import DependsOn, Step, with_fan_out
from jobflow.core.lazy import lazy_property
from jobflow.core.spec.graph import Graph
from jobflow.core.spec.options import select_dependencies, select_steps


class Outline:
    """The steps of one list, by position. Admission and plans of a flow share it."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps: Sequence[Step] = with_fan_out(steps)
        """Each step; one that has the items of its targets has an empty `forEach`."""
        self.graph = Graph(self.steps)

    @lazy_property
    def with_options(self) -> list[tuple[int, Step]]:
        """Steps with an option set."""
        return select_steps(self.steps)

    @lazy_property
    def dependencies_with_options(self) -> list[tuple[int, DependsOn]]:
        """Dependencies with a field set beyond targets, by the position of their step."""
        return select_dependencies(self.steps)


NO_STEPS = Outline(())
