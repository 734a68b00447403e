"""The runs of a step with forEach or repeat, as far as they are decided."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from jobflow.api.flow.status import ENDED_STEP_PHASES, RunCondition, StepPhase
from jobflow.api.volcano.job import JobPhase
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.decision import RunDecision
from jobflow.core.planning.flow.failure_policy import is_last_failure
from jobflow.core.planning.flow.restart import runs_again_by_hand
from jobflow.core.planning.observed.steps import ObservedRun, ObservedStep, fresh
from jobflow.core.planning.started.matched_items import ItemStates
from jobflow.core.planning.started.run import start_run
from jobflow.core.planning.started.tolerance import Outcome, judge
from jobflow.core.spec.readiness import TargetState


class LoopEnd(NamedTuple):
    """The end of a step, with a reason if it fails although no run has failed."""

    reason: str = ""
    message: str = ""
    phase: StepPhase = StepPhase.FAILED
    """The phase, if there is a reason."""
    outputs: dict[str, Any] | None = None


@dataclass(slots=True)
class Loop:
    """The decisions about the runs of one step."""

    observed: ObservedStep
    total: int
    """The most runs."""
    begun: Mapping[int | None, ObservedRun]
    """The runs in the status or with a vcjob, by index."""
    states: ItemStates | None = None
    """The states of the targets for each item, if the items depend on theirs."""
    decided: dict[int, tuple[ObservedRun, RunDecision]] = field(default_factory=dict)
    """Runs that have begun or start now, by index."""
    outcome: Outcome | None = None
    """Why no further item starts, as far as it was judged."""
    verdict: LoopEnd | None = None
    """None if the step has not ended."""
    stores_first: bool = False
    """Whether the next run, or one of a dependant, waits until an end or a decision is stored."""
    taken: int = 0
    """The items for which `forEach.when` holds, as a bit set."""
    wake_at: datetime | None = None
    """When to plan again although no run needs it."""
    next_at: datetime | None = None
    """When the next repeat may start, while `repeat.pause` lasts."""

    @property
    def runs(self) -> list[tuple[ObservedRun, RunDecision]]:
        """The decided runs, by index."""
        return [self.decided[index] for index in sorted(self.decided)]

    @property
    def conditions(self) -> Iterator[RunCondition]:
        """The conditions of the decided runs."""
        return (decision.condition for _, decision in self.decided.values())

    @property
    def failed(self) -> bool:
        return any(condition.phase == StepPhase.FAILED for condition in self.conditions)

    @property
    def not_started(self) -> int:
        """The number of runs that have not begun."""
        return self.total - sum(index < self.total for index in self.decided)

    @property
    def first_waiting(self) -> int | None:
        """The first item that waits for an item of a target; None if there is none."""
        if self.states is None or self.starts_no_more:
            return None
        left = (index for index in range(self.total) if index not in self.decided)
        return next((i for i in left if self.states.of(i) is TargetState.NOT_YET), None)

    @property
    def starts_no_more(self) -> bool:
        """Whether it is decided that no further item starts."""
        return self.outcome is not None and self.outcome.is_final

    @property
    def begun_by_hand(self) -> frozenset[int]:
        """The items that run again because a user wants them to, although another has failed."""
        runs = self.begun.items()
        return frozenset(index or 0 for index, run in runs if runs_again_by_hand(run.stored))

    def run(self, index: int, ctx: PlanContext) -> ObservedRun:
        """Return the run with an index, which may not have begun."""
        return self.begun.get(index) or fresh(self.observed, ctx.flow.metadata.name, index)

    def has_ended(self, index: int) -> bool:
        return self.decided[index][1].condition.phase in ENDED_STEP_PHASES

    def is_met(self, index: int) -> bool:
        """Return whether the targets of an item let it start."""
        return self.states is None or self.states.of(index) is TargetState.MET

    def judge(self, ctx: PlanContext, *, ends: bool) -> bool:
        """Note why no further item starts, and return whether further ones may. `ends`: whether
        something else ends the step."""
        runs = self.decided.values()
        unjudged = [run for run, decision in runs if decision.unjudged]
        self.outcome = judge(
            self.observed,
            self.total,
            [*self.conditions],
            ctx,
            unjudged=sum(map(is_last_failure, unjudged)),
            completing=any(run.job and run.job.phase == JobPhase.COMPLETED for run in unjudged),
            ends=ends,
        )
        return self.outcome is None

    def settle(self, index: int, ctx: PlanContext, **end: Any) -> None:
        """End an item that has not begun."""
        run = self.run(index, ctx)
        condition = msgspec.structs.replace(run.stored, **{"next_attempt_time": None, **end})
        self.decided[index] = run, RunDecision(condition)

    def start(self, index: int, ctx: PlanContext) -> RunDecision:
        """Start a run now."""
        run = self.run(index, ctx)
        self.decided[index] = run, start_run(run, ctx)
        return self.decided[index][1]
