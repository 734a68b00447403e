"""Reuse over time: several flows, retries, deletions, failures, and steps that are never reused."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from jobflow.api.flow.control import Approval, Backoff, ForEach, Retry, Reuse
from jobflow.api.flow.step import Step
from jobflow.core.planning.actions import CreateJob
from support.plan.child_worlds import running, with_child
from support.plan.loop_worlds import end_jobs, for_each, with_step
from support.plan.plan_world import World, flow, world_of
from support.plan.reusing_worlds import reasons, results, reusing
from support.plan.steps import after, step, template


def test_a_result_keeps_its_job_over_any_number_of_flows() -> None:
    last = flow("a", b="a", c="b").run()
    for name in "ghij":
        last = with_step(reusing(last, name=name), "c", env={"BY": name}).run()
        assert set(last.jobs) == {f"{name}-c"}
    assert results(last, "a") == {None: "f-a"}
    assert results(last, "b") == {None: "f-b"}


def test_what_depends_on_a_step_that_ran_in_between_is_that_of_the_later_flow() -> None:
    first = flow("a", b="a", c="b").run()
    second = with_step(reusing(first), "b", env={"BY": "g"}).run()
    third = with_step(reusing(second, name="h"), "b", env={"BY": "h"}).run()
    assert set(third.jobs) == {"h-b", "h-c"}
    back = with_step(reusing(second, name="i"), "b", env=None).run()
    assert set(back.jobs) == {"i-b", "i-c"}, "that job of g is another one than that of f"


def test_what_is_behind_a_step_without_items_is_made_of_what_is_before_it() -> None:
    first = flow("a", b=step("a", for_each=ForEach(items=[])), c="b").run()
    assert reusing(first).run().jobs == {}
    changed = with_step(reusing(first), "a", env={"BY": "g"})
    assert reasons(changed).keys() == {"a", "c"}
    assert set(changed.run().jobs) == {"g-a", "g-c"}


def test_items_that_are_reused_take_no_room() -> None:
    """Three of six equal items have completed."""
    first = for_each(6).settled()
    for index in (1, 3, 5):
        first = first.ended(f"f-a-{index}", "Completed")
    first = first.settled().cancelled()
    for index in (0, 2, 4):
        first = first.ended(f"f-a-{index}", "Aborted")
    first = first.settled()
    assert first.flow.final
    items = ForEach(count=6, parallelism=1)
    again = with_step(reusing(first), "a", for_each=items).with_spec(parallelism=1).settled()
    assert results(again, "a") == {0: "f-a-1", 1: "f-a-3", 2: "f-a-5"}
    assert set(again.jobs) == {"g-a-3"}


def test_a_result_is_stored_before_a_job_that_depends_on_it_is_created() -> None:
    again = reusing(flow("a", b="a", c="b", d="c").run())
    again = with_step(again, "d", reuse_policy="Never")
    taking = again.plan()
    assert taking.creates == []
    assert taking.plan.urgent
    assert taking.phases == dict(zip("abcd", ["Completed"] * 3 + ["Waiting"], strict=True))
    assert again.stored().plan().creates == ["g-d"]


def test_a_result_is_no_new_job_in_the_events() -> None:
    plain, items = reusing(flow("a").run()).plan(), reusing(for_each().run()).plan()
    assert [event.message for event in plain.plan.events] == [
        "step a: unchanged since f",
        "all is done: 1/1 steps",
    ]
    assert "JobCreated" not in items.events


def test_what_a_retry_runs_again_is_not_reused() -> None:
    """Step a failed in the first flow and in the second one, which had reused b."""
    first = flow("a", "b", c="a b").settled()
    first = end_jobs(end_jobs(first, "Completed", "f-b"), "Failed", "f-a")
    second = end_jobs(reusing(first).settled(), "Failed", "g-a")
    assert second.flow.final
    again = second.with_command("RestartJob").run()
    assert results(again, "b") == {None: "f-b"}
    assert set(again.jobs) == {"g-a", "g-a-r1", "g-c"}


def test_a_retry_reuses_what_the_flow_had_not_reached() -> None:
    """The flow was cancelled while approval was asked for, and then retried."""
    first = flow("a", "x", b="a x").run()
    second = with_step(reusing(first), "x", reuse_policy="Never").settled()
    assert results(second, "a") == {None: "f-a"}
    second = end_jobs(second, "Failed", "g-x")
    assert second.flow.final
    again = second.with_command("RestartJob").run()
    assert set(again.jobs) == {"g-x", "g-x-r1", "g-b"}


@pytest.mark.parametrize("is_there", [True, False])
def test_what_was_not_decided_runs_if_the_flow_is_deleted_meanwhile(is_there: bool) -> None:
    steps = [Step(name="a"), Step(name="t", depends_on=after("a")), Step(name="b")]
    first = world_of(steps).run()
    first = replace(first, templates={})
    second = replace(reusing(first), templates={"a": flow("a").templates["a"]}).settled()
    assert second.plan().held_up == {"t": "WaitingForTemplate", "b": "WaitingForTemplate"}
    templates = flow("a", "t", "b").templates
    second = replace(second, templates=templates, source=first.flow if is_there else None).run()
    assert set(second.jobs) == (set() if is_there else {"g-t", "g-b"})
    assert results(second, "a") == {None: "f-a"}


def test_another_flow_of_that_name_is_not_reused_midway() -> None:
    first = flow("a", b="a").run()
    second = replace(reusing(first), templates={"a": first.templates["a"]}).settled()
    metadata = msgspec.structs.replace(first.flow.metadata, uid="uid-other")
    other = msgspec.structs.replace(first.flow, metadata=metadata)
    second = replace(second, templates=first.templates, source=other)
    (event,) = second.apply().plan().plan.events
    assert event.message == (
        "step b: created job g-b (flow f is gone, so nothing of it is reused any more)"
    )
    assert set(second.run().jobs) == {"g-b"}


def daemons(**fields: object) -> World:
    last = step("s", condition="Running")
    return flow(s=step(daemon=True, **fields), b=last, c=step("b"))


def run_beside(world: World) -> World:
    """Run a flow to its end; its daemon s runs at once."""
    world = world.settled()
    name = f"{world.flow.metadata.name}-s"
    world = world.later(1).ended(name, "Running").settled()
    while not world.flow.final:
        live = [each for each, job in world.jobs.items() if not job.ended and each != name]
        world = end_jobs(world, "Completed", *live) if live else end_jobs(world, "Aborted", name)
    return world


def test_a_daemon_starts_again_and_what_depends_on_it_runs_again() -> None:
    new = reusing(run_beside(daemons()))
    assert set(run_beside(new).jobs) == {"g-s", "g-b", "g-c"}
    assert reasons(new)["b"] == "its target s runs again"


def test_steps_that_depend_on_a_daemon_may_be_reused_if_it_says_so() -> None:
    new = reusing(run_beside(daemons(reuse_policy="IfUnchanged")))
    again = run_beside(new)
    assert set(again.jobs) == {"g-s"}
    assert reasons(new) == {"s": "a daemon starts in every flow"}
    assert again.end == ("Succeed", "")


def test_steps_that_depend_on_a_daemon_that_has_changed_run_again() -> None:
    first = run_beside(daemons(reuse_policy="IfUnchanged"))
    new = with_step(reusing(first), "s", env={"SEED": "2"})
    assert set(run_beside(new).jobs) == {"g-s", "g-b", "g-c"}
    assert reasons(new)["b"] == "it is made of something else: its target s"


def test_finally_and_tolerated_failures_run_again() -> None:
    first = flow("a", b="a").with_finally("z")
    first = with_step(first, "a", continue_on_failure=True)
    first = first.run(lambda name: "Failed" if name == "a" else "Completed")
    again = reusing(first).run()
    assert set(again.jobs) == {"g-a", "g-b", "g-z"}


def test_finally_runs_again_behind_reused_steps() -> None:
    again = reusing(flow("a").with_finally("z").run()).run()
    assert set(again.jobs) == {"g-z"}


def around_an_untaken_step(when: str = "false") -> World:
    steps = [
        Step(name="a"),
        Step(name="u", depends_on=after("a"), when=when),
        Step(name="x"),
        Step(name="b", depends_on=after("x u")),
    ]
    return world_of(steps)


def test_an_untaken_step_counts_by_its_end_and_by_what_it_depends_on() -> None:
    first = around_an_untaken_step().run()
    assert reusing(first).run().jobs == {}
    taken = reusing(first, flows=around_an_untaken_step("true").flow.spec.flows).run()
    assert set(taken.jobs) == {"g-u", "g-b"}
    before_it = with_step(reusing(first), "a", env={"SEED": "2"}).run()
    assert set(before_it.jobs) == {"g-a", "g-b"}


@pytest.mark.parametrize("other", ["Completed", "Failed"])
def test_a_step_after_any_of_several_is_reused_if_they_all_are(other: str) -> None:
    first = flow("a", "b", c=step("a b", strategy="any")).run()
    assert reusing(first).run().jobs == {}
    changed = with_step(reusing(first), "b", env={"SEED": "2"}).settled()
    changed = changed.run(lambda name: other if name == "b" else "Completed")
    assert set(changed.jobs) == {"g-b", "g-c"}


def after_any(**fields: Any) -> World:
    """Step c waits for any of a and b; b is of these fields."""
    return flow("a", b=step("a", **fields), c=step("a b", strategy="any"))


@pytest.mark.parametrize(
    ("before", "after", "ran"),
    [
        ({"when": "false"}, {"when": "1 > 2"}, set()),
        ({"when": "true"}, {"when": "1 < 2"}, set()),
        ({"when": "true"}, {"when": "false"}, {"g-c"}),
        ({"when": "false"}, {"when": "true"}, {"g-b", "g-c"}),
        ({"for_each": ForEach(count=3)}, {"for_each": ForEach(count=2)}, {"g-c"}),
    ],
    ids=["untaken", "taken", "not taken any more", "taken now", "an item less"],
)
def test_after_any_of_several_the_ends_of_all_count(
    before: dict[str, Any], after: dict[str, Any], ran: set[str]
) -> None:
    first = after_any(**before).run()
    again = reusing(first, flows=after_any(**after).flow.spec.flows)
    assert set(again.run().jobs) == ran
    why = reasons(again)
    assert {f"g-{place}" for place in why} == ran
    if ran == {"g-c"}:
        assert why["c"] == "its target b has ended otherwise than in f"


@pytest.mark.parametrize("case", ["missing", "running", "recreated"])
def test_a_flow_whose_earlier_one_cannot_be_reused_fails_at_once(case: str) -> None:
    first = flow("a").run()
    again = reusing(flow("a").settled() if case == "running" else first)
    if case == "missing":
        again = replace(again, source=None)
    if case == "recreated":
        again = again.with_spec(reuse=Reuse(flow="f", uid="4f6c1e0a-0000-4000-8000-000000000000"))
    again = again.settled()
    assert again.end == ("Failed", "ReuseNotFound")
    assert "spec.reuse" in again.flow.status.state.message
    assert again.jobs == {}


def test_a_retried_run_is_compared_as_its_first_attempt() -> None:
    retry = Retry(limit=2, backoff=Backoff(duration="1s"))
    first = with_step(flow("a"), "a", retry=retry).settled()
    first = end_jobs(first, "Failed", "f-a").later(5).settled()
    first = end_jobs(first, "Completed", "f-a-r1")
    assert reusing(first).run().jobs == {}


def test_a_child_flow_whose_counterpart_is_gone_runs_whole_and_says_so() -> None:
    first = with_child(running(), "f-a", "Succeed").run()
    again = replace(reusing(first), source_children={})
    (create,) = (each for each in again.plan().plan.actions if isinstance(each, CreateJob))
    child = again.child_made(create)
    planned = replace(again, flow=child, source=None, templates={"x": template("x")}).plan()
    assert planned.creates == ["g-a-x"]
    (event,) = planned.plan.events
    assert (event.type, event.reason) == ("Warning", "NothingReused")
    assert event.message == "flow f-a does not exist, so every step runs"
    # nor does a flow take its place that got the name later
    metadata = msgspec.structs.replace(first.flow.metadata, name="f-a", uid="uid-other")
    other = msgspec.structs.replace(first.flow, metadata=metadata)
    assert replace(again, flow=child, source=other).plan().status.reuse is None


@pytest.mark.parametrize("between", [{"when": "false"}, {"approval": Approval()}], ids=str)
@pytest.mark.parametrize("has_changed", [False, True])
def test_what_any_waited_for_counts_through_steps_without_a_job(
    between: dict[str, Any], has_changed: bool
) -> None:
    """Step d depends on u, which has no job and waits for any of a and b."""

    def ended(world: World) -> World:
        world = world.settled()
        for name in list(world.jobs):
            world = world.ended(name, "Completed")
        world = world.settled()
        if "approval" in between:
            world = world.with_command("ApproveStep", text="u")
        return world.run()

    steps = {"u": step("a b", strategy="any", **between), "d": step("u x", strategy="all")}
    again = reusing(ended(flow("a", "b", "x", **steps)))
    if has_changed:
        again = with_step(again, "b", env={"SEED": "2"})
    assert set(ended(again).jobs) == ({"g-b", "g-d"} if has_changed else set())


@pytest.mark.parametrize("has_changed", [False, True])
def test_a_child_flow_after_any_of_several_reuses_its_counterpart_if_they_all_are(
    has_changed: bool,
) -> None:
    inner = step("a b", strategy="any", flow={"flows": [{"name": "x"}]})
    first = flow("a", "b", c=inner).settled()
    first = first.ended("f-a", "Completed").ended("f-b", "Completed").settled()
    first = with_child(first, "f-c", "Succeed").settled()
    again = reusing(first)
    if has_changed:
        again = with_step(again, "b", env={"SEED": "2"})
    created = {}
    while "g-c" not in created:
        again = again.apply()
        planned = again.plan().plan.actions
        created = {each.name: each.manifest for each in planned if isinstance(each, CreateJob)}
    assert created["g-c"]["spec"].get("reuse") == (
        None if has_changed else {"flow": "f-c", "uid": "uid-f-c"}
    )


def test_a_retry_of_a_flow_that_found_nothing_to_reuse_looks_again() -> None:
    first = flow("a", b="a").run()
    failed = replace(reusing(first), source=None).settled().with_command("RestartJob").settled()
    assert failed.end == ("Failed", "ReuseNotFound")
    again = replace(failed, source=first.flow).with_command("RestartJob", name="d").run()
    assert again.jobs == {}
    assert again.end == ("Succeed", "")


def test_child_flows_of_equal_items_reuse_different_ones_in_order() -> None:
    def samples(*items: str) -> list[Step]:
        child = {"flows": [{"name": "x"}], "params": {"p": "$(item)"}}
        return [Step(name="a", flow=child, for_each=ForEach(items=[*items]))]

    first = world_of(samples("x", "y", "x")).settled()
    for name in list(first.jobs):
        first = with_child(first, name, "Succeed")
    again = reusing(first.settled(), flows=samples("y", "x", "new", "x"))
    creates = [each for each in again.plan().plan.actions if isinstance(each, CreateJob)]
    sources = [each.manifest["spec"]["reuse"]["flow"] for each in creates]
    assert sources == ["f-a-1", "f-a-0", "f-a-2", "f-a-2"]
