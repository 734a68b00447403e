"""What comes of a step that has not begun: it starts, waits, or is skipped. It sees no vcjobs.

Targets are decided before those that depend on them, so one pass carries an end through the whole
flow. After a failure (`Stop`) only what handles it starts: a step that itself wants Failed or
Finished, and what has become ready behind such a step. A step that fails here, by its probe, is a
failure to all others: then they are decided once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec

from jobflow.api import jobflow as api
from jobflow.api.jobflow import Condition, Step, StepCondition, StepPhase, Strategy
from jobflow.core.actions import CreateJob
from jobflow.core.evidence import FAILURES, has_run
from jobflow.core.probing import Look, Probing
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


@dataclass(slots=True)
class Waits:
    """How the targets of a step stand to it, in the order in which it names them."""

    targets: Sequence[int]
    reaches: list[Reach]
    want: Condition | None
    """What they have to reach; None: a probe decides."""
    looks: Sequence[Look] = ()
    """What its probe came to; nothing where it has none."""


class Pass:
    """One pass over the steps in the order of their dependencies."""

    def __init__(self, scene: Scene, decisions: list[Decision | None]) -> None:
        """`decisions`: of the steps that have begun; the others are None and are filled in."""
        self.scene = scene
        self.known = decisions
        self.decisions = list(decisions)
        self.ends: list[End | None] = [
            None if decision is None else end_of(decision.condition) for decision in decisions
        ]
        """How each step has ended, None while it has not; filled in along the way."""
        self.failed = [
            scene.evidence[i].step.name
            for i, decision in enumerate(decisions)
            if decision is not None and decision.condition.phase == StepPhase.FAILED
        ]
        self.ending = [
            evidence.step.name
            for evidence, decision in zip(scene.evidence, decisions, strict=True)
            if decision is not None
            and decision.reads
            and evidence.job is not None
            and evidence.job.phase in FAILURES
        ]
        """Steps that have failed but for what is still to be read of them: no others start."""
        self.may_handle = [False] * len(decisions)
        """Whether a step may yet start, or has begun, as a handler or behind one."""
        self.failing: list[int] = []
        """Steps that fail in this pass."""

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
            if self.failed or self.ending:
                self.may_handle[position] = self._may_handle(position, decision)
        if self.failing:
            return self._once_more()
        return [d if d is not None else self._blocked(i) for i, d in enumerate(self.decisions)]

    def _once_more(self) -> list[Decision]:
        """With what has failed known from the start: which step came first makes no difference."""
        known = list(self.known)
        for position in self.failing:
            known[position] = self.decisions[position]
        return Pass(self.scene, known).run()

    def _new(self, position: int) -> Decision:
        scene = self.scene
        evidence = scene.evidence[position]
        step = evidence.step
        waits = self._waits(position, step)
        verdict = combined(strategy(step), waits.reaches)
        skip = SKIPS.get(verdict)
        if scene.cancelled and skip in (None, End.STOPPED):
            return self._cancelled()
        if skip is not None:
            return Decision(self._skipped(skip, waits))
        if verdict is Reach.UNSATISFIABLE:
            self.failing.append(position)
            return Decision(self._unsatisfiable(waits))
        if verdict is Reach.NOT_YET:
            decision = Decision(self._waiting(position, waits))
        elif scene.terminating:
            decision = Decision(
                waiting(evidence, StepReason.TERMINATING, "the flow is being deleted")
            )
        elif self.failed and not self._handles(position, waits):
            return Decision(self._skipped(End.STOPPED, waits))
        elif self.ending and not self._handles(position, waits):
            because = f"waits until it is known how {listed(self.ending)} ended"
            decision = Decision(waiting(evidence, "", because))
        else:
            decision = first_attempt(evidence, scene)
        if waits.looks or waits.want is Condition.RUNNING:
            return self._lasting(position, decision, verdict, waits)
        return decision

    def _condition(self, position: int) -> StepCondition:
        decision = self.decisions[position]
        assert decision is not None  # the order puts targets first
        return decision.condition

    def _waits(self, position: int, step: Step) -> Waits:
        targets = self.scene.graph.targets[position]
        if (probe := probe_of(step)) is not None:
            looks = [self._look(position, step, probe, target) for target in targets]
            return Waits(targets, [look.reach for look in looks], None, looks)
        ends = self.ends
        want = wanted(step)
        row = REACHES[want]
        reaches = [row[ends[target]] for target in targets]
        if want is Condition.RUNNING:
            for i, target in enumerate(targets):
                if self._has_run(position, target):
                    reaches[i] = Reach.MET
        return Waits(targets, reaches, want)

    # ------------------------------------------------------------- what is met for good

    @cached_property
    def _probing(self) -> Probing:
        return Probing(self.scene.view)

    def _met_before(self, position: int, target: int) -> bool:
        passed = self.scene.evidence[position].memory.passed_targets
        return passed is not None and self.scene.graph.names[target] in passed

    def _look(self, position: int, step: Step, probe: api.Probe, target: int) -> Look:
        if self._met_before(position, target):
            return Look(Reach.MET)
        evidence, condition = self.scene.evidence[target], self._condition(target)
        return self._probing.look(step, probe, evidence, condition, self.ends[target])

    def _has_run(self, position: int, target: int) -> bool:
        if self._met_before(position, target):
            return True
        return has_run(self.scene.evidence[target], self._condition(target), self.scene.records)

    def _lasting(self, position: int, decision: Decision, verdict: Reach, waits: Waits) -> Decision:
        """With what is remembered of targets that are met, and what is still asked of the rest.

        Requests that have passed stay in the plan until that is stored: else it could be forgotten.
        """
        memory, names = self.scene.evidence[position].memory, self.scene.graph.names
        pairs = zip(waits.targets, waits.reaches, strict=True)
        met = [names[target] for target, reach in pairs if reach is Reach.MET]
        condition = decision.condition
        if condition.phase == StepPhase.WAITING:
            condition = msgspec.structs.replace(condition, passed_targets=met or None)
        looks = [
            look for look in waits.looks if verdict is Reach.NOT_YET or look.reach is Reach.MET
        ]
        if self.scene.terminating:
            looks = []
        starts = isinstance(decision.action, CreateJob)
        news = not set(met) <= set(memory.passed_targets or ())
        return decision._replace(
            condition=memory if condition == memory else condition,
            urgent=bool(waits.looks) and news and not starts,
            reads=tuple(look.read for look in looks if look.read is not None),
            probes=tuple(look.probe for look in looks if look.probe is not None),
        )

    # ------------------------------------------------------------ after a failure

    def _is_handler(self, position: int) -> bool:
        step = self.scene.evidence[position].step
        if wanted(step) not in HANDLES or probe_of(step) is not None:
            return False
        return bool(self.scene.graph.targets[position])

    def _handles(self, position: int, waits: Waits) -> bool:
        """Whether a step that is ready starts although the flow has stopped."""
        if self._is_handler(position):
            return True
        pairs = zip(waits.targets, waits.reaches, strict=True)
        return any(how is Reach.MET and self.may_handle[target] for target, how in pairs)

    def _may_handle(self, position: int, decision: Decision) -> bool:
        if decision.condition.phase == StepPhase.SKIPPED:
            return False
        if self._is_handler(position):
            return True
        targets = [t for t in self.scene.graph.targets[position] if self.may_handle[t]]
        if self.known[position] is None:
            return bool(targets)
        return any(self._may_have_started(position, target) for target in targets)

    def _may_have_started(self, position: int, target: int) -> bool:
        """Whether a step that has begun may owe that to a target, and not only to others."""
        step = self.scene.evidence[position].step
        if probe_of(step) is not None:
            return self.scene.evidence[target].attempts > 0
        waits = self._waits(position, step)
        return waits.reaches[waits.targets.index(target)] is Reach.MET

    # ------------------------------------------------------------------- wording

    def _cancelled(self) -> Decision:
        message = self.scene.cancelled
        return Decision(StepCondition(phase=StepPhase.SKIPPED, reason=End.STOPPED, message=message))

    def _waiting(self, position: int, waits: Waits) -> StepCondition:
        evidence = self.scene.evidence[position]
        step = evidence.step
        if self.failed and not self._is_handler(position):
            if not any(self.may_handle[target] for target in waits.targets):
                because = f"will not start, for {self.failed[0]} has failed"
                return waiting(evidence, End.STOPPED, because)
        last = "or" if strategy(step) is Strategy.ANY else "and"
        pending = [i for i, reach in enumerate(waits.reaches) if reach is Reach.NOT_YET]
        if waits.want is None:
            reason = (
                StepReason.WAITING_FOR_PROBE if any(waits.looks[i].said for i in pending) else ""
            )
            return waiting(evidence, reason, f"waits for {self._seen(pending, waits, last)}")
        names = [self._state(waits.targets[i]) for i in pending[:SHOWN]]
        text = f"waits for {listed(names, total=len(pending), last=last)}{_TO[waits.want]}"
        return waiting(evidence, "", text)

    def _state(self, target: int) -> str:
        return f"{self.scene.graph.names[target]} ({self._condition(target).phase})"

    def _seen(self, which: Sequence[int], waits: Waits, last: str) -> str:
        """What was seen of targets: of a single one in full."""
        names, targets = self.scene.graph.names, waits.targets
        if len(which) == 1 and (said := waits.looks[which[0]].said):
            return f"{names[targets[which[0]]]}: {said}"
        shown = [
            f"{names[targets[i]]} ({said})"
            if (said := waits.looks[i].said)
            else self._state(targets[i])
            for i in which[:SHOWN]
        ]
        return listed(shown, total=len(which), last=last)

    def _unsatisfiable(self, waits: Waits) -> StepCondition:
        which = [i for i, reach in enumerate(waits.reaches) if reach is Reach.UNSATISFIABLE]
        text = f"the probe cannot pass any more on {self._seen(which, waits, 'and')}"
        return StepCondition(
            phase=StepPhase.FAILED, reason=StepReason.PROBE_UNSATISFIABLE, message=short(text)
        )

    def _skipped(self, how: End, waits: Waits) -> StepCondition:
        names = [
            self.scene.graph.names[target]
            for target, why in zip(waits.targets, waits.reaches, strict=True)
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
        return Decision(waiting(evidence, StepReason.BLOCKED, message))
