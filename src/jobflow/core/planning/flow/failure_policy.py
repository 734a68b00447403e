"""What still starts once a step has failed, and what is aborted: `spec.failurePolicy`.

Stop (the default) and Abort start nothing new, except steps whose own condition Failed or Finished
is met and what becomes ready behind those; Abort also aborts what runs, these excepted. Continue
goes on with what does not depend on the failure. A failure that the step's own continueOnFailure
forgives is none, and what becomes of `finally` changes nothing for the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from jobflow.api.control import FailurePolicy
from jobflow.api.flow_status import ENDED_STEP_PHASES, StepCondition, StepPhase
from jobflow.api.jobflow import Condition, JobFlow, Step
from jobflow.core.planning.context import PlanContext, StepDecision
from jobflow.core.planning.observed import FAILURES, ObservedRun
from jobflow.core.reasons import StepReason
from jobflow.core.spec.readiness import breaks, probe_of, wanted
from jobflow.core.text import listed

HANDLES = frozenset({Condition.FAILED, Condition.FINISHED})
"""Whoever waits for one of these may start although the flow has stopped."""

_POLICIES = {str(policy): policy for policy in FailurePolicy}


def policy_of(flow: JobFlow) -> FailurePolicy:
    """What becomes of the other steps; the default where admission would refuse the word."""
    return _POLICIES.get(flow.spec.failure_policy or "", FailurePolicy.STOP)


def runs_every_item(flow: JobFlow, step: Step) -> bool:
    """Return whether every item of the step's forEach starts, however the other items end.

    `continueOnFailure` on the step says so, and so does `failurePolicy: Continue`. For any other
    step an item that fails for good starts no further item.
    """
    return bool(step.continue_on_failure) or policy_of(flow) is FailurePolicy.CONTINUE


def broken(ctx: PlanContext, decisions: Sequence[StepDecision | None]) -> list[str]:
    """The steps that have failed the flow by themselves, in order; those of `finally` are not
    looked at."""
    steps, failed = ctx.steps, StepPhase.FAILED.value
    return [
        steps[position].name
        for position, decision in enumerate(decisions)
        if decision is not None
        and decision.condition.phase == failed
        and position < ctx.last_from
        and breaks(steps[position], decision.condition)
        and decision.condition.reason != StepReason.FAILURE_POLICY
    ]


def stored_failures(ctx: PlanContext) -> str:
    """What has failed by the stored status, in words: asked for each run that is aborted."""
    if ctx.progress.stored_failures is None:
        stored = [StepDecision(observed.stored) for observed in ctx.observed]
        names = listed(broken(ctx, stored)) or "another step"
        ctx.progress.stored_failures = f"{names} failed"
    return ctx.progress.stored_failures


def _failing(ctx: PlanContext, known: Sequence[StepDecision | None]) -> Iterator[str]:
    """Where the failed vcjob of a run is still asked for its reason, and nothing else of the step
    goes on."""
    for position, decision in enumerate(known):
        if decision is None or not decision.unjudged or position >= ctx.last_from:
            continue
        observed = ctx.observed[position]
        if observed.step.continue_on_failure:
            continue
        jobs = [(run, run.job) for run in observed.each if run.job is not None]
        if all(job.ended for _, job in jobs) and any(
            job.phase in FAILURES and not _is_retried(run) for run, job in jobs
        ):
            yield observed.step.name


def _is_retried(run: ObservedRun) -> bool:
    """Whether it certainly gets another attempt."""
    retry = run.step.retry
    return retry is not None and retry.when is None and run.stored.failures < (retry.limit or 0)


def is_handler(step: Step) -> bool:
    """Whether the step itself waits for failures, or for an end of either kind."""
    return bool(step.targets) and wanted(step) in HANDLES and probe_of(step) is None


class FailureStop:
    """What may start although the flow has stopped, gathered in the order of the dependencies."""

    def __init__(self, ctx: PlanContext, known: Sequence[StepDecision | None]) -> None:
        """`known`: what is decided already, by position."""
        goes_on = policy_of(ctx.flow) is FailurePolicy.CONTINUE
        self.failed = [] if goes_on else broken(ctx, known)
        """For which the flow has stopped; nothing: it has not."""
        self.failing = [] if goes_on else list(_failing(ctx, known))
        """Steps that have failed but for what is still to be read of them: no others start."""
        self._goes_on = goes_on
        self._steps = ctx.steps
        self._last_from = ctx.last_from
        self._targets = ctx.graph.targets
        self._handling = bytearray(len(ctx.steps))

    @property
    def holds_up(self) -> bool:
        """Whether there are steps that may not start, or may not start yet."""
        return bool(self.failed or self.failing)

    @property
    def why(self) -> str:
        """The same in words."""
        return f"{listed(self.failed)} failed"

    def stopped_by(self, position: int, condition: StepCondition) -> bool:
        """Whether the flow stops, or has stopped, for what this step has come to."""
        last = position >= self._last_from
        return not last and not self._goes_on and breaks(self._steps[position], condition)

    def note(self, position: int, phase: str, met: Iterable[int] | None) -> None:
        """Where the step now stands. `met`: the targets by which it has started; None: it has not,
        and may by any of its targets."""
        if self.holds_up and phase != StepPhase.SKIPPED:
            by = self._targets[position] if met is None else met
            self._handling[position] = self.admits(position, by)

    def may_yet(self, position: int) -> bool:
        """Whether a step that waits may yet start."""
        return self.admits(position, self._targets[position])

    def admits(self, position: int, met: Iterable[int]) -> bool:
        """Whether a step that these targets make ready handles a failure, or is behind one that
        does."""
        if is_handler(self._steps[position]):
            return True
        return any(self._handling[target] for target in met)

    def spared(self, decisions: Sequence[StepDecision]) -> frozenset[str]:
        """Of the steps that run, those that Abort leaves alone."""
        return frozenset(
            step.name
            for position, step in enumerate(self._steps)
            if self._handling[position]
            and decisions[position].condition.phase not in ENDED_STEP_PHASES
        )
