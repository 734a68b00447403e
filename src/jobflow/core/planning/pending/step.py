"""Decisions about steps that have not begun: start, wait, skip or fail.

Targets are decided before their dependants, so that one pass carries an end through the flow. If a
step fails in a pass, all steps are decided again (`plan`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heappop, heappush
from typing import cast

import msgspec

from jobflow.api.flow.status import ENDED_STEP_PHASES, StepPhase
from jobflow.api.flow.step import Probe
from jobflow.core.lazy import lazy_property
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.decision import Decision, StepDecision, end_unstarted, fail, skip, wait
from jobflow.core.planning.flow.failure_policy import FailureStop
from jobflow.core.planning.flow.finally_and_daemons import first_left, may_begin
from jobflow.core.planning.observed.steps import ObservedStep, has_begun
from jobflow.core.planning.pending.probes import ProbeState, Probing
from jobflow.core.planning.pending.stored_decisions import decide_first
from jobflow.core.planning.pending.targets import (
    TargetStates,
    blocked_by,
    skipped_for,
    unsatisfiable,
    waits_for,
)
from jobflow.core.planning.started import loop
from jobflow.core.planning.started.loop_summary import summarize
from jobflow.core.planning.started.matched_items import find_mismatch, with_known_lists
from jobflow.core.planning.started.run import start_run
from jobflow.core.planning.started.steps import continue_step
from jobflow.core.planning.work.end import ended_by_hand
from jobflow.core.reasons import StepReason
from jobflow.core.spec.graph import find_reachable
from jobflow.core.spec.readiness import SKIPS, StepEnd, TargetState, combine_states

_NOT_YET = TargetState.NOT_YET


class PendingSteps:
    """One pass over the steps in dependency order, or over those alone that a change of others
    concerns. A forecast, which supposes something else than jobs and pods show, overrides
    `evaluates`, `look` and `begin`."""

    evaluates = True
    """Whether the conditions of a step are evaluated. If not, it runs whatever they say."""

    def __init__(self, ctx: PlanContext, begun: Mapping[int, StepDecision]) -> None:
        """`begun`: the decisions about the steps that have begun, by position."""
        self.ctx = ctx
        self.layout = ctx.layout
        self.lifecycle = ctx.facts.lifecycle
        self.begun = begun
        self.decisions = dict(begun)
        self.ends = ctx.progress.ends
        self.stopping = FailureStop(ctx, begun)
        self.failing: list[int] = []
        """Steps that fail in this pass and stop the flow."""
        self._again: set[int] = set()
        """The steps that `run_again` decides once more."""
        self._spreads = False
        """Whether what depends on a step that ends is decided again."""
        self._queue: list[int] = []
        """Their ranks in dependency order, as a heap: a decision may add steps behind it."""

    def run(self) -> list[StepDecision]:
        """Return the decision about every step, by position."""
        for position in self.layout.graph.order:
            self._visit(position)
        every = range(len(self.layout.steps))
        # steps in a cycle, and those behind one, are not in the order
        if len(self.decisions) < len(every):
            return [self.decisions.get(i) or self._blocked(i) for i in every]
        return list(map(self.decisions.__getitem__, every))

    def run_again(
        self, changed: Iterable[int], *, dependants_of: Iterable[int] = ()
    ) -> frozenset[int]:
        """Decide these steps again, those that depend on others and have not begun, and all that
        depends on what ends thereby; return all of them. After a failure, the pass looks at every
        step, to note what it handles."""
        self._again, self._queue, self._spreads = set(), [], True
        order = self.layout.graph.order
        for position in changed:
            self._enqueue(position)
        for position in dependants_of:
            self._enqueue_dependants(position)
        if self.stopping.is_active:
            for position in order:
                self._visit(position)
        else:
            while self._queue:
                self._visit(order[heappop(self._queue)])
        return frozenset(self._again)

    def look(self, position: int, probe: Probe, target: int) -> ProbeState:
        """Return the state of the probe of a step on a target that it has not passed before."""
        ctx = self.ctx
        observed, condition = ctx.observed[target], ctx.progress.standing[target]
        return self._probing.look(
            self.layout.steps[position], probe, observed, condition, self.ends[target]
        )

    def begin(self, observed: ObservedStep) -> StepDecision:
        """Start a step; after a retry of the flow, the runs that are left."""
        if observed.loops:
            return summarize(loop.begin(observed, self.ctx))
        return cast(StepDecision, start_run(observed, self.ctx))

    def ended(self) -> dict[int, StepDecision]:
        """Return the decisions that more facts do not change, by position: those of steps that had
        begun and have ended, that fail in this pass, and that ended before one that fails, but for
        those behind another one that does."""
        found = {
            position: decision
            for position, decision in self.begun.items()
            if decision.condition.phase in ENDED_STEP_PHASES
        }
        failing, graph = set(self.failing), self.layout.graph
        behind = find_reachable(graph.dependants.__getitem__, failing) - failing
        for position in find_reachable(graph.targets.__getitem__, failing) - behind:
            decision = self.decisions.get(position)
            if decision is not None and decision.condition.phase in ENDED_STEP_PHASES:
                found.setdefault(position, decision)
        return found

    def _enqueue(self, position: int) -> None:
        # a step in a cycle has no rank, and is never decided by a pass
        rank = self.layout.ranks.get(position)
        if position >= self.layout.last_from and not self.finally_may_begin:
            return
        self.decisions.pop(position, None)
        if rank is not None and position not in self._again:
            self._again.add(position)
            heappush(self._queue, rank)

    def _enqueue_dependants(self, position: int) -> None:
        for dependant in self.layout.graph.dependants[position]:
            condition = self.ctx.progress.standing[dependant]
            if condition.phase == StepPhase.WAITING and not has_begun(condition):
                self._enqueue(dependant)

    def _visit(self, position: int) -> None:
        before = decision = self.decisions.get(position)
        if before and position in self.layout.matching:
            has_ended = before.condition.phase in ENDED_STEP_PHASES
            # a target of its items that was decided in this pass may let further items begin
            if not (has_ended or self.layout.needs[position].matched.issubset(self.begun)):
                decision = continue_step(position, self.ctx)
                if decision is not None:
                    self._take(position, decision)
        if decision is None:
            judge = self._blocked if position in self.layout.blocked else self._decide
            decision = judge(position)
            self._take(position, decision)
        # a handler is found behind any step, also one that has ended
        if self.stopping.is_active:
            met = self._target_states(position, began=True).met() if before else None
            self.stopping.note(position, decision.condition.phase, met)

    def _take(self, position: int, decision: StepDecision) -> None:
        condition = decision.condition
        self.decisions[position] = decision
        self.ctx.progress.standing[position] = condition
        if self.layout.may_end_at_once:
            self.ctx.note_unstored(position, condition)
        if condition.phase in ENDED_STEP_PHASES:
            self.ends[position] = self.ctx.end_of(self.layout.steps[position], condition)
            if self.stopping.stopped_by(position, condition):
                self.failing.append(position)
            if self._spreads:
                self._enqueue_dependants(position)

    def _decide(self, position: int) -> StepDecision:
        """Decide about a step whose targets exist and have been decided."""
        ctx, observed = self.ctx, self.ctx.observed[position]
        in_finally = position >= self.layout.last_from
        lifecycle = self.lifecycle
        # before its targets: they may be left out too
        if position in self.layout.left_out:
            message = "spec.targets names neither it nor a step that depends on it"
            return skip(observed, StepReason.NOT_TARGETED, message)
        if ctx.orders and (order := ctx.order_for(observed)) is not None:
            return StepDecision(end_unstarted(observed, **ended_by_hand(observed, order, ctx)))
        if in_finally and lifecycle.finally_too:
            return skip(observed, StepReason.STOPPED, lifecycle.ending_message)
        if in_finally and not (self.finally_may_begin or ctx.terminating):
            return StepDecision(wait(observed, "", "waits until all other steps have ended"))
        targets = self._target_states(position)
        need = targets.need
        verdict = combine_states(need.how, targets.reaches)
        end = SKIPS.get(verdict)
        if lifecycle.ending_reason and not in_finally and end in (None, StepEnd.STOPPED):
            return skip(observed, StepReason.STOPPED, lifecycle.ending_message)
        if end is not None:
            message = skipped_for(end, ctx, targets, self.stopping.failed)
            return skip(observed, StepReason(end), message)
        if verdict is TargetState.UNSATISFIABLE:
            return fail(observed, StepReason.PROBE_UNSATISFIABLE, unsatisfiable(ctx, targets))
        if verdict is not _NOT_YET:
            decision = self._ready(position, targets)
        elif self.stopping.failed and not (in_finally or self.stopping.may_start(position)):
            message = f"will not start, because {self.stopping.failed[0]} has failed"
            decision = StepDecision(wait(observed, StepReason.STOPPED, message))
        else:
            decision = StepDecision(wait(observed, *waits_for(ctx, targets)))
        if targets.looks or need.to_run or observed.stored.passed_targets:
            return targets.noted_in(decision, verdict, observed, ctx)
        return decision

    def _ready(self, position: int, targets: TargetStates) -> StepDecision:
        """Start a step whose targets let it start, if nothing else keeps it."""
        ctx, observed, stopping = self.ctx, self.ctx.observed[position], self.stopping
        if ctx.terminating:
            message = "the flow is being deleted"
            return StepDecision(wait(observed, StepReason.TERMINATING, message))
        if ctx.pause is not None:
            return StepDecision(wait(observed, *ctx.pause))
        decided = observed.stored.decisions
        if decided is None and self.evaluates and position in self.layout.deciding:
            made = decide_first(position, ctx)
            if isinstance(made, Decision):
                return made
            decided = made
        if position in self.layout.matching and (why := find_mismatch(position, decided, ctx)):
            return fail(observed, StepReason.ITEMS_MISMATCH, why)
        is_spared = position >= self.layout.last_from or not stopping.is_active
        if not (is_spared or stopping.may_start(position, targets.met())):
            if not stopping.failed:
                return StepDecision(wait(observed, *stopping.pause))
            message = skipped_for(StepEnd.STOPPED, ctx, targets, stopping.failed)
            return skip(observed, StepReason.STOPPED, message)
        # a crash between the create and the status must not take another branch
        if decided is not observed.stored.decisions:
            ready = observed.with_decisions(decided)
            if ready.work.at_once:  # its end is stored with them
                return self.begin(ready)
            # what it is made of is known once it is stored
            may_take = ctx.source is not None and not ctx.is_behind_unstored(position)
            if may_take and (taken := self._taken(ready)) is not None:
                return taken
            condition = wait(observed, StepReason.STARTING, "its decisions are being stored")
            return StepDecision(msgspec.structs.replace(condition, decisions=decided), urgent=True)
        if ctx.progress.unstored and observed.work.has_objects and ctx.is_behind_unstored(position):
            message = "the values of steps before it are being stored"
            return StepDecision(wait(observed, StepReason.STARTING, message), urgent=True)
        # the new attempt would run beside one that somebody has resumed
        if observed.stored.past_attempts:
            names = (job.metadata.name for job in observed.jobs if not job.ended)
            old = next((name for name in names if name not in ctx.view.deleted), None)
            if old is not None:
                message = f"waits until the old job {old}, which was resumed, has ended"
                return StepDecision(wait(observed, StepReason.NAME_IN_USE, message))
        return self.begin(observed)

    def _taken(self, observed: ObservedStep) -> StepDecision | None:
        """Return the decision that runs of a step take results of an earlier flow in the plan that
        makes its decisions, which are stored with them; None if no run does. The others start in
        the next plan."""
        if observed.attempts or not observed.work.has_pods:
            return None
        found = self.begin(observed)
        runs = (found.condition.runs or ()) if observed.loops else (found.condition,)
        if not any(run.reason == StepReason.REUSED for run in runs):
            return None
        return msgspec.structs.replace(found, drafts=(), urgent=True)

    def _target_states(self, position: int, *, began: bool = False) -> TargetStates:
        """`began`: a step that has begun does not need its probe any more."""
        ctx, ends, need = self.ctx, self.ends, self.layout.needs[position]
        if need.probe is not None and not began:
            names = self.layout.graph.names
            passed = ctx.observed[position].stored.passed_targets or ()
            looks = [
                ProbeState(TargetState.MET)
                if names[target] in passed
                else self.look(position, need.probe, target)
                for target in need.targets
            ]
            return TargetStates(need, [look.reach for look in looks], looks)
        reaches = [row[ends[t]] for row, t in zip(need.rows, need.targets, strict=True)]
        for i in need.to_run:
            if ctx.has_run_for(ctx.observed[position], need.targets[i]):
                reaches[i] = TargetState.MET
        if need.matched:
            reaches = with_known_lists(ctx, need, reaches)
        return TargetStates(need, reaches)

    def _blocked(self, position: int) -> StepDecision:
        ctx, observed = self.ctx, self.ctx.observed[position]
        if self.lifecycle.ending_reason:
            return skip(observed, StepReason.STOPPED, self.lifecycle.ending_message)
        message = blocked_by(ctx, observed.step)
        last_from = self.layout.last_from
        # admission refuses such a step; a flow that was stored without it ends all the same
        others = last_from if position < last_from else len(self.layout.steps)
        if self._first_left >= others and not ctx.terminating:
            return skip(observed, StepReason.BLOCKED, message)
        return StepDecision(wait(observed, StepReason.BLOCKED, message))

    @lazy_property
    def _probing(self) -> Probing:
        return Probing(self.ctx.view, self.ctx.now)

    @lazy_property
    def finally_may_begin(self) -> bool:
        return may_begin(self.ctx)

    @lazy_property
    def _first_left(self) -> int:
        return first_left(self.ctx)
