"""Places in a flow: of expressions and references, with the variables of each, the steps that its
step depends on, and those that have ended when it starts; and of the entries of probes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jobflow.api.flow.step import (
    Condition,
    HTTPGetProbe,
    Step,
    Strategy,
    TaskStatusProbe,
    TCPSocketProbe,
)
from jobflow.api.flow.traits import Stage
from jobflow.core.cel.scope import RUN_FIELDS
from jobflow.core.lazy import lazy_property
from jobflow.core.spec.graph import Graph
from jobflow.core.spec.readiness import get_condition_for, get_probe, get_strategy

COMMON_VARIABLES = ("params", "flow", "steps")
_OF_RUNS = frozenset(
    {
        *(Stage.ITEM, Stage.VARS, Stage.JOB, Stage.RETRY),
        *(Stage.QUESTION, Stage.RUN_END, Stage.ATTEMPT_END),
    }
)
DECISIONS = frozenset({Stage.DECISION, Stage.ITEM})
"""Stages at which the targets whose items are matched may still run."""
_OF_ENDED_RUNS = frozenset({Stage.RUN_END, Stage.ATTEMPT_END})
_OF_ATTEMPTS: Mapping[Stage, tuple[str, ...]] = {
    Stage.ATTEMPT_END: ("failure", "attempt", "retries"),
    Stage.RETRY: ("failure", "attempt", "retries"),
    Stage.JOB: ("attempt", "retries"),
    Stage.VARS: ("failure", "attempt", "retries"),
}
VARS = "vars"
WITH_VARS = frozenset({Stage.JOB, Stage.RETRY})
_ONLY_OF_ATTEMPTS = (
    "only the patch, vars and the retry.when have the numbers of an attempt; for another step "
    'write steps["NAME"].attempts'
)
OTHER_PLACES: Mapping[str, str] = {
    "items": 'only forEach.until has items; for another step write steps["NAME"].items',
    "item": (
        "only the patch, vars, compute, fail, forEach.when and the retry.when of a step with "
        "forEach have an item"
    ),
    "index": (
        "only the patch, vars, compute, fail, forEach.when, retry.when and repeat.until of a step "
        "with forEach or repeat have an index"
    ),
    "failure": (
        "only vars, retry.when and retry.patch have failure, of the last attempt; for another step "
        'write steps["NAME"].failure'
    ),
    **dict.fromkeys(("attempt", "retries"), _ONLY_OF_ATTEMPTS),
    "last": "only the patch, vars, the retry and the until of a step with repeat have last",
    VARS: "expressions have no vars; env, patch and so on refer to them as $(vars.NAME)",
}
"""Faults of variables that other places have."""


@dataclass(frozen=True, slots=True)
class ExpressionPlace:
    position: int
    stage: Stage

    @property
    def is_of_flow(self) -> bool:
        """Whether it is an output of the flow, whose position is behind all steps."""
        return self.stage is Stage.FLOW_END


NO_STEP = ExpressionPlace(-1, Stage.JOB)
"""The place of a reference that belongs to the flow as a whole, and so to no step."""


def variables_of(place: ExpressionPlace, step: Step | None) -> list[str]:
    """Return the variables of a place. `step`: its step, None for an output of the flow."""
    names = [*COMMON_VARIABLES]
    if step is None:
        return names
    if place.stage in _OF_RUNS and step.for_each is not None:
        names.append("item")
    if place.stage in _OF_RUNS and (step.for_each or step.repeat) is not None:
        names.append("index")
    if place.stage in _OF_RUNS and step.repeat is not None:
        names.append("last")
    if place.stage in _OF_ENDED_RUNS:
        names += RUN_FIELDS
    if place.stage is Stage.ITEM_END:
        names.append("items")
    if place.stage in WITH_VARS and step.vars:
        names.append(VARS)
    return [*names, *_OF_ATTEMPTS.get(place.stage, ())]


Asked = HTTPGetProbe | TCPSocketProbe | TaskStatusProbe


class ProbeEntry(NamedTuple):
    """An entry in one of the lists of a step's probe."""

    step: int
    path: str
    place: str
    """Path below the probe: `httpGetList[0]`."""
    asked: Asked


MOST_STEPS = 10_000
"""Steps whose dependencies are known: as bits, they take 1.2 KiB a step. A flow of more steps is
refused, because its status would be too large."""


class UpstreamSteps:
    """The steps of a flow, and which of them a step depends on. A position is that in `flows`
    followed by `finally`."""

    def __init__(self, graph: Graph, finally_graph: Graph, steps: Sequence[Step]) -> None:
        """`graph`: of spec.flows; `steps`: those of `finally` last."""
        self._graph = graph
        self._finally_graph = finally_graph
        self._steps = steps
        self._graphs = ((0, graph), (len(graph), finally_graph))

    def find(self, name: str) -> int | None:
        found = self._graph.index.get(name)
        if found is None and (found := self._finally_graph.index.get(name)) is not None:
            found += len(self._graph)
        return found

    def depends_on(self, step: int, target: int) -> bool:
        """Return whether a step depends on another one of its list."""
        first = len(self._graph)
        # such a flow is refused for its size, so what it may read does not matter
        if len(self._steps) > MOST_STEPS:
            return True
        is_target = step < first and target in self._graph.targets[step]
        return is_target or bool(self._upstream[step] >> target & 1)

    def may_still_run(self, step: int, name: str) -> bool:
        """Return whether an upstream step may not have ended when a step starts."""
        target, first = self.find(name), len(self._graph)
        if target is None or len(self._steps) > MOST_STEPS or target < first <= step:
            return False
        return not self._ended[step] >> target & 1

    def matches(self, step: int, target: int) -> bool:
        """Return whether item i of a step depends on item i of another one, at any distance."""
        return len(self._steps) > MOST_STEPS or bool(self._matched[step] >> target & 1)

    def item_may_still_run(self, step: int, target: int) -> bool:
        """Return whether the same item of a matched step may not have ended when an item starts."""
        return len(self._steps) <= MOST_STEPS and not self._ended_items[step] >> target & 1

    def is_settled(self, step: int, target: int) -> bool:
        """Return whether a target has ended when a step decides."""
        return bool(self._settled[step] >> target & 1)

    @lazy_property
    def _upstream(self) -> list[int]:
        found = ((first, upstream_bits(graph)) for first, graph in self._graphs)
        return [bits << first for first, upstream in found for bits in upstream]

    @lazy_property
    def _ended(self) -> list[int]:
        found = ((at, ended_bits(graph, self._steps[at:])) for at, graph in self._graphs)
        return [bits << first for first, ended in found for bits in ended]

    @lazy_property
    def _matched(self) -> list[int]:
        """The steps that each step matches, directly or through others, as bits by position."""
        return self._item_bits(lambda step, target: True)

    @lazy_property
    def _ended_items(self) -> list[int]:
        """The matched steps whose item has ended when the same item of each step starts."""
        return self._item_bits(
            lambda step, target: (
                get_condition_for(step, target) is not Condition.RUNNING
                and (get_strategy(step) is Strategy.ALL or len(step.targets) == 1)
            )
        )

    def _item_bits(self, counts: Callable[[Step, Step], bool]) -> list[int]:
        found = [0] * len(self._steps)
        for at, graph in self._graphs:
            for position in (at + each for each in graph.order):
                step = self._steps[position]
                is_matched = step.matches_items and get_probe(step) is None
                for target in graph.targets[position - at] if is_matched else ():
                    other = self._steps[at + target]
                    if other.for_each is not None and counts(step, other):
                        found[position] |= found[at + target] | 1 << (at + target)
        return found

    @lazy_property
    def _settled(self) -> list[int]:
        """The steps that have ended when each step decides, as bits by position."""
        first, found = len(self._graph), [0] * len(self._steps)
        for at, graph in self._graphs:
            for position in graph.order:
                matches = self._steps[at + position].matches_items
                # steps of finally decide when all of flows have ended
                bits = (1 << first) - 1 if at else 0
                for target in graph.targets[position]:
                    is_matched = matches and self._steps[at + target].for_each is not None
                    before = found[at + target] if is_matched else 1 << (at + target)
                    bits |= before if is_matched else before | self._upstream[at + target]
                found[at + position] = bits
        return found


def ended_bits(graph: Graph, steps: Sequence[Step]) -> list[int]:
    """Return the steps that have ended for certain when each step starts, as bits: not those that
    it only waits for until they run, one of which is enough, or whose items are matched."""
    ended = [0] * len(graph)
    for position in graph.order:
        step, targets = steps[position], graph.targets[position]
        # after a probe, or with one of several targets, nothing has ended for certain
        if get_probe(step) is not None or (get_strategy(step) is Strategy.ANY and len(targets) > 1):
            continue
        for target in targets:
            if step.matches_items and steps[target].for_each is not None:
                ended[position] |= ended[target]
            elif get_condition_for(step, steps[target]) is not Condition.RUNNING:
                ended[position] |= ended[target] | 1 << target
    return ended


def upstream_bits(graph: Graph) -> list[int]:
    """Return the steps that each step depends on, directly or not, as bits. Includes all others if
    either waits for a cycle, which has a fault of its own."""
    # a cycle has a fault of its own; a second one about each step in it would hide that
    in_cycles = sum(1 << step for step in {*range(len(graph))}.difference(graph.order))
    above = [-1] * len(graph)
    for step in graph.order:
        above[step] = in_cycles
        for target in graph.targets[step]:
            above[step] |= above[target] | 1 << target
    return above
