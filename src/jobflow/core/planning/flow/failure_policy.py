"""`spec.failurePolicy`: which steps start after a failure, and which are aborted.

Stop (the default) and Abort start no further steps, except handlers (steps whose own condition
Failed or Finished is met) and steps behind a handler. Abort also aborts all other running steps.
Continue starts every step that does not depend on the failure. A failure that the step's
continueOnFailure forgives does not count, nor does a failure in `finally`.
"""

from collections.abc import Iterable, Iterator, Sequence

from jobflow.api.control import FailurePolicy
from jobflow.api.flow_status import ENDED_STEP_PHASES, StepCondition, StepPhase
from jobflow.api.jobflow import Condition, JobFlow, Step
from jobflow.core.planning.context import PlanContext, StepDecision
from jobflow.core.planning.observed import FAILURES
from jobflow.core.reasons import StepReason
from jobflow.core.spec.readiness import fails_flow, get_condition, get_probe
from jobflow.core.text import join_names

HANDLES = frozenset({Condition.FAILED, Condition.FINISHED})
"""Conditions of the steps that may start although the flow has stopped."""
_POLICIES = {str(policy): policy for policy in FailurePolicy}


def policy_of(flow: JobFlow) -> FailurePolicy:
    """Return the flow's policy; the default for a value that admission would refuse."""
    return _POLICIES.get(flow.spec.failure_policy or "", FailurePolicy.STOP)


def runs_every_item(flow: JobFlow, step: Step) -> bool:
    """Return whether every item of the step's forEach starts, however the other items end. If not,
    no further item starts after one has failed for good."""
    return bool(step.continue_on_failure) or policy_of(flow) is FailurePolicy.CONTINUE


def broken(ctx: PlanContext, decisions: Sequence[StepDecision | None]) -> list[str]:
    """Return the names of the steps before `finally` that fail the flow by themselves, in order."""
    steps, failed = ctx.steps, StepPhase.FAILED.value
    return [
        steps[position].name
        for position, decision in enumerate(decisions[: ctx.last_from])
        if decision is not None
        and decision.condition.phase == failed
        and fails_flow(steps[position], decision.condition)
        and decision.condition.reason != StepReason.FAILURE_POLICY
    ]


def stored_failures(ctx: PlanContext) -> str:
    """Return the clause that names the failed steps of the stored status."""
    if ctx.progress.stored_failures is None:
        stored = [StepDecision(observed.stored) for observed in ctx.observed]
        names = join_names(broken(ctx, stored)) or "another step"
        ctx.progress.stored_failures = f"{names} failed"
    return ctx.progress.stored_failures


def _failing(ctx: PlanContext, known: Sequence[StepDecision | None]) -> Iterator[str]:
    """Yield the steps that have failed except that their reason is still being read."""
    for position, decision in enumerate(known):
        if decision is None or not decision.unjudged or position >= ctx.last_from:
            continue
        observed = ctx.observed[position]
        if observed.step.continue_on_failure:
            continue
        jobs = [(run, run.job) for run in observed.each if run.job is not None]
        retry = observed.step.retry
        # attempts that follow a failure for certain: `retry.when` is not known yet
        limit = 0 if retry is None or retry.when is not None else retry.limit or 0
        if all(job.ended for _, job in jobs) and any(
            job.phase in FAILURES and run.stored.failures >= limit for run, job in jobs
        ):
            yield observed.step.name


def is_handler(step: Step) -> bool:
    """Whether the step waits for targets to fail or to finish."""
    return bool(step.targets) and get_condition(step) in HANDLES and get_probe(step) is None


class FailureStop:
    """The steps that may start although the flow has stopped, noted in dependency order."""

    def __init__(self, ctx: PlanContext, known: Sequence[StepDecision | None]) -> None:
        """`known`: decisions that are made already, by position."""
        continues = policy_of(ctx.flow) is FailurePolicy.CONTINUE
        self.failed = [] if continues else broken(ctx, known)
        """Steps for whose failure the flow has stopped; empty if it has not."""
        self.failing = [] if continues else list(_failing(ctx, known))
        """Steps that have failed but whose reason is being read: no other step starts."""
        self._continues = continues
        self._steps = ctx.steps
        self._last_from = ctx.last_from
        self._targets = ctx.graph.targets
        self._handling = bytearray(len(ctx.steps))

    @property
    def is_active(self) -> bool:
        """Whether steps may not start, or not yet."""
        return bool(self.failed or self.failing)

    @property
    def why(self) -> str:
        """The clause that names the failed steps."""
        return f"{join_names(self.failed)} failed"

    def stopped_by(self, position: int, condition: StepCondition) -> bool:
        """Whether this condition of a step stops the flow."""
        last = position >= self._last_from
        return not last and not self._continues and fails_flow(self._steps[position], condition)

    def note(self, position: int, phase: str, met: Iterable[int] | None) -> None:
        """Note the phase of a step. `met`: the targets that let it start; None if it has not
        started, so that any target may."""
        if self.is_active and phase != StepPhase.SKIPPED:
            self._handling[position] = self.admits(position, met)

    def admits(self, position: int, met: Iterable[int] | None = None) -> bool:
        """Whether a step that these targets (None: any of its targets) make ready is a handler, or
        behind a handler."""
        if is_handler(self._steps[position]):
            return True
        return any(self._handling[t] for t in (self._targets[position] if met is None else met))

    def spared(self, decisions: Sequence[StepDecision]) -> frozenset[str]:
        """Return the running steps that Abort does not abort."""
        return frozenset(
            step.name
            for position, step in enumerate(self._steps)
            if self._handling[position]
            and decisions[position].condition.phase not in ENDED_STEP_PHASES
        )
