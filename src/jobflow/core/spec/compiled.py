"""CompiledFlow: all that follows from the spec of a flow alone, computed once for each spec."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import msgspec

from jobflow.api.flow.jobflow import JobFlow, JobFlowSpec
from jobflow.api.flow.step import Condition, Step, Strategy
from jobflow.core.lazy import lazy_property
from jobflow.core.names import format_job_name, to_label_value
from jobflow.core.spec.expressions import NamedFailure, find_named_failures, find_needed_outputs
from jobflow.core.spec.graph import Graph, Outline, find_reachable
from jobflow.core.spec.items import takes_items
from jobflow.core.spec.param_values import with_param_values
from jobflow.core.spec.readiness import Requirement, build_requirement
from jobflow.core.work import ends_in_status, may_run_steps, works_of

MAX_CACHED_BYTES = 64 * 1024 * 1024
"""Bytes of JSON of all specs whose CompiledFlow is cached; the memory is several times as much."""
MIN_ENTRY_BYTES = 1_024
"""Bytes that a small spec counts."""
_JOB = re.compile(rb"[.\[]\W{0,2}job\b")
"""The job of a step in JSON: `.job`, or `job` in brackets."""


class CompiledFlow:
    """The steps of one spec, by position."""

    def __init__(self, name: str, spec: JobFlowSpec) -> None:
        written, spec = spec, with_param_values(JobFlow(spec=spec)).spec
        self.spec = spec
        """The spec, with the values of params in its numbers and timeouts."""
        self.has_param_values = spec is not written
        first, last, names = list[Step](), list[Step](), set[str]()
        for kept, steps in ((first, spec.flows), (last, spec.finally_)):
            for step in steps or ():
                if step.name not in names:
                    names.add(step.name)
                    kept.append(step)
        outline = Outline([*first, *last])
        is_whole = not last and len(first) == len(spec.flows or ())
        self.outline_of_flows: Outline | None = outline if is_whole else None
        """The outline of `spec.flows`; None if not all of its steps, or others, are in `steps`."""
        self.steps: Sequence[Step] = outline.steps
        """All steps, those of `finally` last. If admission was bypassed and a name is used twice,
        only the first step counts."""
        self.last_from: int = len(first)
        """The position of the first step of `finally`."""
        self.keys: list[str] = [format_job_name(name, step.name) for step in self.steps]
        """For each step the name of its first vcjob, which is its key in the status."""
        options = outline.with_options
        self.loops: list[bool] = [False] * len(self.steps)
        """For each step whether it has runs of its own, by forEach or repeat."""
        self.runs_steps: list[bool] = [False] * len(self.steps)
        """For each step whether it, or a case of its `switch`, runs a child flow."""
        self.has_objects: list[bool] = [True] * len(self.steps)
        for i, step in options:
            self.has_objects[i] = any(work.has_objects for work in works_of(step))
            self.loops[i] = step.for_each is not None or step.repeat is not None
            self.runs_steps[i] = may_run_steps(step)
        self.has_children: bool = any(self.runs_steps)
        self.may_end_at_once = any(work.at_once for _, step in options for work in works_of(step))
        """Whether a step, or a case of its `switch`, ends where it starts."""
        self.ends_in_status = frozenset([i for i, step in options if ends_in_status(step)])
        """Positions of the steps that run work without objects."""
        self.graph = outline.graph
        looped = frozenset([i for i, step in options if step.for_each is not None])
        daemons = frozenset([i for i, step in options if step.daemon])
        self.has_daemons = bool(daemons)
        self.needs: list[Requirement] = [
            build_requirement(step, targets, self.graph.names, daemons, looped)
            for step, targets in zip(self.steps, self.graph.targets, strict=True)
        ]
        """For each step what it requires of the steps that it depends on."""
        self.finally_names = frozenset(step.name for step in last)
        self.sharing = frozenset([i for i, step in options if step.concurrency is not None])
        """Positions of the steps that need places of a concurrency group."""

    @lazy_property
    def blocked(self) -> frozenset[int]:
        """Steps with a target that does not exist or is the step itself."""
        return frozenset(step for step, _ in (*self.graph.unknown, *self.graph.own))

    @lazy_property
    def never_start(self) -> frozenset[int]:
        """The blocked steps, those in a cycle, and those that depend on them."""
        found = self.blocked | frozenset(range(len(self.steps))).difference(self.graph.order)
        return found and frozenset(find_reachable(self.graph.dependants.__getitem__, found))

    @lazy_property
    def matching(self) -> frozenset[int]:
        """Steps whose items depend on the items of their targets."""
        return frozenset([i for i, need in enumerate(self.needs) if need.matched])

    @lazy_property
    def deciding(self) -> frozenset[int]:
        """Steps that decide something before they start: `when`, `switch`, or their items."""
        return frozenset(
            i
            for i, step in enumerate(self.steps)
            if step.when is not None
            or step.switch is not None
            or (step.for_each is not None and step.for_each.from_ is not None)
            or takes_items(step)
        )

    @lazy_property
    def only_ends_matter(self) -> bool:
        """Whether steps depend only on the ends of others, not on whether they run."""
        return not any(need.probe or Condition.RUNNING in need.wants for need in self.needs)

    @lazy_property
    def waits_for_any(self) -> bool:
        """Whether a step waits for any of its targets."""
        return any(need.how is Strategy.ANY for need in self.needs)

    @lazy_property
    def left_out(self) -> frozenset[int]:
        """Steps of `spec.flows` that `spec.targets` does not need."""
        return find_left_out(self.graph, self.last_from, self.spec.targets)

    @lazy_property
    def order(self) -> Sequence[int]:
        """All positions in the order of `graph`; in that of the spec if there is a cycle."""
        order = self.graph.order
        return order if len(order) == len(self.steps) else range(len(self.steps))

    @lazy_property
    def ranks(self) -> dict[int, int]:
        """The place in `graph.order` of each position; a step in a cycle has none."""
        return {position: rank for rank, position in enumerate(self.graph.order)}

    @lazy_property
    def by_key(self) -> dict[str, int]:
        return {key: position for position, key in enumerate(self.keys)}

    @lazy_property
    def by_label(self) -> dict[str, int]:
        """Positions by the value of a step's name in labels."""
        return {to_label_value(name): position for position, name in enumerate(self.graph.names)}

    @lazy_property
    def naming_jobs(self) -> frozenset[str]:
        """Names of steps in which a reference or an expression may name the job of another one."""
        if not _JOB.search(msgspec.json.encode((self.spec.flows, self.spec.finally_))):
            return frozenset()
        return frozenset(s.name for s in self.steps if _JOB.search(msgspec.json.encode(s)))

    @lazy_property
    def queues(self) -> bool:
        """Whether the flow, or a step of it or of its child flows, may have a concurrency group."""
        spec = self.spec
        return spec.concurrency is not None or b'"concurrency":' in msgspec.json.encode(
            (spec.flows, spec.finally_)
        )

    @lazy_property
    def outputs_needed(self) -> frozenset[str]:
        return find_needed_outputs(self.spec)

    @lazy_property
    def named_failures(self) -> dict[str, NamedFailure]:
        """By key of a step, the fields of its failure that an expression or reference reads."""
        named = find_named_failures(self.spec, self.steps)
        keys = zip(self.graph.names, self.keys, strict=True)
        return {key: named[name] for name, key in keys if name in named} if named else {}


def find_left_out(graph: Graph, last_from: int, targets: Sequence[str] | None) -> frozenset[int]:
    """Return the positions before `last_from`, where `finally` begins, that are none of these
    targets of a flow and that none of them depends on; empty without targets."""
    if not targets:
        return frozenset()
    named = [graph.index[name] for name in targets if name in graph.index]
    return frozenset(range(last_from)) - find_reachable(graph.targets.__getitem__, named)


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
        # by a hash of its JSON (1,000 steps: 0.15 ms): no other value may share it
        name, spec = flow.metadata.name, flow.spec
        encoded = msgspec.json.encode((name, spec))
        digest = hashlib.sha256(encoded).digest()
        compiled, size = self._entries.pop(digest, (None, 0))
        if compiled is None:
            compiled, size = CompiledFlow(name, spec), max(len(encoded), MIN_ENTRY_BYTES)
            self._bytes += size
        self._entries[digest] = compiled, size  # at the end: it was used last
        while self._bytes > self._limit:
            _, dropped = self._entries.pop(next(iter(self._entries)))
            self._bytes -= dropped
        return compiled


_CACHE = CompiledFlowCache(MAX_CACHED_BYTES)


def compile_flow(flow: JobFlow) -> CompiledFlow:
    return _CACHE.get(flow)
