"""Laws of `plan`, for any flow that admission takes and anything that may happen to it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jobflow.api.flow_status import ENDED_STEP_PHASES
from jobflow.core.planning.actions import AbortJob, CreateJob, DeleteCommand, DeleteJob
from support.laws.effort_of_laws import tries
from support.laws.random_walk import lived, lives
from support.laws.reordered_views import seen_in_another_order, steps_in_another_order

JUSTIFIED_FIRST = (DeleteJob, AbortJob, DeleteCommand)
"""What is done only when its reason is stored."""

FIELDS = ("jobs", "templates", "refusals", "commands", "aborts", "pods", "read", "probes")
"""What a plan sees by name, in whatever order."""


@given(lives)
@tries(120)
def test_every_flow_ends_and_nothing_runs_twice_without_a_loss(made) -> None:
    life = lived(*made)
    world = life.end_well()
    phases = world.plan().phases
    state = world.flow.status.state.phase
    assert set(phases.values()) <= ENDED_STEP_PHASES
    cancelled = world.flow.status.state.reason == "Cancelled"
    assert state == ("Failed" if cancelled or "Failed" in phases.values() else "Succeed")
    assert not life.live()
    for step, count in life.made.items():
        assert count <= 1 + life.lost[step]
    assert world.settled().plan().nothing
    assert set(life.taken.values()) <= {1}, "a Command acted twice"
    assert world.settled().commands == {}


@given(lives, st.booleans())
@tries(120)
def test_a_cancelled_flow_ends_whatever_its_jobs_do(made, deaf: bool) -> None:
    """Also if none of them ever reacts, and the controller starts anew again and again."""
    life = lived(*made)
    life.world = life.world.with_command(name="cancel")
    started = life.world.now
    for _ in range(400):
        if life.world.flow.final:
            break
        before = life.world
        life.reconcile()
        life.random.choice((life.restart, life.wait) if deaf else (life.obey, life.wait))()
        if life.world == before:
            life.world = life.world.later(1)
    assert life.world.flow.final
    assert (life.world.now - started).total_seconds() < 200
    assert not life.live()
    assert set(life.taken.values()) <= {1}
    assert life.world.settled().commands == {}


@given(lives)
@tries(60)
def test_a_plan_depends_on_what_it_sees_alone_and_not_on_its_order(made) -> None:
    life = lived(*made)
    world, random = life.world, life.random
    planned = world.plan()
    assert planned.plan == world.plan().plan
    other = seen_in_another_order(world, random, FIELDS)
    assert other.plan().plan == planned.plan


@given(lives)
@tries(60)
def test_the_order_of_the_steps_changes_no_decision(made) -> None:
    life = lived(*made)
    world, planned = life.world, life.world.plan()
    other = steps_in_another_order(world, life.random).plan()
    assert set(other.creates) == set(planned.creates)
    assert other.phases == planned.phases
    assert (other.skipped, other.failed) == (planned.skipped, planned.failed)
    assert other.phase == planned.phase


@given(lives)
@tries(60)
def test_a_plan_carried_out_leaves_nothing_to_do(made) -> None:
    """What was asked for has to be seen before it is written; then it is still."""
    world = lived(*made).world
    done: list[str] = []
    for _ in range(6):
        planned = world.plan()
        if not planned.plan.actions:
            rest = world.stored().plan()
            follows = (CreateJob,) if planned.plan.urgent else ()
            assert all(isinstance(a, JUSTIFIED_FIRST + follows) for a in rest.plan.actions)
            assert rest.status == planned.status
        done += planned.creates
        world = world.carried_out(planned)
    assert world.plan().nothing
    assert len(done) == len(set(done))


@given(lives)
@tries(40)
def test_an_event_is_told_once(made) -> None:
    """As often as a plan is made, what its status tells is told when that is written."""
    world = lived(*made).world
    planned = world.plan()
    again = world.with_status(planned.status).plan()
    assert not again.plan.events
    assert again.status == planned.status
