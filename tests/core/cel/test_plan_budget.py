"""The budget of all expressions of a plan; later plans evaluate the remaining ones."""

import pytest

from jobflow.api.flow.control import Param, Repeat, Retry
from jobflow.core.cel.budget import MAX_STEPS, NEXT_PLAN_DELAY, PlanBudget
from jobflow.core.planning import context
from support.plan.loop_worlds import for_each, jobs_in, run, runs
from support.plan.plan_world import World, flow
from support.plan.steps import step

LONG = "params.l.all(a, params.l.all(b, a + b >= 0))"
"""Uses most of the budget of an evaluation."""


@pytest.fixture
def one_decision_per_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit each plan to one decision."""
    monkeypatch.setattr(context, "PlanBudget", lambda: PlanBudget(1))


def next_plan(world: World) -> World:
    """Apply the plan, and return the world at the time of the next plan."""
    assert world.plan().plan.requeue_after == NEXT_PLAN_DELAY
    return world.apply().later(NEXT_PLAN_DELAY.total_seconds())


def test_decisions_use_up_the_budget() -> None:
    allowance = PlanBudget(MAX_STEPS + 10)
    for _ in range(3):
        allowance.share().steps -= 1
    allowance.share().steps -= MAX_STEPS
    assert not allowance.spent
    allowance.share().steps -= 7
    assert allowance.spent


@pytest.mark.long
def test_many_long_conditions_are_decided_by_several_plans() -> None:
    names = [f"s{number}" for number in range(9)]
    world = flow(**{name: step(when=LONG) for name in names}).with_spec(
        params=[Param(name="l", value=list(range(150)))]
    )
    decided, plans = 0, 0
    while decided < len(names):
        planned = world.plan()
        now = sum(condition.decisions is not None for condition in planned.conditions.values())
        assert decided < now <= decided + 5
        decided, plans = now, plans + 1
        if decided < len(names):
            assert planned.plan.requeue_after == NEXT_PLAN_DELAY
        world = world.apply().later(NEXT_PLAN_DELAY.total_seconds())
    assert plans > 1
    assert world.run().flow.status.state.phase == "Succeed"


@pytest.mark.usefixtures("one_decision_per_plan")
def test_a_step_that_is_not_decided_yet_is_starting() -> None:
    world = flow(a=step(when="true"), b=step(when="false"))
    planned = world.plan()
    assert planned.conditions["a"].decisions is not None
    condition = planned.conditions["b"]
    assert (condition.phase, condition.reason) == ("Waiting", "Starting")
    assert condition.message == "its conditions are being looked at"
    assert next_plan(world).plan().skipped == {"b": "NotTaken"}


@pytest.mark.usefixtures("one_decision_per_plan")
def test_retries_of_failed_jobs_are_decided_one_after_the_other() -> None:
    world = for_each(3, retry=Retry(limit=1, when="true")).settled()
    for index in range(3):
        world = world.ended(f"f-a-{index}", "Failed")
    assert runs(world.plan()) == {0: "Waiting Retrying", 1: "Pending", 2: "Pending"}
    records = {record.name: record.state for record in world.plan().status.job_status_list or ()}
    assert records == {"f-a-0": "Failed", "f-a-1": "Pending", "f-a-2": "Pending"}
    world = next_plan(next_plan(world))
    assert set(runs(world.plan()).values()) == {"Waiting Retrying"}
    world = world.apply().later(2).settled()
    assert [name for name, phase in jobs_in(world).items() if phase == "Pending"] == [
        "f-a-0-r1",
        "f-a-1-r1",
        "f-a-2-r1",
    ]


@pytest.mark.usefixtures("one_decision_per_plan")
def test_no_step_starts_before_all_failures_are_decided() -> None:
    world = flow(
        a=step(retry=Retry(limit=1, when="true")),
        b=step(retry=Retry(limit=1, when="false")),
        c=step(),
        d="c",
    )
    world = world.settled().ended("f-a", "Failed").ended("f-b", "Failed").ended("f-c", "Completed")
    planned = world.plan()
    assert planned.waiting["d"] == "waits until it is known how b ended"
    world = next_plan(world)
    assert world.plan().failed == {"b": "JobFailed"}
    assert world.plan().skipped == {"d": "Stopped"}


@pytest.mark.usefixtures("one_decision_per_plan")
def test_repeats_are_decided_one_after_the_other() -> None:
    until = Repeat(until="index == 1", max=3)
    world = flow(a=step(repeat=until), b=step(repeat=until)).settled()
    world = world.ended("f-a-0", "Completed").ended("f-b-0", "Completed")
    world = next_plan(world)
    assert [run(world.plan(), 0, name).phase for name in "ab"] == ["Completed", "Completed"]
    assert world.plan().creates == ["f-a-1"]
    world = next_plan(world)
    assert world.plan().creates == ["f-b-1"]
    assert "b" not in world.plan().failed
