"""CompiledFlow: all that follows from the spec of a flow alone, computed once for each spec."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import msgspec

from jobflow.api.jobflow import JobFlow, JobFlowSpec, Step
from jobflow.core.lazy import lazy_property
from jobflow.core.names import format_job_name, to_label_value
from jobflow.core.spec.expressions import find_needed_outputs
from jobflow.core.spec.graph import Graph
from jobflow.core.spec.readiness import Requirement, build_requirement

MAX_CACHED_BYTES = 64 * 1024 * 1024
"""Bytes of JSON of all specs whose CompiledFlow is cached; the memory is several times as much."""
MIN_ENTRY_BYTES = 1_024
"""Bytes that a small spec counts."""


class CompiledFlow:
    """The steps of one spec, by position."""

    def __init__(self, name: str, spec: JobFlowSpec) -> None:
        """`name` is that of the flow."""
        self._spec = spec
        first, last = _remove_duplicates(spec.flows or (), spec.finally_ or ())
        self.steps: list[Step] = [*first, *last]
        """All steps, those of `finally` last. If admission was bypassed and a name is used twice,
        only the first step counts."""
        self.last_from: int = len(first)
        """The position of the first step of `finally`."""
        self.keys: list[str] = [format_job_name(name, step.name) for step in self.steps]
        """For each step the name of its first vcjob, which is its key in the status."""
        self.loops: list[bool] = [
            step.for_each is not None or step.repeat is not None for step in self.steps
        ]
        """For each step whether it has runs of its own, by forEach or repeat."""
        self.graph = Graph(self.steps)
        daemons = frozenset(i for i, step in enumerate(self.steps) if step.daemon)
        self.has_daemons = bool(daemons)
        self.needs: list[Requirement] = [
            build_requirement(step, targets, daemons)
            for step, targets in zip(self.steps, self.graph.targets, strict=True)
        ]
        """For each step what it requires of the steps that it depends on."""
        self.finally_names = frozenset(step.name for step in last)

    @lazy_property
    def blocked(self) -> frozenset[int]:
        """Steps with a target that does not exist or is the step itself."""
        return frozenset(step for step, _ in (*self.graph.unknown, *self.graph.own))

    @lazy_property
    def order(self) -> Sequence[int]:
        """All positions, each after all that it depends on; in the order of the spec if the graph
        has a cycle."""
        order = self.graph.order
        return order if len(order) == len(self.steps) else range(len(self.steps))

    @lazy_property
    def by_key(self) -> dict[str, int]:
        """Positions by key."""
        return {key: position for position, key in enumerate(self.keys)}

    @lazy_property
    def by_label(self) -> dict[str, int]:
        """Positions by the value of a step's name in labels."""
        return {to_label_value(name): position for position, name in enumerate(self.graph.names)}

    @lazy_property
    def outputs_needed(self) -> frozenset[str]:
        """Names of steps whose outputs an expression or reference reads."""
        return find_needed_outputs(self._spec)


class CompiledFlowCache:
    """The CompiledFlows that were used last, of specs with at most `limit` bytes together."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: dict[bytes, tuple[CompiledFlow, int]] = {}
        """Each with its bytes, the one that was used last at the end."""
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, flow: JobFlow) -> CompiledFlow:
        """Return the CompiledFlow of a spec, by a hash of its JSON (1,000 steps: 0.15 ms), so specs
        that differ in any value never share one."""
        name, spec = flow.metadata.name, flow.spec
        encoded = msgspec.json.encode((name, spec))
        digest = hashlib.sha256(encoded).digest()
        compiled, size = self._entries.pop(digest, (None, 0))
        if compiled is None:
            compiled, size = CompiledFlow(name, spec), max(len(encoded), MIN_ENTRY_BYTES)
            self._bytes += size
        self._entries[digest] = compiled, size
        while self._bytes > self._limit:
            _, dropped = self._entries.pop(next(iter(self._entries)))
            self._bytes -= dropped
        return compiled


_CACHE = CompiledFlowCache(MAX_CACHED_BYTES)


def compile_flow(flow: JobFlow) -> CompiledFlow:
    """Return the CompiledFlow of a flow's spec, from the cache of the process."""
    return _CACHE.get(flow)


def _remove_duplicates(*lists: Iterable[Step]) -> list[list[Step]]:
    names: set[str] = set()
    kept: list[list[Step]] = []
    for steps in lists:
        kept.append([])
        for step in steps:
            if step.name not in names:
                names.add(step.name)
                kept[-1].append(step)
    return kept
