"""Reuse: which runs of a flow take the results of an ended one, and which run."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from jobflow.api.flow.control import Approval, Backoff, Case, ForEach, Param, Repeat, Retry
from jobflow.api.flow.status import Decisions
from jobflow.api.flow.step import DependsOn, Step
from support.plan.loop_worlds import end_jobs, finish, with_step
from support.plan.plan_world import World, flow, world_of
from support.plan.reusing_worlds import reasons, results, reusing
from support.plan.steps import TEMPLATE_SPEC, after, template


def says(*words: str, **fields: Any) -> dict[str, Any]:
    return {"container": {"image": "busybox", "args": list(words)}, **fields}


def sweep(items: list[Any], **fields: Any) -> World:
    """Step a has a job for each item, b reads their results, and c does not."""
    each = Step(name="a", for_each=ForEach(items=items), **says("$(item)", **fields))
    return world_of([each, Step(name="b", depends_on=after("a")), Step(name="c")])


def changed(step: str, **fields: Any) -> Callable[[World], World]:
    return lambda world: with_step(world, step, **fields)


def items(*values: Any) -> Callable[[World], World]:
    return changed("a", for_each=ForEach(items=list(values)))


def params(**values: Any) -> Callable[[World], World]:
    made = [Param(name=name, value=value) for name, value in values.items()]
    return lambda world: world.with_spec(params=made)


def nothing(world: World) -> World:
    return world


def chain_with_param() -> World:
    steps = [
        Step(name="a", **says("a")),
        Step(name="b", depends_on=after("a"), **says("b")),
        Step(name="c", depends_on=after("b"), **says("$(params.rate)")),
    ]
    return params(rate="0.01")(world_of(steps))


def choosing() -> World:
    each = ForEach(items=[1, 2, 3], when="item > params.n")
    steps = [
        Step(name="a", for_each=each, **says("$(item)")),
        Step(name="b", depends_on=after("a")),
    ]
    return params(n=1)(world_of(steps))


THOUSAND = list(range(1000))
CASES: dict[str, tuple[World, Callable[[World], World], set[str]]] = {
    "nothing changed": (flow("a", b="a", c="b"), nothing, set()),
    "two equal items": (sweep(["x", "x"]), nothing, set()),
    "an item twice that was there once": (sweep(["x"]), items("x", "x"), {"g-a-1", "g-b"}),
    "a shuffled list": (sweep([*"abcd"]), items(*"cadb"), {"g-b"}),
    "an item less": (sweep([*"abcd"]), items(*"abd"), {"g-b"}),
    "a list that grew from 6 to 8": (
        sweep(THOUSAND[:6]),
        items(*THOUSAND[:8]),
        {"g-a-6", "g-a-7", "g-b"},
    ),
    "1,000 items with 10 changed": (
        sweep(THOUSAND),
        items(*(f"new-{i}" if i % 100 == 7 else i for i in THOUSAND)),
        {*(f"g-a-{i}" for i in THOUSAND if i % 100 == 7), "g-b"},
    ),
    "a param that only the last step reads": (chain_with_param(), params(rate="0.1"), {"g-c"}),
    "another command of the step in the middle": (
        chain_with_param(),
        changed("b", **says("b", "--verbose")),
        {"g-b", "g-c"},
    ),
    "more retries, another timeout and other resources": (
        flow("a"),
        changed(
            "a",
            retry=Retry(limit=3),
            timeout="2h",
            resources={"limits": {"cpu": 2}},
        ),
        set(),
    ),
    "a step that must not be reused": (
        flow("a", b="a", c="b"),
        changed("b", reuse_policy="Never"),
        {"g-b", "g-c"},
    ),
    "items that are taken as before": (choosing(), nothing, set()),
    "an item that is not taken any more": (choosing(), params(n=2), {"g-b"}),
    "an item that is taken now": (choosing(), params(n=0), {"g-a-0", "g-b"}),
    "another step before it": (
        flow("a", "x", b="a"),
        changed("b", depends_on=after("a x")),
        {"g-b"},
    ),
}


@pytest.mark.parametrize(("first", "change", "expected"), CASES.values(), ids=CASES.keys())
def test_a_flow_runs_what_has_changed_and_what_is_made_of_it(
    first: World, change: Callable[[World], World], expected: set[str]
) -> None:
    new = change(reusing(first.run()))
    again = new.run()
    assert set(again.jobs) == expected
    assert again.end == ("Succeed", "")
    assert {f"g-{place.replace('/', '-')}" for place in reasons(new)} == expected


def test_equal_items_take_old_results_in_order_and_each_once() -> None:
    again = items("y", "x", "x", "x")(reusing(sweep(["x", "y", "x"]).run())).run()
    assert results(again, "a") == {0: "f-a-1", 1: "f-a-0", 2: "f-a-2"}


def test_a_sweep_that_failed_keeps_what_completed() -> None:
    first = sweep(THOUSAND, continue_on_failure=True).settled()
    broken = {"f-a-3", "f-a-500", "f-a-999"}
    for name in first.jobs:
        first = first.ended(name, "Failed" if name in broken else "Completed")
    again = reusing(first.settled().run()).run()
    assert set(again.jobs) == {"g-a-3", "g-a-500", "g-a-999", "g-b"}


def test_a_result_counts_whatever_the_attempt_that_made_it() -> None:
    retry = Retry(limit=3, backoff=Backoff(duration="1s"), avoid_nodes=True)
    first = flow("a", b="a")
    first = with_step(first, "a", retry=retry).settled()
    for name in ("f-a", "f-a-r1"):
        first = end_jobs(first, "Failed", name).later(5).settled()
    again = reusing(first.run()).run()
    assert again.jobs == {}
    assert results(again, "a") == {None: "f-a-r2"}


def test_a_changed_template_behind_an_unchanged_step_runs_it_again() -> None:
    first = flow("a", b="a", c="b").run()
    spec = msgspec.json.decode(msgspec.json.encode(TEMPLATE_SPEC).replace(b"busybox", b"alpine"))
    templates = {**first.templates, "b": template("b", spec)}
    again = replace(reusing(first), templates=templates).run()
    assert set(again.jobs) == {"g-b", "g-c"}


def approved(world: World) -> World:
    world = world.settled()
    for name in list(world.jobs):
        world = world.later(1).ended(name, "Completed")
    return world.settled().with_command("ApproveStep", text="ok").run()


def test_an_approval_between_two_reused_steps_is_asked_again() -> None:
    steps = [
        Step(name="a"),
        Step(name="ok", approval=Approval(), depends_on=after("a")),
        Step(name="b", depends_on=after("ok")),
    ]
    asking = reusing(approved(world_of(steps))).settled()
    assert asking.plan().phases == {"a": "Completed", "ok": "Waiting", "b": "Waiting"}
    again = approved(asking)
    assert again.jobs == {}
    assert again.end == ("Succeed", "")


def with_outputs(world: World, *, watched: bool = True, **outputs: Any) -> World:
    """Run a flow to its end; the jobs of each of these steps have this output `n`."""
    world = world.settled()
    for _ in world.flow.steps:
        for name in [name for name, job in world.jobs.items() if not job.ended]:
            found = {"n": outputs[step]} if (step := name.split("-")[1]) in outputs else {}
            message = msgspec.json.encode(found).decode()
            world = finish(world, name, message, watched=watched)
        world = world.settled()
    return world


def reading(step: str = "a", **fields: Any) -> World:
    """Step b reads the output `n` of step a."""
    reader = Step(name="b", depends_on=after("a"), **says("$(steps.a.outputs.n)", **fields))
    return world_of([Step(name="a"), reader])


@pytest.mark.parametrize("value", [7, "é" * 1900, [1, {"x": 2}]], ids=["7", "4 KB", "a list"])
def test_outputs_are_those_of_the_result(value: Any) -> None:
    again = with_outputs(reusing(with_outputs(reading(), a=value)))
    assert again.jobs == {}
    assert again.plan().conditions["a"].outputs == {"n": value}


def test_a_result_whose_outputs_nobody_read_runs_again_if_something_names_them_now() -> None:
    first = with_outputs(flow("a", b="a"), a=7, watched=False)
    assert first.plan().conditions["a"].outputs is None
    again = with_outputs(reusing(first, flows=reading().flow.spec.flows), a=8)
    assert set(again.jobs) == {"g-a", "g-b"}


def test_a_result_that_has_no_outputs_is_reused_where_others_look_for_them() -> None:
    steps = [
        Step(name="a"),
        Step(name="b", depends_on=after("a"), when='!has(steps["a"].outputs.n)'),
    ]
    first = with_outputs(world_of(steps), watched=False)
    assert set(first.jobs) == {"f-a", "f-b"}
    assert with_outputs(reusing(first)).jobs == {}


def test_outputs_for_which_there_is_no_room_are_not_reused() -> None:
    """A step that the earlier flow did not have has outputs of its own while approval is asked
    for."""
    large = "x" * 3900
    steps = [
        Step(name="ok", approval=Approval()),
        Step(name="a", for_each=ForEach(count=10), depends_on=after("ok")),
    ]
    first = world_of(steps).settled().with_command("ApproveStep", text="ok")
    first = with_outputs(first, a=large)
    assert first.end == ("Succeed", "")
    other = Step(name="x", for_each=ForEach(count=10))
    again = with_outputs(reusing(first, flows=[other, *steps]), x=large)
    again = again.with_command("ApproveStep", text="ok").settled()
    assert len(results(again, "a")) == 6
    assert sum(name.startswith("g-a") for name in again.jobs) == 4


def test_a_status_from_before_fingerprints_has_no_results() -> None:
    first = flow("a", b="a").run()
    for step in ("a", "b"):
        first = first.with_condition(step, fingerprint="")
    again = reusing(first)
    assert "NothingReused" in again.plan().events
    assert set(again.run().jobs) == {"g-a", "g-b"}


def deciding() -> World:
    """A chain of steps that decide by outputs when they start, and the items of the last but one by
    those of the one before."""
    n = 'steps["a"].outputs.n'
    matching = DependsOn(targets=["d"], items="Matching")
    steps = [
        Step(name="a"),
        Step(name="b", depends_on=after("a"), when=f"{n} == 2"),
        Step(name="c", depends_on=after("b"), switch=[Case(when=f"{n} > 1", template="a")]),
        Step(name="d", depends_on=after("c"), for_each=ForEach(from_=f"[{n}, {n} + 1]")),
        Step(name="e", depends_on=matching),
        Step(name="f", depends_on=after("e"), when=f"{n} == 2", repeat=Repeat(until="true", max=1)),
    ]
    return world_of(steps)


def test_steps_that_decide_are_reused_in_the_plan_that_decides() -> None:
    again = reusing(with_outputs(deciding(), a=2))
    planned = again.plan()
    assert planned.phases == dict.fromkeys("abcdef", "Completed")
    assert (planned.conditions["b"].decisions, planned.conditions["d"].decisions) == (
        Decisions(when=True),
        Decisions(items=[2, 3]),
    )
    assert planned.creates == [] and planned.plan.urgent
    assert with_outputs(again).jobs == {}


def test_the_decisions_of_a_step_that_runs_are_stored_before_its_jobs_are_created() -> None:
    again = reusing(with_outputs(deciding(), a=2), name="g")
    for name in "bd":
        again = with_step(again, name, env={"SEED": "2"})
    planned = again.plan()
    assert planned.creates == []
    assert planned.phases["b"] == "Waiting"
    assert planned.conditions["b"].decisions == Decisions(when=True, compared="1")
    assert again.stored().plan().creates == ["g-b"]
    again = with_outputs(again)
    assert set(again.jobs) == {"g-b", "g-c", "g-d-0", "g-d-1", "g-e-0", "g-e-1", "g-f-0"}


def test_items_that_a_step_has_more_run_after_its_decisions_are_stored() -> None:
    def items(text: str) -> World:
        return world_of([Step(name="a", for_each=ForEach(from_=text), **says("$(item)"))])

    again = reusing(items("[1, 2]").run(), flows=items("[0, 1, 2]").flow.spec.flows)
    assert again.plan().creates == []
    assert results(again, "a") == {1: "f-a-0", 2: "f-a-1"}
    assert again.stored().plan().creates == ["g-a-0"]
    assert set(again.run().jobs) == {"g-a-0"}


def repeat(most: int = 5) -> World:
    steps = [
        Step(name="a", repeat=Repeat(until="index == 2", max=most), **says("$(index)")),
        Step(name="b", depends_on=after("a")),
    ]
    return world_of(steps)


def test_a_repeat_is_reused_as_a_whole() -> None:
    again = reusing(repeat().run()).run()
    assert again.jobs == {}
    assert results(again, "a") == {0: "f-a-0", 1: "f-a-1", 2: "f-a-2"}


@pytest.mark.parametrize(
    "change", [{"max": 6}, {"until": "index == 1"}, {"until": "index >= 2"}], ids=str
)
def test_a_repeat_that_has_changed_runs_whole(change: dict[str, Any]) -> None:
    before = repeat().run()
    made = msgspec.structs.replace(Repeat(until="index == 2", max=5), **change)
    again = with_step(reusing(before), "a", repeat=made).run()
    count = 2 if made.until == "index == 1" else 3
    assert set(again.jobs) == {*(f"g-a-{i}" for i in range(count)), "g-b"}


def test_a_repeat_that_failed_is_not_reused_in_part() -> None:
    first = repeat().settled()
    for phase in ("Completed", "Failed"):
        first = end_jobs(first, phase, sorted(first.jobs)[-1])
    assert first.flow.final
    again = reusing(first).run()
    assert set(again.jobs) == {"g-a-0", "g-a-1", "g-a-2", "g-b"}
