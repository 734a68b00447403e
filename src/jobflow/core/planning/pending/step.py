"""Decisions about steps that have not begun: start, wait, skip or fail.

Targets are decided before their dependants, so that one pass carries an end through the flow.
A ready step is checked in this order: the flow is being deleted or pauses; the step's own
decisions, which are stored before it starts (`stored_decisions`); the flow has stopped after a
failure (`failure_policy`). If a step fails in a pass, all steps are decided again (`plan`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from jobflow.api.flow import dependencies as api
from jobflow.api.flow.dependencies import Condition
from jobflow.api.flow.status import ENDED_STEP_PHASES, Decisions, StepCondition, StepPhase
from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.lazy import lazy_property
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.decision import Decision, StepDecision, wait
from jobflow.core.planning.flow.failure_policy import FailureStop
from jobflow.core.planning.flow.finally_and_daemons import are_left, may_begin
from jobflow.core.planning.observed.steps import ObservedStep, has_begun, has_run
from jobflow.core.planning.pending.course import AsObserved, Course
from jobflow.core.planning.pending.probes import ProbeState
from jobflow.core.planning.pending.stored_decisions import NotTaken, decide, decides
from jobflow.core.planning.pending.target_messages import (
    TargetStates,
    blocked_by,
    skipped_for,
    unsatisfiable,
    waits_for,
)
from jobflow.core.planning.pending.wave import Wave
from jobflow.core.planning.started.matched_items import (
    find_mismatch,
    given_items,
    with_known_lists,
)
from jobflow.core.planning.started.steps import continue_step
from jobflow.core.reasons import StepReason
from jobflow.core.spec.items import takes_items
from jobflow.core.spec.readiness import (
    SKIPS,
    TARGET_STATES,
    StepEnd,
    TargetState,
    combine_states,
)
from jobflow.core.text import shorten

_NOT_YET, _UNSATISFIABLE = TargetState.NOT_YET, TargetState.UNSATISFIABLE


class PendingSteps:
    """One pass over the steps in dependency order: over all of them, or over those alone that a
    change of others concerns."""

    def __init__(
        self,
        ctx: PlanContext,
        decisions: Sequence[StepDecision | None],
        course: Course | None = None,
    ) -> None:
        """`decisions`: those of the steps that have begun; None for all others."""
        self.ctx = ctx
        self.course = course or AsObserved(ctx)
        self.needs = ctx.layout.needs
        self.last_from = ctx.layout.last_from
        self.lifecycle = ctx.facts.lifecycle
        self.known = decisions
        self.decisions = list(decisions)
        self.ends = ctx.progress.ends
        self.stopping = FailureStop(ctx, decisions)
        self.failing: list[int] = []
        """Steps that fail in this pass and stop the flow."""
        self._wave: Wave | None = None

    def run(self) -> list[StepDecision]:
        """Return the decision about every step, by position."""
        self._pass(self.ctx.layout.graph.order)
        return [d or self._blocked(i) for i, d in enumerate(self.decisions)]

    def run_again(
        self, changed: Iterable[int], *, dependants_of: Iterable[int] = ()
    ) -> frozenset[int]:
        """Decide these steps again, those that depend on others and have not begun, and all that
        depends on what ends thereby; return all of them. After a failure, the pass looks at every
        step, to note what it handles."""
        self._wave = Wave(self.ctx)
        for position in changed:
            self._decide_again(position)
        for position in dependants_of:
            self._decide_dependants_again(position)
        self._pass(self.ctx.layout.graph.order if self.stopping.is_active else self._wave)
        return frozenset(self._wave.added)

    def _decide_dependants_again(self, position: int) -> None:
        for dependant in self.ctx.layout.graph.dependants[position]:
            condition = self.ctx.progress.standing[dependant]
            if condition.phase == StepPhase.WAITING and not has_begun(condition):
                self._decide_again(dependant)

    def _decide_again(self, position: int) -> None:
        assert self._wave is not None
        if position < self.last_from or self.finally_may_begin:
            self.decisions[position] = None
            self._wave.add(position)

    def _pass(self, order: Iterable[int]) -> None:
        decisions, stopped = self.decisions, self.stopping.is_active
        blocked, matching = self.ctx.layout.blocked, self.ctx.layout.matching
        for position in order:
            before = decision = decisions[position]
            if before and position in matching and self._may_go_on(position, before):
                decision = self._continued(position)
            if decision is None:
                decision = self._blocked(position) if position in blocked else self._new(position)
                self._take(position, decision)
            if stopped:
                met = self._target_states(position, began=True).met() if before else None
                self.stopping.note(position, decision.condition.phase, met)

    def _may_go_on(self, position: int, decision: StepDecision) -> bool:
        """Whether a step that has begun may begin further items, because a target of these items
        has been decided in this pass."""
        matched = self.needs[position].matched
        has_ended = decision.condition.phase in ENDED_STEP_PHASES
        return not has_ended and any(self.known[target] is None for target in matched)

    def _continued(self, position: int) -> StepDecision | None:
        """Decide a step that has begun once more, after its targets."""
        decision = continue_step(position, self.ctx.observed[position], self.ctx)
        if decision is not None:
            self._take(position, decision)
        return decision

    def _take(self, position: int, decision: StepDecision) -> None:
        condition = decision.condition
        self.decisions[position] = decision
        self.ctx.progress.standing[position] = condition
        if condition.phase in ENDED_STEP_PHASES:
            self.ends[position] = self.ctx.end_of(self.ctx.layout.steps[position], condition)
            if self.stopping.stopped_by(position, condition):
                self.failing.append(position)
            if self._wave is not None:
                self._decide_dependants_again(position)

    def ended(self) -> dict[int, StepDecision]:
        """Return the decisions that more facts do not change, by position: those of steps that had
        begun and have ended, that fail in this pass, and that completed before one that fails."""
        found = {
            position: decision
            for position, decision in enumerate(self.known)
            if decision is not None and decision.condition.phase in ENDED_STEP_PHASES
        }
        before = list(self.failing)
        seen = set(before)
        while before:
            position = before.pop()
            decision = self.decisions[position]
            if decision is None:
                continue
            if decision.condition.phase in (StepPhase.FAILED, StepPhase.COMPLETED):
                found.setdefault(position, decision)
            targets = set(self.ctx.layout.graph.targets[position]) - seen
            seen |= targets
            before.extend(targets)
        return found

    def _new(self, position: int) -> StepDecision:
        ctx = self.ctx
        observed = ctx.observed[position]
        if position in ctx.layout.left_out:
            message = "spec.targets names neither it nor a step that depends on it"
            return self._skipped(observed, StepReason.NOT_TARGETED, message)
        is_last = position >= self.last_from
        if is_last and (waits := self._before_finally(observed)) is not None:
            return waits
        targets = self._target_states(position)
        need = targets.need
        verdict = combine_states(need.how, targets.reaches)
        skip = SKIPS.get(verdict)
        if self.lifecycle.ending_reason and not is_last and skip in (None, StepEnd.STOPPED):
            return self._skipped(observed, StepReason.STOPPED, self.lifecycle.ending_message)
        if skip is not None:
            message = skipped_for(skip, ctx, targets, self.stopping.failed)
            return self._skipped(observed, StepReason(skip), message)
        if verdict is _UNSATISFIABLE:
            message = unsatisfiable(ctx, targets)
            return StepDecision(_ended(observed, StepReason.PROBE_UNSATISFIABLE, message))
        if verdict is _NOT_YET:
            decision = StepDecision(self._wait_for_targets(position, targets))
        else:
            decision = self._ready(position, targets)
        if targets.looks or need.to_run or observed.stored.passed_targets:
            return self._lasting(position, decision, verdict, targets)
        return decision

    def _before_finally(self, observed: ObservedStep) -> StepDecision | None:
        """Return the decision about a step of `finally` that may not begin, else None."""
        if self.lifecycle.finally_too:
            return self._skipped(observed, StepReason.STOPPED, self.lifecycle.ending_message)
        if not self.finally_may_begin and not self.ctx.terminating:
            return StepDecision(wait(observed, "", "waits until all other steps have ended"))
        return None

    def _ready(self, position: int, targets: TargetStates) -> StepDecision:
        ctx = self.ctx
        observed = ctx.observed[position]
        if ctx.terminating:
            message = "the flow is being deleted"
            return StepDecision(wait(observed, StepReason.TERMINATING, message))
        if ctx.pause is not None:
            return StepDecision(wait(observed, *ctx.pause))
        decided = self._decided(position, observed)
        if isinstance(decided, Decision):
            return decided
        if (stopped := self._stopped_by_failure(position, observed, targets)) is not None:
            return stopped
        if decided is not observed.stored.decisions:
            condition = wait(observed, StepReason.STARTING, "its decisions are being stored")
            return StepDecision(msgspec.structs.replace(condition, decisions=decided), urgent=True)
        if (old := _resumed(observed, ctx)) and observed.stored.past_attempts:
            message = f"waits until the old job {old}, which was resumed, has ended"
            return StepDecision(wait(observed, StepReason.NAME_IN_USE, message))
        return self.course.begin(position)

    def _decided(self, position: int, observed: ObservedStep) -> Decisions | StepDecision | None:
        """Return what a ready step has decided, or the decision about the step if it cannot start
        because of that."""
        ctx, step = self.ctx, observed.step
        decided: Decisions | NotTaken | EvaluationFailure | None = observed.stored.decisions
        if decided is None and self.course.evaluates and decides(step):
            given = given_items(position, ctx) if takes_items(step) else ()
            if given is None:
                message = "no target has items that are known"
                return self._skipped(observed, StepReason.UPSTREAM_FAILED, message)
            decided = ctx.answer(observed, "when", lambda: decide(step, ctx.seen(), given))
            if decided is None:
                message = "its conditions are being looked at"
                condition = wait(observed, StepReason.STARTING, message)
                return StepDecision(condition, wake_at=ctx.later)
        if isinstance(decided, EvaluationFailure):
            return StepDecision(_ended(observed, StepReason.EXPRESSION_ERROR, decided.message))
        if isinstance(decided, NotTaken):
            return self._skipped(observed, StepReason.NOT_TAKEN, decided.why, decided.decisions)
        if mismatch := find_mismatch(position, decided, ctx):
            return StepDecision(_ended(observed, StepReason.ITEMS_MISMATCH, mismatch))
        return decided

    def _stopped_by_failure(
        self, position: int, observed: ObservedStep, targets: TargetStates
    ) -> StepDecision | None:
        """Return the decision if a failure keeps a ready step from starting, else None."""
        stopping = self.stopping
        if not stopping.is_active or position >= self.last_from:
            return None
        if stopping.admits(position, targets.met()) or stopping.goes_on(position):
            return None
        if stopping.failed:
            message = skipped_for(StepEnd.STOPPED, self.ctx, targets, stopping.failed)
            return self._skipped(observed, StepReason.STOPPED, message)
        return StepDecision(wait(observed, *stopping.pause))

    def _target_states(self, position: int, *, began: bool = False) -> TargetStates:
        """`began`: a step that has begun does not need its probe any more."""
        ends, need = self.ends, self.needs[position]
        if (probe := need.probe) is not None:
            if began:
                return TargetStates(need, [TargetState.MET] * len(need.targets))
            looks = [self._look(position, probe, target) for target in need.targets]
            return TargetStates(need, [look.reach for look in looks], looks)
        reaches = [row[ends[t]] for row, t in zip(need.rows, need.targets, strict=True)]
        for i in need.to_run:
            target = need.targets[i]
            ran = self._has_run(position, target)
            reaches[i] = TargetState.MET if ran else TARGET_STATES[Condition.RUNNING][ends[target]]
        if need.matched:
            reaches = with_known_lists(self.ctx, need, reaches)
        return TargetStates(need, reaches)

    @lazy_property
    def finally_may_begin(self) -> bool:
        return may_begin(self.ctx)

    @lazy_property
    def _are_left_before_finally(self) -> bool:
        return are_left(self.ctx, range(self.last_from))

    @lazy_property
    def _all_are_left(self) -> bool:
        return are_left(self.ctx, range(len(self.ctx.layout.steps)))

    def _met_before(self, position: int, target: int) -> bool:
        passed = self.ctx.observed[position].stored.passed_targets
        return passed is not None and self.ctx.layout.graph.names[target] in passed

    def _look(self, position: int, probe: api.Probe, target: int) -> ProbeState:
        if self._met_before(position, target):
            return ProbeState(TargetState.MET)
        return self.course.look(position, probe, target)

    def _has_run(self, position: int, target: int) -> bool:
        if self._met_before(position, target):
            return True
        ctx = self.ctx
        return has_run(ctx.observed[target], ctx.shown_to_dependants(target), ctx.records)

    def _lasting(
        self, position: int, decision: StepDecision, verdict: TargetState, targets: TargetStates
    ) -> StepDecision:
        """Add the targets that stay met, and the probes and reads of the others. Probes that have
        passed stay until the status says so, so that the prober does not forget them."""
        stored, names = self.ctx.observed[position].stored, self.ctx.layout.graph.names
        met = [names[target] for target in targets.lasting()]
        condition = decision.condition
        if condition.phase == StepPhase.WAITING:
            condition = msgspec.structs.replace(condition, passed_targets=met or None)
        looks = [
            look
            for look in (() if self.ctx.terminating else targets.looks)
            if verdict is _NOT_YET or look.reach is TargetState.MET
        ]
        moments = [at for at in (decision.wake_at, *(look.wake_at for look in looks)) if at]
        news = not set(met) <= set(stored.passed_targets or ())
        return msgspec.structs.replace(
            decision,
            condition=stored if condition == stored else condition,
            urgent=decision.urgent or (bool(targets.looks) and news and not decision.drafts),
            wake_at=min(moments, default=None),
            reads=tuple(look.read for look in looks if look.read is not None),
            wants=tuple(look.probe for look in looks if look.probe is not None),
        )

    def _wait_for_targets(self, position: int, targets: TargetStates) -> StepCondition:
        observed, stopping = self.ctx.observed[position], self.stopping
        is_last = position >= self.last_from
        if stopping.failed and not (
            is_last or stopping.admits(position) or stopping.goes_on(position)
        ):
            message = f"will not start, because {stopping.failed[0]} has failed"
            return wait(observed, StepReason.STOPPED, message)
        return wait(observed, *waits_for(self.ctx, targets))

    def _blocked(self, position: int) -> StepDecision:
        ctx = self.ctx
        observed = ctx.observed[position]
        if self.lifecycle.ending_reason:
            return self._skipped(observed, StepReason.STOPPED, self.lifecycle.ending_message)
        message = blocked_by(ctx, observed.step)
        left = self._all_are_left if position >= self.last_from else self._are_left_before_finally
        if left and not ctx.terminating:
            return self._skipped(observed, StepReason.BLOCKED, message)
        return StepDecision(wait(observed, StepReason.BLOCKED, message))

    def _skipped(
        self,
        observed: ObservedStep,
        reason: StepReason,
        message: str,
        decided: Decisions | None = None,
    ) -> StepDecision:
        condition = _ended(observed, reason, message, phase=StepPhase.SKIPPED)
        if decided is not None:
            condition = msgspec.structs.replace(condition, decisions=decided)
        return StepDecision(condition)


def _ended(
    observed: ObservedStep, reason: str, message: str, phase: StepPhase = StepPhase.FAILED
) -> StepCondition:
    """Return the end of a step that has not begun; it keeps attempts before a retry."""
    stored = observed.stored
    runs = [
        run if run.phase != StepPhase.WAITING else msgspec.structs.replace(run, phase=phase)
        for run in stored.runs or ()
    ]
    return StepCondition(
        phase=phase,
        reason=reason,
        message=shorten(message),
        job=stored.job,
        attempts=stored.attempts,
        past_attempts=stored.past_attempts,
        requested_hours=stored.requested_hours,
        decisions=stored.decisions,
        runs=runs or None,
    )


def _resumed(observed: ObservedStep, ctx: PlanContext) -> str:
    """Return the name of a vcjob from before a retry that was resumed since, or ""."""
    names = (job.metadata.name for job in observed.jobs if not job.ended)
    return next((name for name in names if name not in ctx.view.deleted), "")
