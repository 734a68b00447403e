"""`spec.failurePolicy`: which steps start after a failure, and which are aborted.

Stop (the default) and Abort start no further steps, except handlers (steps whose own condition
Failed, Finished or Always is met) and steps behind a handler. Abort also aborts all other running
steps. Continue starts every step that does not depend on the failure. A failure that the step's
continueOnFailure tolerates does not count, nor does a failure in `finally`.
"""

from collections.abc import Iterable, Mapping

from jobflow.api.flow.control import FailurePolicy, to_number
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import ENDED_STEP_PHASES, StepCondition, StepPhase
from jobflow.api.flow.step import Step
from jobflow.core.planning.context import PlanContext, must_be_stored
from jobflow.core.planning.decision import StepDecision
from jobflow.core.planning.lifecycle import Pause
from jobflow.core.planning.observed.steps import FAILURES, ObservedRun
from jobflow.core.reasons import StepReason
from jobflow.core.spec.graph import find_reachable
from jobflow.core.spec.readiness import fails_flow
from jobflow.core.text import join_names

_FAILED = StepPhase.FAILED.value
_POLICIES = {str(policy): policy for policy in FailurePolicy}


def policy_of(flow: JobFlow) -> FailurePolicy:
    """Return the flow's policy; the default for a value that admission would refuse."""
    return _POLICIES.get(flow.spec.failure_policy or "", FailurePolicy.STOP)


def runs_every_item(flow: JobFlow, step: Step) -> bool:
    """Return whether every item starts, however others end; if not, none after a failure."""
    return bool(step.continue_on_failure) or policy_of(flow) is FailurePolicy.CONTINUE


def is_last_failure(run: ObservedRun) -> bool:
    """Return whether the vcjob of a run has failed, and no other attempt follows for certain."""
    retry = run.step.retry
    # `retry.when` is not known yet: it may read the reason
    limit = 0 if retry is None or retry.when is not None else to_number(retry.limit) or 0
    return run.job is not None and run.job.phase in FAILURES and run.stored.failures >= limit


def _breaks(ctx: PlanContext, position: int, condition: StepCondition) -> bool:
    """Return whether a step before `finally` with this condition fails the flow by itself."""
    return (
        condition.phase == _FAILED
        and condition.reason != StepReason.FAILURE_POLICY
        and fails_flow(ctx.layout.steps[position], condition)
    )


def _is_unstored(ctx: PlanContext, position: int) -> bool:
    observed = ctx.observed[position]
    ended = observed.stored.phase in ENDED_STEP_PHASES
    return not ended and must_be_stored(observed.step, observed.stored)


def stored_failures(ctx: PlanContext) -> str:
    """Return the clause that names the failed steps of the stored status."""
    if ctx.progress.stored_failures is None:  # each aborted step names them
        stored = [
            ctx.layout.steps[position].name
            for position, observed in enumerate(ctx.observed[: ctx.layout.last_from])
            if _breaks(ctx, position, observed.stored) and not _is_unstored(ctx, position)
        ]
        names = join_names(stored) or "another step"
        ctx.progress.stored_failures = f"{names} failed"
    return ctx.progress.stored_failures


class FailureStop:
    """The steps that may start although the flow has stopped, noted in dependency order."""

    def __init__(self, ctx: PlanContext, begun: Mapping[int, StepDecision]) -> None:
        """`begun`: the decisions about the steps that have begun, by position."""
        self._ctx, self.policy = ctx, policy_of(ctx.flow)
        self.failed: list[str] = []
        """Steps for whose failure the flow has stopped; empty if it has not."""
        self.failing: list[str] = []
        """Steps that have failed, but whose reason is being read or whose rejection is being
        stored: no other step starts."""
        continues = self.policy is FailurePolicy.CONTINUE
        for position in () if continues else sorted(begun):
            decision = begun[position]
            # `unjudged`: the reason is still being read
            has_failed = decision.unjudged or decision.condition.phase == _FAILED
            if not has_failed or position >= ctx.layout.last_from:
                continue
            name = ctx.layout.steps[position].name
            if _breaks(ctx, position, decision.condition):
                found = self.failing if _is_unstored(ctx, position) else self.failed
                found.append(name)
            # it fails whatever the reason is; a failure that is tolerated stops nothing
            if decision.unjudged and not ctx.layout.steps[position].continue_on_failure:
                runs = ctx.observed[position].each
                # a step does not end while another of its runs has a job
                alive = any(run.job is not None and not run.job.ended for run in runs)
                if not alive and any(map(is_last_failure, runs)):
                    self.failing.append(name)
        self.is_active = bool(self.failed or self.failing)
        """Whether steps may not start, or not yet."""
        self._spared: set[int] = set()
        """Steps that Abort does not abort."""
        self._handling: set[int] = set()
        """Spared steps that are not skipped: steps behind them may start too."""

    @property
    def why(self) -> str:
        """The clause that names the failed steps."""
        return f"{join_names(self.failed)} failed"

    @property
    def pause(self) -> Pause:
        """Why no step starts while a failure is being read or stored."""
        return Pause("", f"waits until it is known how {join_names(self.failing)} ended")

    def stopped_by(self, position: int, condition: StepCondition) -> bool:
        """Whether this condition of a step stops the flow."""
        layout = self._ctx.layout
        if self.policy is FailurePolicy.CONTINUE or condition.phase != _FAILED:
            return False
        return position < layout.last_from and fails_flow(layout.steps[position], condition)

    def note(self, position: int, phase: str, met: Iterable[int] | None) -> None:
        """Note the phase of a step. `met`: the targets that let it start; None if it has not
        started, so that any target may."""
        if self._handles(position, met):
            self._spared.add(position)
            if phase != StepPhase.SKIPPED:
                self._handling.add(position)

    def may_start(self, position: int, met: Iterable[int] | None = None) -> bool:
        """Whether a step that these targets (None: any) let start may do so after a failure."""
        if self._handles(position, met):
            return True
        # its items depend on single items of the failed steps, and it on no other failed step
        needs, steps = self._ctx.layout.needs, self._ctx.layout.steps
        if self.policy is not FailurePolicy.STOP or not needs[position].matched:
            return False
        upstream = find_reachable(lambda step: needs[step].matched, [position])
        return {steps[i].name for i in upstream}.issuperset((*self.failed, *self.failing))

    def _handles(self, position: int, met: Iterable[int] | None) -> bool:
        """Whether a step is a handler of a failure, or behind one."""
        layout = self._ctx.layout
        if layout.needs[position].handles(met):
            return True
        targets = layout.graph.targets[position] if met is None else met
        return not self._handling.isdisjoint(targets)

    def spared(self) -> frozenset[str]:
        """Return the steps that Abort does not abort if they run, or begin in this plan."""
        return frozenset(self._ctx.layout.steps[position].name for position in self._spared)
