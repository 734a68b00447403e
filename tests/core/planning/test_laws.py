"""Properties of `plan`, on random walks of flows and on flows that bypassed admission."""

from dataclasses import replace
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from jobflow.api.flow.control import Backoff, ForEach, Repeat, Retry
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import ENDED_STEP_PHASES, JobFlowStatus, StepCondition
from jobflow.core.admission.analysis.flow_facts import Known
from jobflow.core.admission.validate import validate_flow
from jobflow.core.explain.explain import explain, explain_step
from jobflow.core.planning.actions import AbortJob, CreateJob, DeleteCommand, DeleteJob
from jobflow.core.spec.readiness import FLOW_ERRORS
from model.random_flows import WITHOUT_CHILDREN
from support.laws.cpu_time import least_cpu
from support.laws.effort_of_laws import tries
from support.laws.random_flows import controlled_flows, flows_with_probes
from support.laws.random_walk import Walk, walks
from support.laws.unadmitted_flows import UnadmittedWorlds
from support.plan.loop_worlds import two_steps
from support.plan.plan_world import World
from support.plan.world_state import NOW

JUSTIFIED_FIRST = (DeleteJob, AbortJob, DeleteCommand)
"""Actions that wait until their reason is stored."""
FIELDS = ("jobs", "templates", "refusals", "commands", "aborts", "pods", "live", "read", "probes")
"""Mappings of the view."""
ORDER_MATTERS = frozenset({"parallelism", "refused"})
"""Primitives for which the order of the steps matters."""

loops: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.builds(
        lambda count, most: {"for_each": ForEach(count=count, parallelism=most)},
        st.integers(0, 4),
        st.sampled_from([None, 1, 2]),
    ),
    st.builds(
        lambda at, most: {"repeat": Repeat(until=f"index == {at}", max=most)},
        st.integers(0, 3),
        st.integers(1, 3),
    ),
    st.just({}),
)
retries = st.none() | st.integers(0, 2).map(
    lambda limit: Retry(limit=limit, backoff=Backoff(duration="1s"), avoid_nodes=True)
)
loop_worlds = st.builds(
    lambda loop, retry, timeout: two_steps(retry=retry, timeout=timeout, **loop),
    loops,
    retries,
    st.sampled_from([None, "5s"]),
)
PROBES = walks(flows_with_probes(), 25, probes=True)
CONTROL = walks(controlled_flows(), 40)
LOOPS = walks(loop_worlds, 30)
ANY = PROBES | CONTROL | LOOPS


def ends(condition: StepCondition) -> set[str]:
    """Return the reasons of a step and of its items or repeats."""
    return {condition.reason, *(run.reason for run in condition.runs or ())}


@given(ANY)
@tries(240)
def test_every_flow_ends_and_no_job_runs_again_without_a_reason(walk: Walk) -> None:
    world = walk.end_well()
    conditions = world.plan().conditions
    assert {condition.phase for condition in conditions.values()} <= ENDED_STEP_PHASES
    assert not walk.live()
    assert world.settled().plan().nothing
    for key, count in walk.created.items():
        assert count <= 1 + walk.replaceable[key]
    assert set(walk.handled.values()) <= {1}, "a Command was obeyed twice"
    assert world.settled().commands == {}
    broken = any(
        condition.phase == "Failed"
        and not (walk.steps[name].continue_on_failure and FLOW_ERRORS.isdisjoint(ends(condition)))
        for name, condition in conditions.items()
    )
    ended = world.flow.status.state.reason in ("Cancelled", "Timeout", "ExpressionError")
    assert world.flow.status.state.phase == ("Failed" if broken or ended else "Succeed")


def test_a_step_that_has_completed_runs_its_tolerated_items_again() -> None:
    walk = Walk(two_steps(for_each=ForEach(count=2, min_success=1)), Random(0))
    walk.reconcile()
    walk.enter_phase("f-a-0", "Failed")
    walk.enter_phase("f-a-1", "Completed")
    walk.run_to_end()
    assert walk.stored("a").phase == "Completed"
    walk.order("RetryTolerated")
    walk.run_to_end()
    assert walk.created["a", "0"] == 2


@given(PROBES | LOOPS, st.booleans())
@tries(120)
def test_a_cancelled_flow_ends_even_if_its_jobs_do_not_react(walk: Walk, ignored: bool) -> None:
    """The controller may restart again and again meanwhile."""
    walk.world = walk.world.with_command(name="cancel")
    started = walk.world.now
    for _ in range(400):
        if walk.world.flow.final:
            break
        before = walk.world
        walk.reconcile()
        walk.random.choice((walk.restart, walk.wait) if ignored else (walk.obey, walk.wait))()
        if walk.world == before:
            walk.world = walk.world.later(1)
    assert walk.world.flow.final
    assert (walk.world.now - started).total_seconds() < 300
    assert not walk.live()
    assert set(walk.handled.values()) <= {1}
    assert walk.world.settled().commands == {}


def shuffle_view(world: World, random: Random, fields: tuple[str, ...]) -> World:
    for field in fields:
        if items := getattr(world, field):
            shuffled: Any = dict(random.sample(sorted(items.items()), len(items)))
            world = replace(world, **{field: shuffled})
    return world


def shuffle_steps(world: World, random: Random) -> World:
    steps = random.sample(world.flow.steps, len(world.flow.steps))
    spec = msgspec.structs.replace(world.flow.spec, flows=steps)
    return replace(world, flow=msgspec.structs.replace(world.flow, spec=spec))


@given(ANY)
@tries(140)
def test_a_plan_does_not_depend_on_the_order_in_its_view(walk: Walk) -> None:
    world = walk.world
    planned = world.plan()
    assert planned.plan == world.plan().plan
    assert shuffle_view(world, walk.random, FIELDS).plan().plan == planned.plan


@given(PROBES | walks(controlled_flows(WITHOUT_CHILDREN - ORDER_MATTERS), 40))
@tries(100)
def test_the_order_of_the_steps_changes_no_decision(walk: Walk) -> None:
    world = replace(walk.world, held=None)  # a full namespace is tried in the order of the steps
    planned = world.plan()
    other = shuffle_steps(world, walk.random).plan()
    assert set(other.creates) == set(planned.creates)
    assert other.phases == planned.phases
    assert (other.skipped, other.failed) == (planned.skipped, planned.failed)
    assert other.phase == planned.phase


@given(PROBES)
@tries(60)
def test_a_stored_status_allows_only_actions_that_waited_for_it(walk: Walk) -> None:
    world = walk.world
    created: list[str] = []
    for _ in range(6):
        planned = world.plan()
        if not planned.plan.actions:
            following = world.stored().plan()
            follows = (CreateJob,) if planned.plan.urgent else ()
            assert all(isinstance(a, JUSTIFIED_FIRST + follows) for a in following.plan.actions)
            assert following.status == planned.status
        created += planned.creates
        world = world.apply(planned)
    assert world.plan().nothing
    assert len(created) == len(set(created))


@given(ANY)
@tries(120)
def test_after_the_last_plan_a_restart_finds_nothing_to_do(walk: Walk) -> None:
    world = walk.world.settled()
    assert world.plan().nothing
    again = replace(world, missing=frozenset(), read={}, aborts={}, refusals={})
    assert not again.plan().plan.events
    if not walk.world.refusals:
        assert again.plan().creates == []


@given(LOOPS)
@tries(40)
def test_the_stored_end_of_a_run_never_changes(walk: Walk) -> None:
    assume(not walk.world.commands)  # a retry of the flow starts ended runs again
    ended = {r.index: r for r in walk.stored("a").runs or () if r.phase in ENDED_STEP_PHASES}
    walk.end_well(retries=False)
    stored = {run.index: run for run in walk.stored("a").runs or ()}
    assert {index: stored[index] for index in ended} == ended


@given(CONTROL, st.sampled_from([None, "1m"]))
@tries(40)
def test_a_flow_that_is_being_deleted_stops_asking_for_plans(walk: Walk, timeout: Any) -> None:
    """A finalizer keeps the flow: its jobs end, and then only time passes."""
    walk.world = walk.world.with_spec(timeout=timeout).being_deleted()
    for _ in range(100):
        before = walk.world
        walk.reconcile()
        for name in sorted(walk.live()):
            walk.enter_phase(name, "Completed")
        if walk.world == before:
            wake = walk.world.plan().plan.requeue_after
            if wake is None:
                return
            walk.world = walk.world.later(wake.total_seconds())
    pytest.fail(f"it asks for plan after plan: {walk.world.plan().plan}")


@given(ANY)
@tries(80)
def test_an_event_is_written_once(walk: Walk) -> None:
    """The events of a status are written with that status, and no later plan repeats them."""
    planned = walk.world.plan()
    again = walk.world.with_status(planned.status).plan()
    assert not set(planned.plan.events) & set(again.plan.events)


SEVERAL = 20
SOON = 12
"""Plans after which the status of an unadmitted flow is settled."""
LONGEST = 2.0
"""Seconds of CPU time for one plan. The longest takes 0.1 s, several times as much on a busy
machine."""


@given(st.integers(0, 2**32))
@tries(25)
def test_plans_of_an_unadmitted_flow_settle(seed: int) -> None:
    unadmitted = UnadmittedWorlds(Random(seed))
    for _ in range(SEVERAL):
        settled(unadmitted.world())


def settled(world: World) -> World:
    """Store the status of each plan until it no longer changes: that takes a few plans, none is
    slow, and none asks for the next one at once."""
    for _ in range(SOON):
        planned, seconds = least_cpu(world.plan, LONGEST)
        assert seconds < LONGEST
        assert not planned.asks_at_once
        status = msgspec.json.encode(planned.status)
        assert msgspec.json.decode(status, type=JobFlowStatus) == planned.status
        if planned.status == world.flow.status:
            return world
        world = world.with_status(planned.status)
    raise AssertionError(f"the status changes for ever: {world.plan().status}")


@given(st.integers(0, 2**32))
@tries(25)
def test_an_unadmitted_flow_is_validated_and_explained(seed: int) -> None:
    unadmitted = UnadmittedWorlds(Random(seed))
    for _ in range(SEVERAL):
        world = unadmitted.world()
        flow: JobFlow = world.flow
        assert explain(flow, now=NOW).sentences
        for name in {step.name for step in flow.all_steps}:
            assert explain_step(flow, name, now=NOW).sentences
        validate_flow(flow, Known(templates=world.templates, queues={}))
