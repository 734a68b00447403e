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


class UpstreamSteps:
    """The steps of a flow, and which of them a step depends on. A position is that in `flows`
    followed by `finally`. The steps of each position are bits, 1.2 KiB a step of the largest flow
    that is not refused for its size (`rules/size_limits.py`)."""

    def __init__(self, graph: Graph, finally_graph: Graph, steps: Sequence[Step]) -> None:
        """`graph`: of spec.flows; `steps`: those of `finally` last."""
        self.steps = steps
        self.graph = graph
        self._graphs = ((0, graph), (len(graph), finally_graph))

    def depends_on(self, step: int, target: int) -> bool:
        """Return whether a step depends on another one of its list."""
        is_target = step < len(self.graph) and target in self.graph.targets[step]
        return is_target or bool(self._upstream[step] >> target & 1)

    def may_still_run(self, step: int, target: int) -> bool:
        """Return whether an upstream step may not have ended when a step starts."""
        if target < len(self.graph) <= step:
            return False
        return not self._ended[step] >> target & 1

    def matches(self, step: int, target: int) -> bool:
        """Return whether item i of a step depends on item i of another one, at any distance."""
        return bool(self._matched[step] >> target & 1)

    def item_may_still_run(self, step: int, target: int) -> bool:
        """Return whether the same item of a matched step may not have ended when an item starts."""
        return not self._ended_items[step] >> target & 1

    def is_settled(self, step: int, target: int) -> bool:
        """Return whether a target of its list has ended when a step decides."""
        return bool(self._settled[step] >> target & 1)

    @lazy_property
    def _upstream(self) -> list[int]:
        found = ((first, upstream_bits(graph)) for first, graph in self._graphs)
        return [bits << first for first, upstream in found for bits in upstream]

    @lazy_property
    def _ended(self) -> list[int]:
        """The steps that have ended for certain when each step starts: not those that it only waits
        for until they run, one of which is enough, or whose items are matched."""

        def of_target(step: int, target: int, ended: list[int]) -> int:
            if self._matches_items_of(step, target):
                return ended[target] if self._awaits_all(step) else 0
            return ended[target] | 1 << target if self._awaits_end_of(step, target) else 0

        return self._bits(of_target)

    @lazy_property
    def _matched(self) -> list[int]:
        """The steps that each step matches, directly or through others."""
        return self._bits(
            lambda step, target, found: (
                found[target] | 1 << target if self._matches_items_of(step, target) else 0
            )
        )

    @lazy_property
    def _ended_items(self) -> list[int]:
        """The matched steps whose item has ended when the same item of each step starts."""

        def of_target(step: int, target: int, ended: list[int]) -> int:
            is_over = self._matches_items_of(step, target) and self._awaits_end_of(step, target)
            return ended[target] | 1 << target if is_over else 0

        return self._bits(of_target)

    @lazy_property
    def _settled(self) -> list[int]:
        """The steps that have ended when each step decides."""
        return self._bits(
            lambda step, target, settled: (
                settled[target]
                if self._matches_items_of(step, target)
                else self._upstream[target] | 1 << target
            )
        )

    def _bits(self, of_target: Callable[[int, int, list[int]], int]) -> list[int]:
        """Return, for each step, the steps that its targets add to it. `of_target` is given a step,
        one of its targets, and what the steps before have."""
        found = [0] * len(self.steps)
        for first, graph in self._graphs:
            for position in graph.order:
                for target in graph.targets[position]:
                    found[first + position] |= of_target(first + position, first + target, found)
        return found

    def _matches_items_of(self, step: int, target: int) -> bool:
        own, other = self.steps[step], self.steps[target]
        return own.matches_items and get_probe(own) is None and other.for_each is not None

    def _awaits_all(self, step: int) -> bool:
        # after a probe, or with one of several targets, nothing has ended for certain
        own = self.steps[step]
        are_all = get_strategy(own) is Strategy.ALL or len({*own.targets}) == 1
        return are_all and get_probe(own) is None

    def _awaits_end_of(self, step: int, target: int) -> bool:
        """Return whether a target has ended for certain when a step starts."""
        condition = get_condition_for(self.steps[step], self.steps[target])
        return condition is not Condition.RUNNING and self._awaits_all(step)


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
