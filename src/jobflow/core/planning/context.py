"""What every decision of one plan may look at, gathered once. It decides nothing itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TypeVar

import msgspec

from jobflow.api.flow_status import FlowPhase, JobRecord, RunCondition, StepCondition
from jobflow.api.jobflow import JobFlow, Step
from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.cel.language.budget import NEXT_PLAN_DELAY, PlanBudget
from jobflow.core.cel.scope import EvaluationScope, StepAndCondition
from jobflow.core.manifests.job import Draft
from jobflow.core.planning.actions import Action, Probe, ReadPods
from jobflow.core.planning.lifecycle import Lifecycle, stored_course
from jobflow.core.planning.observed import ObservedRun, ObservedStep, gather
from jobflow.core.planning.view import View
from jobflow.core.pods.outputs import OutputsRoom
from jobflow.core.spec.compiled import CompiledFlow, compile_flow
from jobflow.core.spec.graph import Graph
from jobflow.core.spec.readiness import fails_flow
from jobflow.core.timestamps import truncate_to_second


class TargetEnd(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a step ended."""

    phase: str
    """Completed, Failed or Skipped."""
    reason: str = ""
    attempts: int = 0
    """How many vcjobs had been made for the step by then, its items and repeats together."""


class StepDecision(msgspec.Struct, frozen=True):
    """What is decided about one step."""

    condition: StepCondition
    actions: tuple[Action, ...] = ()
    """What to do; reading is asked for in `reads`."""
    drafts: tuple[Draft, ...] = ()
    """The vcjobs to make, by their runs; those that there is room for become actions
    (`parallelism`)."""
    wake_at: datetime | None = None
    """When to look again although nothing happened."""
    urgent: bool = False
    """Whether what comes next waits until the condition is written."""
    reads: tuple[ReadPods, ...] = ()
    """What has to be known before more can be decided; several steps may ask for the same."""
    unjudged: frozenset[str] = frozenset()
    """UIDs of vcjobs that have ended, and of which it is not decided yet what their end means."""
    probes: tuple[Probe, ...] = ()


class RunDecision(msgspec.Struct, frozen=True):
    """What is decided about one run of a step."""

    condition: RunCondition
    action: Action | None = None
    draft: Draft | None = None
    """Its next vcjob, if it is to be made."""
    wake_at: datetime | None = None
    urgent: bool = False
    reads: tuple[ReadPods, ...] = ()
    unjudged: frozenset[str] = frozenset()


@dataclass
class PlanContext:
    """A flow, what is known of its steps, and the time."""

    flow: JobFlow
    view: View
    now: datetime
    going: Lifecycle | None = None
    """Where the flow is going; None: as its status has it."""
    aborted_for: str = ""
    """The failure for which all that runs is to be aborted, in a sentence; empty: there is none."""
    spared: frozenset[str] = frozenset()
    """The steps that are then not."""
    daemons_done: bool = False
    """Whether all other steps are over, so that daemons are to be ended."""
    faults: Mapping[str, EvaluationFailure] = field(default_factory=dict)
    """Of vcjobs that cannot be made, by name: what their references or patches come to."""

    def __post_init__(self) -> None:
        self.layout: CompiledFlow = compile_flow(self.flow)
        self.steps: list[Step] = self.layout.steps
        """Those of `finally` behind all others."""
        self.last_from: int = self.layout.last_from
        """The position of the first step of `finally`."""
        self.graph: Graph = self.layout.graph
        """The dependencies, by position in `steps`."""
        self.records: Mapping[str, JobRecord] = {
            record.name: record for record in self.flow.status.job_status_list or ()
        }
        """What the status remembers of vcjobs, by name."""
        self.second: datetime = truncate_to_second(self.now)
        self.observed: list[ObservedStep] = gather(
            self.flow, self.layout, self.view, self.records, self.second
        )
        """By position, as the graph counts."""
        self.standing: list[StepCondition] = [observed.stored for observed in self.observed]
        """Where each step stands, as far as this plan has decided; else by the status."""
        self.lifecycle: Lifecycle = self.going or stored_course(self.flow, self.second)
        """What holds for the flow as a whole."""
        self.stored_failures: str | None = None
        """The answer of `failure_policy.stored_failures`, once it was asked."""
        self.pod_suffixes: dict[str, int] = {}
        """What `starting` has found out of the names of each step's pods."""
        self.target_ends: dict[str, str] = {}
        """The annotation of each step's vcjobs, as far as `target_ends` was asked for it."""
        self.told: dict[int, TargetEnd] | None = None
        """The ends that vcjobs tell, by position, once `target_ends` was asked."""
        self.suspended: str = self.lifecycle.suspended
        """Why nothing starts for now; empty: the flow is not suspended."""
        self.terminating: bool = self.flow.metadata.deletion_timestamp is not None

    @cached_property
    def flow_phase(self) -> str:
        """What `flow.phase` is in `finally`: how the flow would end by its other steps, which are
        over by the stored status."""
        if self.last_from == len(self.steps):
            return ""
        rest = zip(self.steps[: self.last_from], self.observed, strict=False)
        failed = self.lifecycle.ending_reason or any(
            fails_flow(step, each.stored) for step, each in rest
        )
        return FlowPhase.FAILED if failed else FlowPhase.SUCCEED

    def seen(
        self, run: ObservedRun | None = None, ended: RunCondition | None = None
    ) -> EvaluationScope:
        """What an expression or reference may look at: of a step, or of one run of it. `ended`: in
        until and retry.when, the run as it has just ended."""
        work = self.allowance.share()
        if run is None:
            return EvaluationScope(self.flow, self._standing, self.flow_phase, budget=work)
        own = run.index, run.item, ended
        return EvaluationScope(self.flow, self._standing, self.flow_phase, *own, work)

    def _standing(self, name: str) -> StepAndCondition | None:
        position = self.graph.index.get(name)
        return None if position is None else (self.steps[position], self.standing[position])

    @cached_property
    def allowance(self) -> PlanBudget:
        """What expressions may still take in this plan."""
        return PlanBudget()

    @property
    def later(self) -> datetime:
        """When what they may take no more is gone on with."""
        return self.now + NEXT_PLAN_DELAY

    @cached_property
    def outputs_room(self) -> OutputsRoom:
        """What the outputs that are recorded leave for more; steps that end now take their part in
        the order in which they are decided."""
        conditions = (run.stored.outputs for each in self.observed for run in each.each)
        return OutputsRoom(outputs for outputs in conditions if outputs is not None)

    @cached_property
    def taken(self) -> frozenset[str]:
        """Names that a further attempt may not take: of any vcjob known, now or once, and of any
        step's first vcjob."""
        names = {*self.view.jobs, *self.records, *self.view.holders}
        for observed in self.observed:
            names.add(observed.key)
            for run in observed.each:
                names |= {run.key, run.stored.job}
        return frozenset(names)


def timed(ctx: PlanContext, decisions: Sequence[StepDecision]) -> list[StepDecision]:
    """The decisions with `lastTransitionTime`: kept while phase and reason stay, else the vcjob's
    own time where the condition has it already, else now."""
    now = ctx.second
    found = list(decisions)
    for position, observed in enumerate(ctx.observed):
        condition, memory = found[position].condition, observed.stored
        if condition is not memory and condition.last_transition_time is not now:
            timed = timed_as(condition, memory, now)
            if timed is not condition:
                found[position] = msgspec.structs.replace(found[position], condition=timed)
    return found


Condition = TypeVar("Condition", bound=RunCondition)


def timed_as(condition: Condition, memory: Condition, now: datetime) -> Condition:
    """The same for the condition of a step or run; `memory`: what was stored of it."""
    known = memory.last_transition_time
    if condition.phase == memory.phase and condition.reason == memory.reason:
        since = known
    elif condition.last_transition_time == known:
        since = now
    else:
        since = condition.last_transition_time or now
    if since == condition.last_transition_time:
        return condition
    timed = msgspec.structs.replace(condition, last_transition_time=since)
    return memory if timed == memory else timed
