"""What comes of a step that has not begun: it starts, waits, or is skipped. It sees no vcjobs.

Targets are decided before those that depend on them, so one pass carries an end through the whole
flow. After a failure (`Stop`) only what handles it starts: a step that itself wants Failed or
Finished, and what has become ready behind such a step.
"""

from __future__ import annotations

from collections.abc import Sequence

from jobflow.api.jobflow import Condition, StepCondition, StepPhase, Strategy
from jobflow.core.evidence import has_run
from jobflow.core.readiness import REACHES, SKIPS, End, Reach, combined, end_of, strategy, wanted
from jobflow.core.scene import Decision, Scene
from jobflow.core.starting import first_attempt, waiting
from jobflow.core.wording import SHOWN, listed, short

HANDLES = frozenset({Condition.FAILED, Condition.FINISHED})
"""Whoever waits for one of these may start although the flow has stopped."""

_TO = {
    Condition.COMPLETED: "",
    Condition.FAILED: " to fail",
    Condition.FINISHED: " to finish",
    Condition.RUNNING: " to run",
}


class Pass:
    """One pass over the steps in the order of their dependencies."""

    def __init__(self, scene: Scene, decisions: list[Decision | None]) -> None:
        """`decisions`: of the steps that have begun; the others are None and are filled in."""
        self.scene = scene
        self.decisions = decisions
        self.ends: list[End | None] = [
            None if decision is None else end_of(decision.condition) for decision in decisions
        ]
        """How each step has ended, None while it has not; filled in along the way."""
        self.failed = [
            scene.evidence[i].step.name
            for i, decision in enumerate(decisions)
            if decision is not None and decision.condition.phase == StepPhase.FAILED
        ]
        self.may_handle = [False] * len(decisions)
        """Whether a step may yet start, or has begun, as a handler or behind one."""

    def run(self) -> list[Decision]:
        """Every step's decision, by position."""
        graph = self.scene.graph
        blocked = {step for step, _ in (*graph.unknown, *graph.own)}
        for position in graph.order:
            decision = self.decisions[position]
            if decision is None:
                decision = self._blocked(position) if position in blocked else self._new(position)
                self.decisions[position] = decision
                self.ends[position] = end_of(decision.condition)
            if self.failed:
                self.may_handle[position] = self._may_handle(position, decision)
        return [d if d is not None else self._blocked(i) for i, d in enumerate(self.decisions)]

    def _new(self, position: int) -> Decision:
        scene = self.scene
        evidence = scene.evidence[position]
        targets = scene.graph.targets[position]
        reaches = self._reaches(position, targets)
        verdict = combined(strategy(evidence.step), reaches)
        skip = SKIPS.get(verdict)
        if scene.cancelled and skip in (None, End.STOPPED):
            return self._cancelled()
        if skip is not None:
            return Decision(self._skipped(position, skip, targets, reaches))
        if verdict is Reach.NOT_YET:
            return Decision(self._waiting(position, targets, reaches))
        if scene.terminating:
            return Decision(waiting(evidence, "Terminating", "the flow is being deleted"))
        if self.failed and not self._handles(position, targets, reaches):
            return Decision(self._skipped(position, End.STOPPED, targets, reaches))
        return first_attempt(evidence, scene)

    def _condition(self, position: int) -> StepCondition:
        decision = self.decisions[position]
        assert decision is not None  # the order puts targets first
        return decision.condition

    def _reaches(self, position: int, targets: Sequence[int]) -> list[Reach]:
        scene, ends = self.scene, self.ends
        want = wanted(scene.evidence[position].step)
        row = REACHES[want]
        reaches = [row[ends[target]] for target in targets]
        if want is Condition.RUNNING:
            for i, target in enumerate(targets):
                if has_run(scene.evidence[target], self._condition(target), scene.records):
                    reaches[i] = Reach.MET
        return reaches

    # ------------------------------------------------------------ after a failure

    def _handles(self, position: int, targets: Sequence[int], reaches: Sequence[Reach]) -> bool:
        """Whether a step that is ready starts although the flow has stopped."""
        if wanted(self.scene.evidence[position].step) in HANDLES and targets:
            return True
        pairs = zip(targets, reaches, strict=True)
        return any(how is Reach.MET and self.may_handle[target] for target, how in pairs)

    def _may_handle(self, position: int, decision: Decision) -> bool:
        if decision.condition.phase == StepPhase.SKIPPED:
            return False
        targets = self.scene.graph.targets[position]
        if wanted(self.scene.evidence[position].step) in HANDLES and targets:
            return True
        return any(self.may_handle[target] for target in targets)

    # ------------------------------------------------------------------- wording

    def _cancelled(self) -> Decision:
        message = self.scene.cancelled
        return Decision(StepCondition(phase=StepPhase.SKIPPED, reason=End.STOPPED, message=message))

    def _waiting(
        self, position: int, targets: Sequence[int], reaches: Sequence[Reach]
    ) -> StepCondition:
        evidence = self.scene.evidence[position]
        step = evidence.step
        want = wanted(step)
        if self.failed and not (want in HANDLES or any(self.may_handle[t] for t in targets)):
            because = f"will not start, for {self.failed[0]} has failed"
            return waiting(evidence, End.STOPPED, because)
        pending = [t for t, r in zip(targets, reaches, strict=True) if r is Reach.NOT_YET]
        names = [
            f"{self.scene.evidence[t].step.name} ({self._condition(t).phase})"
            for t in pending[:SHOWN]
        ]
        last = "or" if strategy(step) is Strategy.ANY else "and"
        text = f"waits for {listed(names, total=len(pending), last=last)}{_TO[want]}"
        return waiting(evidence, "", text)

    def _skipped(
        self, position: int, how: End, targets: Sequence[int], reaches: Sequence[Reach]
    ) -> StepCondition:
        names = [
            self.scene.evidence[target].step.name
            for target, why in zip(targets, reaches, strict=True)
            if SKIPS.get(why) is how
        ]
        if how is End.UPSTREAM_FAILED:
            message = f"{listed(names)} did not complete"
        elif how is End.NOT_TAKEN:
            message = f"{listed(names)} did not fail" if names else "no target was taken"
        else:
            message = f"the flow stopped, for {listed(self.failed)} failed"
        return StepCondition(phase=StepPhase.SKIPPED, reason=how, message=short(message))

    def _blocked(self, position: int) -> Decision:
        """Past admission, or Volcano's: a step that waits for what is no step, or for itself."""
        if self.scene.cancelled:
            return self._cancelled()
        evidence = self.scene.evidence[position]
        known = self.scene.graph.index
        strange = [name for name in evidence.step.targets if name not in known]
        if strange:
            message = f"waits for {listed(strange)}, which this flow does not have"
        else:
            message = "waits for a step that in the end waits for itself"
        return Decision(waiting(evidence, "Blocked", message))
