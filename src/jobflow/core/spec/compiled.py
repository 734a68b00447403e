"""What the steps of a flow are by its spec alone: worked out once for a spec, and kept.

It knows no status, no vcjobs and no time, and it judges nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cached_property

import msgspec

from jobflow.api.jobflow import JobFlow, JobFlowSpec, Step
from jobflow.core.names import format_job_name, to_label_value
from jobflow.core.spec.expressions import find_needed_outputs
from jobflow.core.spec.graph import Graph
from jobflow.core.spec.readiness import Requirement, build_requirement

MAX_CACHED_BYTES = 64 * 1024 * 1024
"""Of the specs as JSON whose layouts are kept; with what is worked out of them they take several
times that in memory."""
MIN_ENTRY_BYTES = 1_024
"""What each counts for at least."""


class CompiledFlow:
    """The steps of one spec, by position."""

    def __init__(self, name: str, spec: JobFlowSpec) -> None:
        """`name`: the flow's."""
        self._spec = spec
        first, last = _once_each(spec.flows or (), spec.finally_ or ())
        self.steps: list[Step] = [*first, *last]
        """Those of `finally` behind all others. Each name once: what came past admission with a
        name twice means the first."""
        self.last_from: int = len(first)
        """The position of the first step of `finally`."""
        self.keys: list[str] = [format_job_name(name, step.name) for step in self.steps]
        """The name of each step's first vcjob, which is its key in the status."""
        self.loops: list[bool] = [is_loop(step) for step in self.steps]
        """Whether each has runs of its own."""
        self.graph = Graph(self.steps)
        """The dependencies."""
        daemons = frozenset(i for i, step in enumerate(self.steps) if step.daemon)
        self.has_daemons = bool(daemons)
        self.needs: list[Requirement] = [
            build_requirement(step, targets, daemons)
            for step, targets in zip(self.steps, self.graph.targets, strict=True)
        ]
        """What each wants of the steps it depends on."""
        self.finally_names = frozenset(step.name for step in last)

    @cached_property
    def blocked(self) -> frozenset[int]:
        """Steps with a target that is no step, or themselves."""
        return frozenset(step for step, _ in (*self.graph.unknown, *self.graph.own))

    @cached_property
    def order(self) -> Sequence[int]:
        """All positions, each behind all that it depends on; as they stand where that is not to
        be had."""
        order = self.graph.order
        return order if len(order) == len(self.steps) else range(len(self.steps))

    @cached_property
    def by_key(self) -> dict[str, int]:
        """Positions by key."""
        return {key: position for position, key in enumerate(self.keys)}

    @cached_property
    def by_label(self) -> dict[str, int]:
        """Positions by what stands for a step's name in labels."""
        return {to_label_value(name): position for position, name in enumerate(self.graph.names)}

    @cached_property
    def outputs_needed(self) -> frozenset[str]:
        """The steps whose outputs an expression or reference names."""
        return find_needed_outputs(self._spec)


def is_loop(step: Step) -> bool:
    """Whether a step has runs of its own, by forEach or repeat."""
    return step.for_each is not None or step.repeat is not None


class CompiledFlowCache:
    """Those that were asked for last, as many as have specs of `most` bytes together."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: dict[bytes, tuple[CompiledFlow, int]] = {}
        """With the bytes it counts for; the last used is the last."""
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, flow: JobFlow) -> CompiledFlow:
        """That of a flow's spec, which is known again by its JSON (1,000 steps: 0.15 ms): two that
        differ in anything never share one."""
        name, spec = flow.metadata.name, flow.spec
        written = msgspec.json.encode((name, spec))
        digest = hashlib.sha256(written).digest()
        layout, size = self._kept.pop(digest, (None, 0))
        if layout is None:
            layout, size = CompiledFlow(name, spec), max(len(written), MIN_ENTRY_BYTES)
            self._bytes += size
        self._kept[digest] = layout, size
        while self._bytes > self._most:
            _, dropped = self._kept.pop(next(iter(self._kept)))
            self._bytes -= dropped
        return layout


_LAYOUTS = CompiledFlowCache(MAX_CACHED_BYTES)


def compile_flow(flow: JobFlow) -> CompiledFlow:
    """The layout of a flow's spec."""
    return _LAYOUTS.of(flow)


def _once_each(*lists: Iterable[Step]) -> list[list[Step]]:
    """The same lists, of each name the first step alone."""
    known: set[str] = set()
    found: list[list[Step]] = []
    for steps in lists:
        found.append([])
        for step in steps:
            if step.name not in known:
                known.add(step.name)
                found[-1].append(step)
    return found
