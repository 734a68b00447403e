"""A kind of work without objects: attempts, retries, timeouts, aborts and order come with it.

Calls (`support/plan/calls.py`) take the place of approvals.
"""

from dataclasses import replace

import msgspec
import pytest

from jobflow.api.flow.control import Approval, Backoff, Retry
from jobflow.core.planning.actions import ProbeResult
from support.plan.calls import call_in_place_of_approvals
from support.plan.plan_world import World, flow
from support.plan.steps import after, step


@pytest.fixture(autouse=True)
def calls(monkeypatch: pytest.MonkeyPatch) -> None:
    call_in_place_of_approvals(monkeypatch)


def calling(retries: int = 0, **fields: object) -> World:
    """call -> b; the first attempt of call has begun."""
    retry = Retry(limit=retries, backoff=Backoff(duration="10s")) if retries else None
    call = msgspec.structs.replace(step(), approval=Approval(), retry=retry, **fields)
    return flow(call=call, b="call").settled()


def answered(world: World, text: str = "", *, attempt: int = 1, failed: bool = False) -> World:
    answer = ProbeResult(passed=not failed, message=text)
    return replace(world, probes={("call", f"/{attempt}"): answer})


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


def test_an_attempt_that_takes_too_long_is_retried_for_it() -> None:
    retry = Retry(limit=1, when='failure.reason == "Timeout"')
    call = msgspec.structs.replace(step(), approval=Approval(), timeout="5s", retry=retry)
    world = flow(call=call).settled().later(5).settled()
    assert world.plan().conditions["call"].reason == "Retrying"


def test_a_failed_attempt_has_run() -> None:
    call = msgspec.structs.replace(step(), approval=Approval())
    world = flow(call=call, b=after("call", condition="Running"))
    world = world.with_spec(failure_policy="Continue").settled()
    world = answered(world, failed=True).with_jobs(b="Completed").settled()
    again = world.with_command("RetrySteps", text="b").settled()
    assert again.plan().conditions["b"].attempts == 2


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
