"""A kind of work without objects: attempts, retries, timeouts, aborts and order come with it.

The kind of this test takes the place of approvals: its attempts run until the View has an answer.
"""

from dataclasses import replace

import msgspec
import pytest

from jobflow.api.flow.control import Approval, Backoff, Retry
from jobflow.api.flow.status import RunCondition
from jobflow.api.flow.traits import WorkKind
from jobflow.core.planning.actions import ProbeResult
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.decision import RunDecision
from jobflow.core.planning.observed.steps import ObservedRun
from jobflow.core.planning.work import kinds
from jobflow.core.planning.work.abort import aborted
from jobflow.core.planning.work.end import duration, ends_as
from jobflow.core.timestamps import add
from jobflow.core.work import WORK
from support.plan.plan_world import World, flow
from support.plan.steps import step


class Calls:
    """Each attempt is Running until its answer is in the View: `failed` fails it."""

    def start(self, run: ObservedRun, ctx: PlanContext) -> RunDecision:
        allowed = duration(run.step.timeout, None)
        deadline = None if allowed is None else add(ctx.second, allowed)
        condition = run.new_condition(
            phase="Running", attempts=run.attempts + 1, deadline=deadline, create_time=ctx.second
        )
        return RunDecision(condition, wake_at=deadline, urgent=True)

    def settle(self, run: ObservedRun, ctx: PlanContext) -> RunDecision | None:
        answer = ctx.view.answers.get((run.step.name, str(run.attempts)))
        if answer is None:
            return None
        phase, reason = ("Completed", "") if answer.passed else ("Failed", "JobFailed")
        return RunDecision(self._ended(run, phase, reason, answer.message))

    def abort(self, run: ObservedRun, why: str, ctx: PlanContext) -> RunDecision:
        message = aborted(why, f"attempt {run.attempts} has ended", run, ctx)
        return RunDecision(self._ended(run, ends_as(why), why, message))

    def wait(self, run: ObservedRun, ctx: PlanContext) -> RunDecision:
        return RunDecision(run.stored, wake_at=run.stored.deadline)

    def _ended(self, run: ObservedRun, phase: str, reason: str, message: str) -> RunCondition:
        created = run.stored.create_time
        return run.new_condition(
            phase=phase, reason=reason, message=message, attempts=run.attempts, create_time=created
        )


@pytest.fixture(autouse=True)
def calls(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = replace(WORK[WorkKind.APPROVAL], noun="call", asks=False)
    monkeypatch.setitem(WORK, WorkKind.APPROVAL, facts)  # type: ignore[arg-type]
    monkeypatch.setattr(World, "_verdict", ())  # admission refuses retries of an approval
    monkeypatch.setitem(kinds.OWN_WORK, WorkKind.APPROVAL, Calls())  # type: ignore[arg-type]


def calling(retries: int = 0, **fields: object) -> World:
    """call -> b; the first attempt of call has begun."""
    retry = Retry(limit=retries, backoff=Backoff(duration="10s")) if retries else None
    call = msgspec.structs.replace(step(), approval=Approval(), retry=retry, **fields)
    return flow(call=call, b="call").settled()


def answered(world: World, text: str = "", *, attempt: int = 1, failed: bool = False) -> World:
    answer = ProbeResult(passed=not failed, message=text)
    return replace(world, probes={("call", str(attempt)): answer})


def test_an_attempt_runs_and_its_flow_too() -> None:
    world = calling()
    assert (world.plan().phases, world.end[0]) == ({"call": "Running", "b": "Waiting"}, "Running")


def test_dependants_start_once_the_end_is_stored() -> None:
    planned = answered(calling()).plan()
    assert (planned.phases["call"], planned.creates, planned.plan.urgent) == ("Completed", [], True)
    assert planned.world.with_status(planned.status).plan().creates == ["f-b"]


def test_a_failure_is_tried_again_after_the_backoff() -> None:
    world = answered(calling(retries=1), "refused", failed=True).settled()
    condition = world.plan().conditions["call"]
    assert (condition.reason, condition.message) == ("Retrying", "runs again (1 of 1): refused")
    world = replace(world, probes={}).later(10).settled()
    assert (world.plan().phases["call"], world.plan().conditions["call"].attempts) == ("Running", 2)
    world = answered(world, "refused", attempt=2, failed=True).settled()
    assert world.plan().conditions["call"].phase == "Failed"


def test_an_attempt_ends_at_its_deadline() -> None:
    condition = calling(timeout="1m").later(60).plan().conditions["call"]
    assert (condition.phase, condition.reason) == ("Failed", "Timeout")
    assert condition.message == "it took longer than its timeout of 1m; attempt 1 has ended"


def test_a_cancelled_flow_ends_an_attempt_without_another_one() -> None:
    world = calling(retries=3).with_command("TerminateJob").settled()
    condition = world.plan().conditions["call"]
    assert (condition.phase, condition.reason) == ("Failed", "Cancelled")


def test_a_suspension_that_aborts_ends_an_attempt_that_does_not_count() -> None:
    world = calling().with_command("AbortJob").settled()
    condition = world.plan().conditions["call"]
    assert (condition.phase, condition.reason, condition.failures) == ("Waiting", "Suspended", 0)
    world = world.with_command("ResumeJob").settled()
    assert world.plan().conditions["call"].attempts == 2
