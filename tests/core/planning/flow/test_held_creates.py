"""Creates of a flow after a refusal that applies to the whole namespace."""

from datetime import timedelta

import pytest

from jobflow.api.flow.control import Backoff, ForEach, Patch, Retry
from support.plan.loop_worlds import end_jobs, for_each
from support.plan.plan_world import World, flow
from support.plan.steps import step
from support.plan.world_state import NOW


def held(*tried: str, room: int = 1, retry_in: float | None = 0) -> World:
    """Three steps that are ready while the namespace accepts no more vcjobs."""
    return flow("a", "b", "c").with_held(*tried, room=room, retry_in=retry_in)


@pytest.mark.parametrize(
    ("tried", "room", "creates"),
    [
        ((), 1, ["f-a"]),
        (("f-a",), 1, ["f-b"]),
        (("f-a", "f-b"), 1, ["f-c"]),
        (("f-a", "f-b", "f-c"), 1, ["f-a"]),
        (("f-b", "f-c", "f-a"), 1, ["f-b"]),
        (("gone", "f-a"), 1, ["f-b"]),
        (("f-a",), 2, ["f-b", "f-c"]),
        (("f-a",), 4, ["f-a", "f-b", "f-c"]),
    ],
)
def test_held_creates_are_tried_in_turn(
    tried: tuple[str, ...], room: int, creates: list[str]
) -> None:
    assert held(*tried, room=room).plan().creates == creates


def test_every_step_has_the_reason_and_the_next_one_has_the_time_of_the_attempt() -> None:
    planned = held("f-a", retry_in=2.5).plan()
    assert planned.held_up == dict.fromkeys("abc", "CreateRefused")
    assert {c.message for c in planned.conditions.values()} == {
        "exceeded quota; the flow's jobs are tried in turn"
    }
    times = {name: c.next_attempt_time for name, c in planned.conditions.items()}
    assert times == {"a": None, "b": NOW + timedelta(seconds=3), "c": None}
    assert planned.message == "step a: exceeded quota; the flow's jobs are tried in turn"


def test_one_warning_names_all_steps() -> None:
    [event] = [e for e in held("f-a", retry_in=2).plan().plan.events if e.type == "Warning"]
    assert event.reason == "CreateRefused"
    assert event.message.startswith("steps a, b and c: exceeded quota")


def test_an_attempt_does_not_change_the_status() -> None:
    world = held("f-a", retry_in=2).stored()
    assert world.plan().nothing
    assert world.plan().plan.requeue_after == timedelta(seconds=2)
    planned = world.later(2).plan()
    assert planned.creates == ["f-b"]
    assert planned.status == world.flow.status


def test_no_create_is_repeated_in_a_terminating_namespace() -> None:
    planned = held("f-a", retry_in=None).plan()
    assert (planned.creates, planned.plan.requeue_after) == ([], None)
    assert planned.conditions["b"].message == "exceeded quota"


def test_items_wait_as_one_step() -> None:
    planned = for_each(1000).with_held("f-a-0", retry_in=2).plan()
    assert planned.creates == []
    condition = planned.conditions["a"]
    assert (condition.phase, condition.reason) == ("Waiting", "CreateRefused")
    assert condition.next_attempt_time == NOW + timedelta(seconds=2)
    assert for_each(1000).with_held("f-a-0").plan().creates == ["f-a-1"]


def test_an_attempt_that_becomes_due_waits_for_its_turn() -> None:
    loop = for_each(3, retry=Retry(limit=1, backoff=Backoff(duration="1s")))
    world = loop.with_held("f-a-2", room=2).apply().with_held("f-a-2", retry_in=6)
    world = end_jobs(world, "Failed", "f-a-0")
    assert world.plan().nothing
    assert world.later(1).plan().plan.requeue_after == timedelta(seconds=4)
    assert world.later(5).plan().creates == ["f-a-0-r1"]


def test_a_step_whose_attempt_becomes_due_while_creates_are_held_gets_the_reason() -> None:
    loop = for_each(1, retry=Retry(limit=1, backoff=Backoff(duration="1s")))
    world = end_jobs(loop.settled(), "Failed", "f-a-0").stored()
    world = world.with_held("f-b", retry_in=5).stored()
    assert world.plan().plan.requeue_after == timedelta(seconds=1)
    assert world.later(1).plan().held_up == {"a": "CreateRefused"}


def test_the_message_of_a_running_step_mentions_its_held_items() -> None:
    world = for_each(3, parallelism=2).settled().ended("f-a-0", "Completed")
    planned = world.with_held("f-a-2", retry_in=2).plan()
    condition = planned.conditions["a"]
    assert (condition.phase, condition.reason) == ("Running", "")
    assert condition.message == (
        "1 of 3 items have ended, 1 under way; the next waits: exceeded quota; the flow's jobs are "
        "tried in turn"
    )
    assert planned.plan.requeue_after == timedelta(seconds=2)


def test_running_steps_are_not_affected() -> None:
    planned = held("f-b", retry_in=2).with_jobs(a="Running").plan()
    assert planned.phases["a"] == "Running"
    assert planned.held_up == dict.fromkeys("bc", "CreateRefused")


def test_steps_that_wait_for_room_or_a_template_are_not_tried_in_turn() -> None:
    full = flow("a", "b", "c").with_spec(parallelism=1).with_jobs(a="Running").with_held("f-b")
    assert full.plan().creates == []
    assert full.plan().held_up == dict.fromkeys("bc", "Parallelism")
    assert held("f-b", "f-c").without_template("a").plan().creates == ["f-b"]


def test_held_creates_respect_the_parallelism_of_the_flow() -> None:
    world = flow("a", "b", "c").with_spec(parallelism=2).with_jobs(a="Running")
    assert world.with_held("f-b", room=2).plan().creates == ["f-c"]


def test_a_job_with_a_refusal_of_its_own_lets_others_go_first() -> None:
    world = held().with_refusal("a", 403, "a policy", retry_in=5)
    planned = world.plan()
    assert planned.creates == ["f-b"]
    assert planned.conditions["a"].message == "a policy"


def test_an_item_that_cannot_be_built_passes_its_turn_to_the_next_job() -> None:
    items = ForEach(from_="[{'p': 'x'}]")
    invalid = step(for_each=items, patch=Patch(job_spec={"queue": "$(item.q)"}))
    world = flow("b", a=invalid).with_spec(failure_policy="Continue").stored()
    planned = world.with_held("f-b").plan()
    assert planned.creates == ["f-b"]
    assert planned.failed == {"a": "ExpressionError"}


def test_a_further_attempt_waits_for_its_turn_too() -> None:
    world = flow(a=step(retry=Retry(limit=2))).with_jobs(a="Failed").stored().later(60)
    world = world.with_missing("f-a-r1").with_held(retry_in=1)
    planned = world.plan()
    assert (planned.creates, planned.held_up) == ([], {"a": "CreateRefused"})
    world = world.stored()
    assert world.plan().nothing
    assert world.later(1).plan().creates == ["f-a-r1"]


def test_creates_of_finally_are_tried_in_turn() -> None:
    world = flow("a").with_finally("y", "z").with_jobs(a="Completed").stored()
    assert world.plan().creates == ["f-y", "f-z"]
    assert world.with_held("f-y").plan().creates == ["f-z"]
