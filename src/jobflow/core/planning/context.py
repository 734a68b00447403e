"""PlanContext: everything that the decisions of one plan read. Progress: what they note.

The context is frozen. `Facts` hold what a plan finds out about the flow as a whole. Facts only
grow; when they have grown, every step is decided again (`plan`), in a context that differs from the
first one in its facts alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
from msgspec import UNSET

from jobflow.api.flow_status import FlowPhase, JobRecord, RunCondition, StepCondition
from jobflow.api.jobflow import JobFlow, Step
from jobflow.api.jobtemplate import JobTemplate
from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.cel.language.budget import NEXT_PLAN_DELAY, PlanBudget
from jobflow.core.cel.scope import EvaluationScope, StepAndCondition
from jobflow.core.manifests.job import Attempt, build_job
from jobflow.core.planning.actions import Action, CreateJob, Guard, JobProbe, ReadPods
from jobflow.core.planning.lifecycle import Lifecycle, stored_lifecycle
from jobflow.core.planning.observed import ObservedRun, ObservedStep, gather
from jobflow.core.planning.view import View
from jobflow.core.pods.outputs import OutputsRoom, OutputsTooLarge
from jobflow.core.spec.compiled import CompiledFlow, compile_flow
from jobflow.core.spec.graph import Graph
from jobflow.core.spec.readiness import fails_flow
from jobflow.core.timestamps import truncate_to_second

T = TypeVar("T")
Condition = TypeVar("Condition", bound=RunCondition)


class TargetEnd(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a step ended."""

    phase: str
    """Completed, Failed or Skipped."""
    reason: str = ""
    attempts: int = 0
    """Number of vcjobs created for the step by then, its items and repeats together."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A vcjob that is created if the flow has room for it."""

    step: Step
    template: JobTemplate
    attempt: Attempt
    guard: Guard | None = None

    @property
    def name(self) -> str:
        """The vcjob's name."""
        return self.attempt.name

    def build(self, flow: JobFlow) -> CreateJob | EvaluationFailure:
        """Return the create, or the Failure of a reference in a patch that has no value."""
        manifest = build_job(flow, self.step, self.template, self.attempt)
        if isinstance(manifest, EvaluationFailure):
            return manifest
        return CreateJob(self.step.name, self.name, manifest, self.guard)


class Decision(msgspec.Struct, Generic[Condition], frozen=True):
    """The decision about a step, or about one run of it."""

    condition: Condition
    actions: tuple[Action, ...] = ()
    drafts: tuple[Draft, ...] = ()
    """The vcjobs to create, by run. `parallelism` turns those that have room into actions."""
    wake_at: datetime | None = None
    """When to plan again although nothing happened."""
    urgent: bool = False
    """Whether the next action waits until the condition is written."""
    reads: tuple[ReadPods, ...] = ()
    """Reads that must be answered before more can be decided; several steps may ask for one."""
    unjudged: frozenset[str] = frozenset()
    """UIDs of vcjobs that have ended and whose end is not decided yet."""
    probes: tuple[JobProbe, ...] = ()


if TYPE_CHECKING:
    RunDecision = Decision[RunCondition]
    StepDecision = Decision[StepCondition]
else:  # calling a generic alias costs a microsecond, an eighth of the plan of a step
    RunDecision = StepDecision = Decision


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts that this plan has found about the flow as a whole. Every field is set at most
    once, except `ended`, which only gets more entries."""

    lifecycle: Lifecycle
    ended: Mapping[int, StepDecision] = field(default_factory=dict)
    """The decisions that more facts do not change (`PendingSteps.ended`), by position."""
    aborted_for: str = ""
    """The failure for which all running steps are aborted, as a clause; "" if there is none."""
    spared: frozenset[str] = frozenset()
    """The steps that `aborted_for` leaves alone."""
    daemons_done: bool = False
    """Whether all other steps have ended, so that daemons are ended."""
    faults: Mapping[str, EvaluationFailure] = field(default_factory=dict)
    """Why vcjobs cannot be built from their references and patches, by name."""


@dataclass(slots=True)
class Progress:
    """Notes that the decisions of one plan make for later ones. Each entry is written once a plan;
    `standing` and `target_ends` once in every round of decisions."""

    standing: list[StepCondition]
    """The condition of each step, as far as this round has decided; else the stored one."""
    allowance: PlanBudget
    """The work that expressions may still take in this plan."""
    target_ends: dict[str, str] = field(default_factory=dict)
    """Value of the annotation `target-ends` by step (`target_ends`)."""
    answers: dict[str, Any] = field(default_factory=dict)
    """The answers of expressions (`PlanContext.answer`)."""
    outputs: dict[str, dict[str, object] | OutputsTooLarge | None] = field(default_factory=dict)
    """Outputs of the vcjobs that end in this plan, by UID (`finish`)."""
    outputs_room: OutputsRoom | None = None
    pod_suffixes: dict[str, int] = field(default_factory=dict)
    """Length of the longest suffix of pod names, by step (`create`)."""
    recorded_ends: dict[int, TargetEnd] | None = None
    """Ends in annotations of vcjobs, by position (`target_ends`)."""
    stored_failures: str | None = None
    """The steps that failed by the stored status, as a clause (`failure_policy`)."""


@dataclass(frozen=True)
class PlanContext:
    """A flow, what is known of its steps, the time, and the facts of this plan."""

    flow: JobFlow
    view: View
    now: datetime
    second: datetime
    """`now` in whole seconds."""
    layout: CompiledFlow
    records: Mapping[str, JobRecord]
    """The stored records of vcjobs, by name."""
    observed: Sequence[ObservedStep]
    """The observed steps, by position."""
    facts: Facts
    progress: Progress

    @classmethod
    def of(cls, flow: JobFlow, view: View, now: datetime) -> PlanContext:
        """Gather what is known before anything is decided."""
        second, layout = truncate_to_second(now), compile_flow(flow)
        records = {record.name: record for record in flow.status.job_status_list or ()}
        observed = gather(flow, layout, view, records, second)
        facts = Facts(stored_lifecycle(flow, second))
        progress = Progress([each.stored for each in observed], PlanBudget())
        return cls(flow, view, now, second, layout, records, observed, facts, progress)

    def with_facts(self, facts: Facts) -> PlanContext:
        """Return the context for another round of decisions. A different lifecycle makes the
        notes of earlier rounds void."""
        standing = [each.stored for each in self.observed]
        if facts.lifecycle == self.lifecycle:
            progress = replace(self.progress, standing=standing, target_ends={})
        else:
            progress = Progress(standing, PlanBudget())
        return replace(self, facts=facts, progress=progress)

    @cached_property
    def steps(self) -> Sequence[Step]:
        """All steps; those of `finally` after all others, from position `last_from` on."""
        return self.layout.steps

    @cached_property
    def last_from(self) -> int:
        """The position of the first step of `finally`."""
        return self.layout.last_from

    @cached_property
    def graph(self) -> Graph:
        """The dependencies, by position in `steps`."""
        return self.layout.graph

    @cached_property
    def lifecycle(self) -> Lifecycle:
        """The state of the flow as a whole."""
        return self.facts.lifecycle

    @cached_property
    def suspended(self) -> str:
        """Why no step starts at present; "" if the flow is not suspended."""
        return self.facts.lifecycle.suspended

    @cached_property
    def standing(self) -> list[StepCondition]:
        """The condition of each step, as far as this round has decided; else the stored one."""
        return self.progress.standing

    @cached_property
    def terminating(self) -> bool:
        """Whether the flow is being deleted."""
        return self.flow.metadata.deletion_timestamp is not None

    @property
    def later(self) -> datetime:
        """When expressions that this plan may not evaluate any more are evaluated."""
        return self.now + NEXT_PLAN_DELAY

    @cached_property
    def flow_phase(self) -> str:
        """The value of `flow.phase` in `finally`: how the flow ends by its other steps, which have
        ended by the stored status."""
        if self.last_from == len(self.steps):
            return ""
        failed = self.lifecycle.ending_reason or any(
            fails_flow(each.step, each.stored) for each in self.observed[: self.last_from]
        )
        return FlowPhase.FAILED if failed else FlowPhase.SUCCEED

    @property
    def outputs_room(self) -> OutputsRoom:
        """The room that stored outputs leave. Steps that end in this plan take their part in the
        order in which they are decided."""
        if self.progress.outputs_room is None:
            outputs = (run.stored.outputs for each in self.observed for run in each.each)
            room = OutputsRoom(each for each in outputs if each is not None)
            self.progress.outputs_room = room
        return self.progress.outputs_room

    @cached_property
    def taken(self) -> frozenset[str]:
        """Names that a further attempt must not use: those of all vcjobs known, now or earlier,
        and of the first vcjob of each step."""
        names = {*self.view.jobs, *self.records, *self.view.holders}
        for observed in self.observed:
            names.add(observed.key)
            for run in observed.each:
                names |= {run.key, run.stored.job}
        return frozenset(names)

    def seen(
        self, run: ObservedRun | None = None, ended: RunCondition | None = None
    ) -> EvaluationScope:
        """Return the values that an expression of a step, or of one run of it, can use. `ended`:
        the condition of the run that has just ended, for `until` and `retry.when`."""
        index, item = (None, UNSET) if run is None else (run.index, run.item)
        work = self.progress.allowance.share()
        return EvaluationScope(self.flow, self._standing, self.flow_phase, index, item, ended, work)

    def _standing(self, name: str) -> StepAndCondition | None:
        position = self.graph.index.get(name)
        return None if position is None else (self.steps[position], self.standing[position])

    def answer(self, run: ObservedRun, field: str, evaluate: Callable[[], T]) -> T | None:
        """Return the answer of the expressions in a field of a run's step, or None if this plan
        may evaluate no more. They are evaluated once a plan."""
        answers, key = self.progress.answers, f"{run.key} {field}"
        if key not in answers:
            if self.progress.allowance.spent:
                return None
            answers[key] = evaluate()
        found: T = answers[key]
        return found


def with_times(ctx: PlanContext, decisions: Sequence[StepDecision]) -> list[StepDecision]:
    """Return the decisions with `lastTransitionTime`: the stored one while phase and reason stay,
    else the vcjob's own time if the condition has it already, else now."""
    found = list(decisions)
    for position, observed in enumerate(ctx.observed):
        condition, stored = found[position].condition, observed.stored
        if condition is not stored and condition.last_transition_time is not ctx.second:
            timed = with_time(condition, stored, ctx.second)
            if timed is not condition:
                found[position] = msgspec.structs.replace(found[position], condition=timed)
    return found


def with_time(condition: Condition, stored: Condition, now: datetime) -> Condition:
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
