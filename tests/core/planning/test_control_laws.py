"""The laws of `plan` for flows with every primitive of control, the random flows of the model test:
whatever becomes of their vcjobs, whoever gives Commands and wherever the controller stops."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from jobflow.api.flow_status import ENDED_STEP_PHASES
from model.random_flows import EVERY
from support.laws.effort_of_laws import tries
from support.laws.random_control_walk import lived, lives
from support.laws.reordered_views import seen_in_another_order, steps_in_another_order

FIELDS = ("jobs", "templates", "refusals", "commands", "aborts", "pods", "live", "read")
"""What a plan sees by name, in whatever order."""
ORDER_TELLS = frozenset({"parallelism", "refused"})
"""Where the order of the steps is meant to make a difference."""


@given(lives())
@tries(80)
def test_every_flow_ends_and_nothing_runs_again_for_nothing(made) -> None:
    life = lived(*made)
    life.end_well()
    world = life.world
    conditions = world.plan().conditions
    assert {each.phase for each in conditions.values()} <= ENDED_STEP_PHASES
    assert world.settled().plan().nothing
    for key, count in life.made.items():
        assert count <= 1 + life.over[key]
    assert set(life.taken.values()) <= {1}, "a Command acted twice"
    broken = any(
        each.phase == "Failed" and not life.steps[name].continue_on_failure
        for name, each in conditions.items()
    )
    ended = world.flow.status.state.reason in ("Cancelled", "Timeout")
    assert world.flow.status.state.phase == ("Failed" if broken or ended else "Succeed")


@given(lives())
@tries(40)
def test_a_plan_depends_on_what_it_sees_alone_and_not_on_its_order(made) -> None:
    life = lived(*made)
    world, random = life.world, life.random
    planned = world.plan()
    assert planned.plan == world.plan().plan
    other = seen_in_another_order(world, random, FIELDS)
    assert other.plan().plan == planned.plan


@given(lives(EVERY - ORDER_TELLS))
@tries(40)
def test_the_order_of_the_steps_changes_no_decision(made) -> None:
    life = lived(*made)
    world, planned = life.world, life.world.plan()
    other = steps_in_another_order(world, life.random).plan()
    assert set(other.creates) == set(planned.creates)
    assert other.phases == planned.phases
    assert (other.skipped, other.failed) == (planned.skipped, planned.failed)
    assert other.phase == planned.phase


@given(lives())
@tries(40)
def test_a_plan_carried_out_leaves_nothing_to_do(made) -> None:
    world = lived(*made).world.settled()
    assert world.plan().nothing
    again = replace(world, missing=frozenset(), read={}, aborts={}, refusals={})
    assert not again.plan().plan.events


@given(lives(), st.sampled_from([None, "1m"]))
@tries(40)
def test_a_flow_that_is_being_deleted_comes_to_rest(made, timeout: str | None) -> None:
    """A finalizer keeps it: its vcjobs end, and then only time passes."""
    world, random, things = made
    life = lived(world.with_spec(timeout=timeout), random, things)
    life.world = life.world.being_deleted()
    for _ in range(100):
        before = life.world
        life.reconcile()
        for name in sorted(life.live()):
            life.goes(name, "Completed")
        if life.world == before:
            wake = life.world.plan().plan.requeue_after
            if wake is None:
                return
            life.world = life.world.later(wake.total_seconds())
    raise AssertionError(f"it asks for plan after plan: {life.world.plan().plan}")


@given(lives())
@tries(40)
def test_an_event_is_told_once(made) -> None:
    """As often as a plan is made, what its status tells is told when that is written."""
    world = lived(*made).world
    planned = world.plan()
    again = world.with_status(planned.status).plan()
    assert not set(planned.plan.events) & set(again.plan.events)
