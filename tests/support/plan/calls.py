"""The smallest kind of work without objects: a call, which runs until the View has its answer.

It takes the place of approvals; `message` of the approval is what it sends.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from jobflow.api.flow.control import Approval
from jobflow.api.flow.status import RunCondition
from jobflow.api.flow.traits import WorkKind
from jobflow.api.volcano.job import JobPhase
from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.cel.scope import AttemptFacts, resolve_references
from jobflow.core.planning.actions import ProbeResult, WantKey
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.decision import RunDecision
from jobflow.core.planning.observed.steps import ObservedRun
from jobflow.core.planning.work import kinds
from jobflow.core.planning.work.abort import aborted
from jobflow.core.planning.work.end import duration, ends_as
from jobflow.core.timestamps import add
from jobflow.core.work import WORK
from support.plan.plan_world import World


@dataclass(frozen=True, slots=True)
class Call:
    """Something to call once, whose answer is a ProbeResult: `passed` is its success."""

    step: str
    attempt: str
    """Its index and number."""

    @property
    def key(self) -> WantKey:
        return self.step, self.attempt

    def assume(self, count_running: Callable[[str, str], int]) -> ProbeResult:
        return ProbeResult(passed=True)


class Calls:
    """Each attempt is Running until it is answered. A failed one fails as a job does."""

    def start(self, run: ObservedRun, ctx: PlanContext) -> RunDecision:
        approval = run.step.approval or Approval()
        stored, number = run.stored, run.next_attempt
        seen = ctx.seen(run, attempt=AttemptFacts(number, stored.failures, stored.failure))
        message = resolve_references(approval.message or "", seen)
        if isinstance(message, EvaluationFailure):
            failed = self._ended(run, "Failed", "ExpressionError", message.message)
            return RunDecision(failed)
        allowed = duration(run.step.timeout, None)
        deadline = None if allowed is None else add(ctx.second, allowed)
        condition = run.new_condition(
            phase=JobPhase.RUNNING, attempts=number, deadline=deadline, create_time=ctx.second
        )
        return RunDecision(condition, wake_at=deadline, urgent=True)

    def settle(self, run: ObservedRun, ctx: PlanContext) -> RunDecision | None:
        answer = ctx.view.answers.get(self._call(run).key)
        if answer is None:
            return None
        phase, reason = ("Completed", "") if answer.passed else ("Failed", "JobFailed")
        return RunDecision(self._ended(run, phase, reason, answer.message))

    def abort(self, run: ObservedRun, why: str, ctx: PlanContext) -> RunDecision:
        message = aborted(why, f"attempt {run.attempts} has ended", run, ctx)
        return RunDecision(self._ended(run, ends_as(why), why, message))

    def wait(self, run: ObservedRun, ctx: PlanContext) -> RunDecision:
        return RunDecision(run.stored, wake_at=run.stored.deadline, wants=(self._call(run),))

    def _call(self, run: ObservedRun) -> Call:
        index = "" if run.index is None else run.index
        return Call(run.step.name, f"{index}/{run.attempts}")

    def _ended(self, run: ObservedRun, phase: str, reason: str, message: str) -> RunCondition:
        return run.new_condition(
            phase=phase,
            reason=reason,
            message=message,
            attempts=run.attempts,
            create_time=run.stored.create_time,
        )


def call_in_place_of_approvals(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = replace(WORK[WorkKind.APPROVAL], noun="call", asks=False)
    monkeypatch.setitem(WORK, WorkKind.APPROVAL, facts)
    monkeypatch.setattr(World, "_verdict", ())  # admission refuses retries of an approval
    monkeypatch.setitem(kinds.OWN_WORK, WorkKind.APPROVAL, Calls())
