"""The effort of a plan, in lines of Python, is proportional to steps, targets, runs and vcjobs."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from jobflow.api import labels
from jobflow.api.flow.control import Backoff, ForEach, Patch, Retry
from jobflow.api.flow.step import DependsOn, Step
from jobflow.core.planning import decision
from support.laws.counted_work import lines_run
from support.plan.child_worlds import with_child
from support.plan.loop_worlds import end_jobs, for_each, repeated, with_step
from support.plan.plan_world import World, flow, world_of
from support.plan.reusing_worlds import reusing
from support.plan.steps import after, step


def _wide(count: int, **spec: object) -> World:
    """`x` and `count` other steps; all of them run."""
    names = [f"s{i}" for i in range(count)]
    world = flow("x", *names).with_spec(**spec).settled()
    jobs = {name: world.ended(name, "Running").jobs[name] for name in world.jobs}
    return replace(world, jobs=jobs).settled()


def _aborting(count: int) -> World:
    """One step has failed, and the abort of all others is stored."""
    world = end_jobs(_wide(count, failure_policy="Abort"), "Failed", "f-x")
    assert world.plan().conditions["s1"].abort_time is not None
    return world


def _cancelled(count: int) -> World:
    world = _wide(count).cancelled().settled()
    assert world.plan().conditions["s1"].reason == "Cancelled"
    return world


def _stopped(count: int) -> World:
    """A chain of steps and as many handlers, all behind a step that has just failed."""
    chain = [Step(name=f"c{i}", depends_on=after(f"c{i - 1}" if i else "x")) for i in range(count)]
    names = [f"h{i}" for i in range(count)]
    handlers = [Step(name=h, depends_on=after("x", condition="Failed")) for h in names]
    last = [Step(name="z", depends_on=after(" ".join(names)))]
    world = world_of([Step(name="x"), *chain, *handlers, *last]).settled()
    return world.ended("f-x", "Failed")


def _waiting_for_one_that_runs(count: int) -> World:
    depends_on = after("x", condition="Running")
    others = [Step(name=f"s{i}", depends_on=depends_on) for i in range(count)]
    return world_of([Step(name="x"), *others]).settled()


def _conditions(count: int) -> World:
    steps = {
        f"s{i}": step(f"s{i - 1}", when=f'steps["s{i - 1}"].attempts >= 0') for i in range(1, count)
    }
    return end_jobs(flow("x", s0=step("x"), **steps).settled(), "Completed", "f-x")


def _items(count: int) -> World:
    world = with_step(for_each(count), "a", timeout="1h").settled()
    return end_jobs(world, "Running", *world.jobs)


def _items_one_by_one(count: int) -> World:
    return for_each(count, parallelism=1).settled()


def _items_that_fail(count: int) -> World:
    """All items run at once, fail, and are retried."""
    retry = Retry(limit=3, backoff=Backoff(duration="1m"))
    world = for_each(count, retry=retry).settled()
    return end_jobs(world, "Failed", *world.jobs)


def _items_that_begin(count: int) -> World:
    return world_of([Step(name="a", for_each=ForEach(count=count))])


def _room_for_few(count: int) -> World:
    return flow(*(f"s{i}" for i in range(count))).with_spec(parallelism=2).settled()


def _repeats(count: int) -> World:
    world = repeated("false", count).settled()
    for index in range(count - 1):
        world = end_jobs(world, "Completed", f"f-a-{index}")
    return world


def _attempts(count: int) -> World:
    world = flow("a", b=after("a", condition="Running")).settled()
    known = world.jobs["f-a"].metadata.labels or {}
    return world.with_metadata("f-a", labels={**known, labels.ATTEMPT: "9" * (count // 20)})


def _chain(count: int) -> World:
    return flow("s0", **{f"s{i}": f"s{i - 1}" for i in range(1, count)})


def _reused_chain(count: int) -> World:
    return reusing(_chain(count).run())


def _reused_decisions(count: int) -> World:
    when = "size(flow.name) == 1"
    steps = {f"s{i}": step(f"s{i - 1}", when=when) for i in range(1, count)}
    return reusing(flow("s0", **steps).run())


def _reused_items(count: int) -> World:
    return reusing(for_each(count).run())


def _reused_matching_items(count: int) -> World:
    matching = DependsOn(targets=["a"], items="Matching")
    steps = [
        Step(name="a", for_each=ForEach(count=count)),
        Step(name="b", depends_on=matching),
    ]
    return reusing(world_of(steps).run())


def _items_that_were_compared(count: int) -> World:
    """No item has a result to take, and there is room for one at a time."""
    world = with_step(reusing(for_each(count).run()), "a", env={"SEED": "2"})
    return with_step(world, "a", for_each=ForEach(count=count, parallelism=1)).settled()


def _steps_without_jobs(count: int) -> World:
    """A step depends on the last one of a chain that was not taken."""
    steps = {f"s{i}": step(f"s{i - 1}") for i in range(1, count)}
    return flow("x", s0=step(when="false"), **steps, z=f"x s{count - 1}").settled()


def _after_steps_without_jobs(count: int) -> World:
    return end_jobs(_steps_without_jobs(count), "Completed", "f-x")


def _compared_child_flows(count: int) -> World:
    step = Step(name="a", flow={"flows": [{"name": "x"}]}, for_each=ForEach(count=count))
    first = world_of([step]).settled()
    for name in list(first.jobs):
        first = with_child(first, name, "Succeed")
    return reusing(first.settled())


CASES: dict[str, Callable[[int], World]] = {
    "steps that run": _wide,
    "steps that are aborted for a failure": _aborting,
    "steps that are cancelled": _cancelled,
    "steps that are stopped, and that handle a failure": _stopped,
    "steps that wait for one to run": _waiting_for_one_that_runs,
    "conditions": _conditions,
    "items that begin": _items_that_begin,
    "items that run": _items,
    "items one by one": _items_one_by_one,
    "items that fail": _items_that_fail,
    "room for few": _room_for_few,
    "repeats": _repeats,
    "an attempt of any number": _attempts,
    "a chain that is reused": _reused_chain,
    "a chain of steps that decide and are reused": _reused_decisions,
    "items that are reused": _reused_items,
    "items that are reused with those before them": _reused_matching_items,
    "items that were compared and wait for room": _items_that_were_compared,
    "a step after many without jobs": _after_steps_without_jobs,
    "child flows that take results": _compared_child_flows,
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_four_times_as_much_takes_at_most_six_times_the_work(case: Callable[[int], World]) -> None:
    few, many = case(40), case(160)
    assert lines_run(many.plan) < 6 * lines_run(few.plan)


def test_items_that_wait_for_room_are_compared_once() -> None:
    """A plan in which they wait costs hardly more than one of a flow that reuses nothing."""
    plain = with_step(for_each(1000, parallelism=1), "a", env={"SEED": "2"}).settled()
    assert lines_run(_items_that_were_compared(1000).plan) < 2 * lines_run(plain.plan)


@pytest.mark.parametrize("reused", [_reused_items, _reused_chain])
def test_a_plan_compares_as_much_as_it_may_create(
    reused: Callable[[int], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two plans decide 200 runs, if a plan may create about 120 jobs."""
    world = reused(200)
    monkeypatch.setattr(decision, "MAX_CREATE_WORK", decision.MAX_CREATE_WORK // 5)
    creating = flow(*(f"s{i}" for i in range(200))).plan
    assert 100 < len(creating().creates) < 150
    most, plans = 2 * lines_run(creating), 0
    while not world.flow.final:
        assert lines_run(world.plan) < most
        world, plans = world.apply(), plans + 1
        assert not world.jobs
    assert plans < 5


def _annotated(count: int) -> Patch:
    notes = {f"note{i}": "$(flow.name)" for i in range(count)}
    task = {"name": "t", "template": {"metadata": {"annotations": notes}}}
    return Patch(job_spec={"tasks": [task]})


def _ready_steps(count: int, patch: Patch) -> World:
    steps = {f"s{i}": step("x", patch=patch) for i in range(count)}
    world = flow("x", **steps).with_spec(parallelism=4).settled()
    return world.later(1).ended("f-x", "Completed")


def _ready_items(count: int, patch: Patch) -> World:
    """Four items have run, and there is room for four more."""
    world = with_step(for_each(count), "a", patch=patch).with_spec(parallelism=4).settled()
    for name in world.jobs:
        world = world.ended(name, "Completed")
    return world


def _items_to_retry(count: int, patch: Patch) -> World:
    """All items have failed, and there is room for four attempts."""
    retry = Retry(limit=3, backoff=Backoff(duration="1s"))
    world = with_step(for_each(count, retry=retry), "a", patch=patch).settled()
    return end_jobs(world, "Failed", *world.jobs).with_spec(parallelism=4).later(60)


@pytest.mark.parametrize("ready", [_ready_steps, _ready_items, _items_to_retry])
def test_manifests_of_steps_that_wait_for_room_are_not_built(
    ready: Callable[[int, Patch], World],
) -> None:
    """A larger manifest increases the cost of a plan only for the jobs that it creates."""

    def cost_of_patch(count: int) -> int:
        worlds = [ready(count, _annotated(most)) for most in (50, 1)]
        for world in worlds:
            assert len(world.plan().creates) == 4  # and the compiled spec is cached from now on
        with_large, with_small = (lines_run(world.plan) for world in worlds)
        return with_large - with_small

    few, many = cost_of_patch(10), cost_of_patch(80)
    assert 0 < few
    assert many < 2 * few
