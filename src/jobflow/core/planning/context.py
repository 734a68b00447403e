"""PlanContext: everything that the decisions of one plan read.

When the facts about the flow as a whole have grown, every step is decided again, in a context that
differs from the first one in its facts alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import attrgetter
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET

from jobflow.api.flow.by_hand import ByHand
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import (
    FlowPhase,
    JobRecord,
    ReusedFlow,
    RunCondition,
    StepCondition,
    StepPhase,
)
from jobflow.api.flow.step import Step
from jobflow.api.volcano.command import Action
from jobflow.core.cel.budget import NEXT_PLAN_DELAY, PlanBudget
from jobflow.core.cel.scope import AttemptFacts, EvaluationScope, StepAndCondition, list_failures
from jobflow.core.lazy import lazy_property
from jobflow.core.manifests.volume_claims import differing_names, movable_claims
from jobflow.core.planning.actions import COMMAND_AGAIN
from jobflow.core.planning.decision import CreateBudget, StepDecision
from jobflow.core.planning.lifecycle import Pause, stored_lifecycle
from jobflow.core.planning.observed.children import with_facts_of_children
from jobflow.core.planning.observed.identity import assign, without_namesakes
from jobflow.core.planning.observed.steps import (
    ObservedRun,
    ObservedStep,
    gather,
    has_begun,
    has_run,
)
from jobflow.core.planning.observed.view import CreateError, Refusal, View
from jobflow.core.planning.progress import Facts, Progress, Reusing
from jobflow.core.pods.outputs import OutputsRoom
from jobflow.core.reasons import BY_HAND, StepReason
from jobflow.core.spec.compiled import CompiledFlow, compile_flow
from jobflow.core.spec.readiness import StepEnd, fails_flow, get_end
from jobflow.core.spec.step_commands import ApprovalKey, parse_key
from jobflow.core.text import shorten
from jobflow.core.timestamps import add, truncate_to_second
from jobflow.core.work import Work, may_run_steps, work_of, work_of_object, works_of

T = TypeVar("T")
C = TypeVar("C", bound=RunCondition)


@dataclass(frozen=True)
class PlanContext:
    """A flow, what is known of its steps, the time, and the facts of this plan."""

    flow: JobFlow
    view: View
    now: datetime
    second: datetime
    """`now` in whole seconds."""
    terminating: bool
    """Whether the flow is being deleted."""
    layout: CompiledFlow
    records: Mapping[str, JobRecord]
    """The stored records of vcjobs, by name."""
    observed: Sequence[ObservedStep]
    """The observed steps, by position."""
    orders: Mapping[ApprovalKey, ByHand]
    """What users have ordered by hand, by step and item."""
    source: JobFlow | None
    """The flow whose results this one takes, if it still exists."""
    facts: Facts
    progress: Progress

    @classmethod
    def of(cls, flow: JobFlow, view: View, now: datetime) -> PlanContext:
        """Gather what is known before anything is decided."""
        second, layout = truncate_to_second(now), compile_flow(flow)
        if layout.has_param_values:
            # rules read numbers and timeouts, never the references that stand in the spec
            flow = msgspec.structs.replace(flow, spec=layout.spec)
        # one pass for all: the decisions look records up by name
        records = {record.name: record for record in flow.status.job_status_list or ()}
        view = without_namesakes(flow, view)
        # an older version has written the status, without the newest fields
        if layout.has_children:
            flow = with_facts_of_children(flow, view.jobs)
        # nothing that is read changes from here on: the passes only write `progress`
        observed = gather(flow, layout, records, second)
        assign(observed, layout, view, flow)
        facts = Facts(stored_lifecycle(flow, second))
        progress = Progress(*_stored(observed, facts), PlanBudget())
        reuse, source = flow.status.reuse, view.source
        return cls(
            flow=flow,
            view=view,
            now=now,
            second=second,
            terminating=flow.metadata.deletion_timestamp is not None,
            layout=layout,
            records=records,
            observed=observed,
            orders=_orders(flow) if flow.status.by_hand else {},
            source=source if reuse and source and source.metadata.uid == reuse.uid else None,
            facts=facts,
            progress=progress,
        )

    def at_start(self, source: JobFlow | None) -> PlanContext:
        """Return the context of a flow that starts and takes the results of this one, if any."""
        flow, reuse, names = self.flow, None, None
        if source is not None:
            reuse = ReusedFlow(
                flow=source.metadata.name,
                uid=source.metadata.uid,
                moving_claims=bool(movable_claims(flow, source)),
            )
        if reuse is None or not reuse.moving_claims:
            names = differing_names(flow, {}, self.view.claim_takers, source)
        status = msgspec.structs.replace(flow.status, reuse=reuse, reused_claims=names)
        flow = msgspec.structs.replace(self.flow, status=status)
        return replace(self, flow=flow, source=source)

    def with_facts(self, facts: Facts) -> PlanContext:
        """Return the context for another round of decisions. The effects of Commands make the
        notes of earlier rounds void."""
        last, (standing, ends) = self.progress, _stored(self.observed, facts)
        if (facts.lifecycle, facts.answers) == (self.facts.lifecycle, self.facts.answers):
            # facts of this plan do not change what pods have said
            progress = replace(
                last, standing=standing, ends=ends, unstored=set(), target_ends={}, made_of={}
            )
            # a step that had ended in the last round may end otherwise in this one
            if any(last.ends[i] is not ends[i] for i in range(len(ends)) if i not in facts.ended):
                progress.answers, progress.reusing = {}, Reusing()
        else:
            progress = Progress(standing, ends, PlanBudget(), last.creates)
        if facts.faults:  # so many creates were built in vain
            progress.creates = CreateBudget()
        return replace(self, facts=facts, progress=progress)

    @lazy_property
    def pause(self) -> Pause | None:
        """Why no step, item or attempt starts at present, or None."""
        reuse = self.flow.status.reuse
        moving = None if reuse is None else self._moving_claims(reuse)
        return self.facts.lifecycle.pause or moving or self.facts.failing

    def _moving_claims(self, reuse: ReusedFlow) -> Pause | None:
        if not reuse.moving_claims:
            return None
        for name, answer in self.view.claims.items():
            is_early = isinstance(answer, CreateError) and self.now < answer.shown_at
            if isinstance(answer, Refusal | CreateError) and not is_early:
                what = f"the volume claim {name} cannot be moved from the flow {reuse.flow}"
                return Pause(StepReason.CREATE_REFUSED, shorten(f"{what}: {answer.message}"))
        message = f"the volume claims of the flow {reuse.flow} are being moved"
        return Pause(StepReason.STARTING, message)

    def order_for(self, run: ObservedRun) -> ByHand | None:
        """Return what a user has ordered for a run, or for its whole step."""
        if not self.orders:
            return None
        name = run.step.name
        item = self.orders.get(ApprovalKey(name, run.index))
        return item or self.orders.get(ApprovalKey(name))

    @property
    def later(self) -> datetime:
        """When expressions are evaluated for which this plan has no budget left."""
        return self.now + NEXT_PLAN_DELAY

    @lazy_property
    def flow_phase(self) -> FlowPhase:
        """The value of `flow.phase` in `finally`: how the flow ends by its other steps, which have
        ended by the stored status."""
        failed = self.facts.lifecycle.ending_reason or any(
            fails_flow(each.step, each.stored) for each in self.observed[: self.layout.last_from]
        )
        return FlowPhase.FAILED if failed else FlowPhase.SUCCEED

    @property
    def outputs_room(self) -> OutputsRoom:
        """The room that stored outputs, and those of steps that have ended in this plan, leave."""
        if self.progress.outputs_room is None:
            # stored outputs have their room for good
            outputs = (run.stored.outputs for each in self.observed for run in each.each)
            room = OutputsRoom(each for each in outputs if each is not None)
            self.progress.outputs_room = room
        return self.progress.outputs_room

    @lazy_property
    def children(self) -> frozenset[str]:
        """Names of the child flows that the View or the status has."""
        names = {n for n, job in self.view.jobs.items() if work_of_object(job).has_steps}
        for condition in (self.flow.status.conditions or {}).values():
            names |= {run.flow for run in (condition, *(condition.runs or ())) if run.flow}
        return frozenset(names)

    def command_again(self, key: str) -> datetime | None:
        """Return when another Command may be sent, by the key in `View.aborts`; None: now."""
        asked = self.view.aborts.get(key)
        again = None if asked is None else add(asked, COMMAND_AGAIN)
        return None if again is None or again <= self.now else again

    def work_named(self, step: Step, name: str) -> Work:
        """Return the facts of the attempt of a step with this name: each case of a `switch` may
        have another kind, and a retry of the flow may choose another case."""
        own = work_of(step)
        if own.has_steps or not self.layout.has_children or name not in self.children:
            return own
        return next((work for work in works_of(step) if work.has_steps), own)

    @lazy_property
    def taken(self) -> frozenset[str]:
        """Names of vcjobs that a further attempt must not use, because it is known by its name."""
        names = {*self.view.jobs, *self.records, *self.view.holders}
        for observed in self.observed:
            names.add(observed.key)
            for run in observed.each:
                names |= {run.key, run.stored.job}
        return frozenset(names)

    def seen(
        self,
        run: ObservedRun | None = None,
        ended: RunCondition | None = None,
        attempt: AttemptFacts | None = None,
        phase: FlowPhase | None = None,
    ) -> EvaluationScope:
        """Return the values that an expression of a step, or of one run of it, can use. `ended`:
        the condition of the run that has just ended, for `until` and `retry.when`; `phase`: how
        the flow ends, for its outputs."""
        last: Any = UNSET
        if run is not None and run.step.repeat is not None:
            runs = self.observed[self.layout.graph.index[run.step.name]].runs
            before = next((each for each in runs if each.index == (run.index or 0) - 1), None)
            last = {}  # the first repeat has none before it
            if before is not None:
                last = {"outputs": before.stored.outputs or {}, "index": before.index}
        return EvaluationScope(
            self.flow,
            self._standing,
            lambda: self._failures,
            self.flow_phase if phase is None and self.layout.finally_names else phase,
            index=None if run is None else run.index,
            item=UNSET if run is None or run.index is None else run.item,
            run=ended,
            attempt=attempt,
            last=last,
            budget=self.progress.allowance.share(),
        )

    @lazy_property
    def _failures(self) -> list[dict[str, Any]]:
        """The value of `flow.failures`, which is needed only when all other steps have ended."""
        steps = self.layout.steps[: self.layout.last_from]
        return list_failures(zip(steps, self.progress.standing, strict=False))

    def note_unstored(self, position: int, condition: StepCondition) -> None:
        """Note whether objects that depend on a step wait until this condition is stored, in a flow
        in which some step may end at once."""
        if condition is not self.observed[position].stored:
            step = self.layout.steps[position]
            work = work_of(step, step.case_of(condition.decisions))
            if (work.at_once and has_begun(condition)) or self.is_behind_unstored(position):
                self.progress.unstored.add(position)

    def is_behind_unstored(self, position: int) -> bool:
        """Return whether a step depends on what only the status will show."""
        return not self.progress.unstored.isdisjoint(self.layout.graph.targets[position])

    def shown_to_dependants(self, position: int, *, at_once: bool = False) -> StepCondition:
        """Return the condition of a step as steps that depend on it may use it: the stored one of
        work without objects that has begun, else as far as this round has decided. `at_once`: to
        one that is decided at once, and stored with it."""
        standing = self.progress.standing[position]
        if position in self.progress.unstored:
            return standing if at_once else self.observed[position].stored
        is_stored = position in self.layout.ends_in_status
        if is_stored and must_be_stored(self.layout.steps[position], standing):
            return self.observed[position].stored
        return standing

    def has_run_for(self, dependant: ObservedStep, target: int) -> bool:
        """Whether a target has run, for a dependant that only needs it to run."""
        # once it was met, it stays so
        if self.layout.graph.names[target] in (dependant.stored.passed_targets or ()):
            return True
        shown = self.shown_to_dependants(target, at_once=True)
        return has_run(self.observed[target], shown, self.records)

    def end_of(self, step: Step, condition: RunCondition) -> StepEnd | None:
        """Return how a step, or one run of it, has ended, or None if it has not."""
        return get_end(step, condition, is_cancelled=bool(self.facts.lifecycle.ending_reason))

    def _standing(self, name: str) -> StepAndCondition | None:
        position = self.layout.graph.index.get(name)
        if position is None:
            return None
        return self.layout.steps[position], self.progress.standing[position]

    def answer(self, run: ObservedRun, field: str, evaluate: Callable[[], T]) -> T | None:
        """Return the answer of the expressions in a field of a run's step, or None if this plan
        may evaluate no more. They are evaluated once a plan."""
        answers, key = self.progress.answers, f"{run.key} {field}"
        if key not in answers:
            # a plan ends in bounded time: the next one evaluates the rest
            if self.progress.allowance.spent:
                return None
            answers[key] = evaluate()
        found: T = answers[key]
        return found


def must_be_stored(step: Step, condition: RunCondition) -> bool:
    """Return whether this end of a step or a run, which is not stored yet, must be stored before
    anything follows from it, because no object shows it. It has begun, or has no such end."""
    if condition.attempts < 1 or condition.phase == StepPhase.SKIPPED:
        return False
    return not any(work.has_objects or work.at_once for work in works_of(step))


def with_job_as_child(condition: StepCondition, step: Step, ctx: PlanContext) -> StepCondition:
    """Return a condition as the status has it, with the names of child flows in `flow`."""
    if not may_run_steps(step):
        return condition

    def named(each: C) -> C:
        if not each.job or not ctx.work_named(step, each.job).has_steps:
            return each
        return msgspec.structs.replace(each, flow=each.job, job="")

    if condition.runs is not None:
        runs = [named(run) for run in condition.runs]
        condition = msgspec.structs.replace(condition, runs=runs)
    return named(condition)


def with_times(
    ctx: PlanContext, decisions: Sequence[StepDecision], among: Iterable[int] | None = None
) -> list[StepDecision]:
    """Return the decisions with `lastTransitionTime`: the stored one while phase and reason stay,
    else the vcjob's own time if the condition has it already, else now. `among`: the positions that
    may have changed; default: all."""
    found = list(decisions)
    for position in range(len(found)) if among is None else among:
        condition, stored = found[position].condition, ctx.observed[position].stored
        if condition is not stored and condition.last_transition_time is not ctx.second:
            timed = with_time(condition, stored, ctx.second)
            if timed is not condition:
                found[position] = msgspec.structs.replace(found[position], condition=timed)
    return found


def with_time(condition: C, stored: C, now: datetime) -> C:
    """Return the condition of a step or run with `lastTransitionTime`, as in `with_times`."""
    known = stored.last_transition_time
    if condition.phase == stored.phase and condition.reason == stored.reason:
        since = known
    elif condition.last_transition_time == known:
        since = now
    else:
        since = condition.last_transition_time or now
    if since == condition.last_transition_time:
        return condition
    timed = msgspec.structs.replace(condition, last_transition_time=since)
    return stored if timed == stored else timed


def _orders(flow: JobFlow) -> Mapping[ApprovalKey, ByHand]:
    return {
        parse_key(each.step): each
        for each in flow.status.by_hand or ()
        # what has been ended to run again is under no order any more
        if each.action in BY_HAND and (each.ending or each.action != Action.RETRY_STEPS)
    }


def _stored(
    observed: Sequence[ObservedStep], facts: Facts
) -> tuple[list[StepCondition], list[StepEnd | None]]:
    """Return the stored conditions, and how the steps have ended by them."""
    standing = list(map(attrgetter("stored"), observed))
    ends = bool(facts.lifecycle.ending_reason)
    return standing, [get_end(each.step, each.stored, is_cancelled=ends) for each in observed]
