"""Which vcjobs come next: `nextJobs`. It foretells; it decides nothing and makes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from jobflow.api.flow_status import ENDED_STEP_PHASES, StepPhase
from jobflow.api.jobflow import Condition
from jobflow.core.actions import CreateJob
from jobflow.core.evidence import has_run
from jobflow.core.readiness import (
    REACHES,
    SKIPS,
    End,
    Reach,
    combined,
    end_of,
    probe_of,
    strategy,
    wanted,
)
from jobflow.core.reasons import StepReason
from jobflow.core.scene import Decision, Scene
from jobflow.core.unstarted import HANDLES

MOST = 100
"""Names that are told."""


def next_jobs(scene: Scene, decisions: Sequence[Decision]) -> list[str]:
    """Names of the vcjobs that would be made once every vcjob that is there now, or is about to be
    made, has completed, in the order of `spec.flows`.

    A probe counts as passed by a target that completes.
    """
    if scene.cancelled or scene.terminating:
        return []
    return [scene.evidence[i].key for i in Forecast(scene, decisions).next()[:MOST]]


class Forecast:
    """The flow as it will be when its vcjobs have completed."""

    def __init__(self, scene: Scene, decisions: Sequence[Decision]) -> None:
        self._scene = scene
        self._decisions = decisions
        self._ends: dict[int, End] = {}
        """Of steps that have not ended yet."""
        self._stopped = any(d.condition.phase == StepPhase.FAILED for d in decisions)

    def next(self) -> list[int]:
        """The steps that would start, by position."""
        graph, ends = self._scene.graph, self._ends
        ends.update((position, End.COMPLETED) for position in self._going_on())
        found = []
        for position in graph.order if ends else ():
            if ends.keys().isdisjoint(graph.targets[position]) or not self._waits(position):
                continue
            reach = self._reach(position)
            if reach is Reach.MET:
                found.append(position)
            elif reach in SKIPS:
                ends[position] = SKIPS[reach]
        return sorted(position for position in found if self._may_start(position))

    def _going_on(self) -> Iterator[int]:
        """The steps that have a vcjob which has not ended, or are about to get one."""
        waiting = StepPhase.WAITING
        for position, decision in enumerate(self._decisions):
            phase = decision.condition.phase
            if phase == waiting:
                if any(isinstance(action, CreateJob) for action in decision.actions):
                    yield position
            elif phase not in ENDED_STEP_PHASES:
                yield position

    def _waits(self, position: int) -> bool:
        condition = self._decisions[position].condition
        blocked = condition.reason == StepReason.BLOCKED
        return position not in self._ends and end_of(condition) is None and not blocked

    def _reach(self, position: int) -> Reach:
        step = self._scene.evidence[position].step
        targets = self._scene.graph.targets[position]
        return combined(strategy(step), [self._stands(position, target) for target in targets])

    def _stands(self, position: int, target: int) -> Reach:
        """How a target will stand to a step."""
        scene = self._scene
        passed = self._decisions[position].condition.passed_targets
        if passed is not None and scene.graph.names[target] in passed:
            return Reach.MET
        step, condition = scene.evidence[position].step, self._decisions[target].condition
        want = wanted(step) if probe_of(step) is None else Condition.COMPLETED
        if want is Condition.RUNNING and has_run(scene.evidence[target], condition, scene.records):
            return Reach.MET
        end = self._ends.get(target)
        return REACHES[want][end if end is not None else end_of(condition)]

    def _may_start(self, position: int) -> bool:
        """After a failure (`Stop`) only what handles one, or is ready behind such a step."""
        if not self._stopped or self._handles(position):
            return True
        return any(
            self._handling[target] and self._stands(position, target) is Reach.MET
            for target in self._scene.graph.targets[position]
        )

    def _handles(self, position: int) -> bool:
        step = self._scene.evidence[position].step
        targets = self._scene.graph.targets[position]
        return bool(targets) and wanted(step) in HANDLES and probe_of(step) is None

    @cached_property
    def _handling(self) -> Sequence[int]:
        """Whether a step handles a failure or is behind one that does, by position."""
        graph = self._scene.graph
        handling = bytearray(len(graph))
        for position in graph.order:
            if self._decisions[position].condition.phase != StepPhase.SKIPPED:
                behind = any(handling[target] for target in graph.targets[position])
                handling[position] = behind or self._handles(position)
        return handling
