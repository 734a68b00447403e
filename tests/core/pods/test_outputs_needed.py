"""Outputs that an expression or a reference reads are known before the step's end is recorded."""

from dataclasses import replace
from datetime import timedelta

import pytest

from jobflow.api.flow.control import Patch
from jobflow.api.flow.step import DependsOn, Step
from jobflow.core.planning.observed.view import PodsRead
from support.plan.loop_worlds import finish, repeated, two_steps
from support.plan.plan_world import World, world_of

NAMED = {"when": "steps['a'].outputs.n > 1"}
PATCHED = {"patch": Patch(job_spec={"queue": "$(steps.a.outputs.q)"})}


def needing(**fields: object) -> World:
    """Return a world in which b reads the outputs of a, which runs."""
    b = Step(name="b", depends_on=DependsOn(targets=["a"]), **fields)  # type: ignore[arg-type]
    return world_of([Step(name="a"), b]).settled()


@pytest.mark.parametrize("fields", [NAMED, PATCHED], ids=["in an expression", "in a patch"])
def test_outputs_are_read_if_their_pod_was_not_watched(fields: dict[str, object]) -> None:
    world = finish(needing(**fields), "f-a", '{"n": 2, "q": "x"}', watched=False)
    planned = world.plan()
    assert planned.reads == ["f-a"]
    assert planned.phases["a"] == "Pending"
    world = world.settled()
    assert world.plan().conditions["a"].outputs == {"n": 2, "q": "x"}
    assert world.plan().conditions["a"].reason == ""
    assert "f-b" in world.jobs


def test_unused_outputs_are_not_read() -> None:
    world = finish(two_steps().settled(), "f-a", '{"n": 2}', watched=False)
    assert world.plan().reads == []
    assert world.plan().phases["a"] == "Completed"
    assert world.plan().conditions["a"].reason == ""


def test_outputs_of_a_deleted_pod_are_missing() -> None:
    world = needing(**NAMED).later(1).ended("f-a", "Completed")
    assert world.plan().reads == ["f-a"]
    condition = world.settled().plan().conditions["a"]
    assert (condition.phase, condition.reason) == ("Completed", "OutputsMissing")
    assert condition.message == "its outputs could not be read: its pod is gone"
    assert condition.outputs is None


def test_outputs_of_unreadable_pods_are_missing() -> None:
    world = needing(**NAMED).later(1).ended("f-a", "Completed")
    world = replace(world, read={"uid-f-a": PodsRead(trouble="403 Forbidden")})
    condition = world.plan().conditions["a"]
    assert (condition.phase, condition.reason) == ("Completed", "OutputsMissing")
    assert condition.message.endswith("403 Forbidden")


def unread(world: World, *, retry_in: float = 2.0) -> World:
    """Make the pods of a unreadable for some time."""
    answer = PodsRead(trouble="503 busy", retry_at=world.now + timedelta(seconds=retry_in))
    return replace(world, read={"uid-f-a": answer})


def test_a_step_waits_for_temporarily_unreadable_pods() -> None:
    world = unread(needing(**NAMED).later(1).ended("f-a", "Completed"))
    planned = world.plan()
    condition = planned.conditions["a"]
    assert (condition.phase, condition.reason) == ("Pending", "PodsUnread")
    assert condition.message == "has ended, and its pods cannot be read yet: 503 busy"
    assert (planned.reads, planned.plan.requeue_after) == ([], timedelta(seconds=2))
    world = world.stored()
    assert world.plan().nothing
    assert world.later(2).plan().reads == ["f-a"]
    assert world.later(2).plan().status == world.flow.status


def test_outputs_that_are_readable_later_are_used() -> None:
    world = finish(needing(**NAMED), "f-a", '{"n": 2}', watched=False)
    world = unread(world).stored().later(299).settled()
    assert world.plan().conditions["a"].outputs == {"n": 2}
    assert "f-b" in world.jobs


def test_outputs_are_missing_after_five_minutes_despite_restarts() -> None:
    world = unread(needing(**NAMED).later(1).ended("f-a", "Completed")).stored()
    for _ in range(3):
        world = unread(world.later(80)).stored()
        assert world.plan().conditions["a"].reason == "PodsUnread"
        world = replace(world, read={})
        assert world.plan().reads == ["f-a"]
    planned = unread(world.later(60)).plan()
    assert (planned.phases["a"], planned.conditions["a"].reason) == ("Completed", "OutputsMissing")
    assert planned.conditions["a"].message == "its outputs could not be read: 503 busy"


def test_a_late_process_also_waits_five_minutes() -> None:
    world = needing(**NAMED).later(1).ended("f-a", "Completed").later(3600)
    assert unread(world).plan().conditions["a"].reason == "PodsUnread"


def test_the_last_wait_ends_with_the_five_minutes() -> None:
    world = unread(needing(**NAMED).later(1).ended("f-a", "Completed")).stored().later(290)
    assert unread(world, retry_in=30).plan().plan.requeue_after == timedelta(seconds=10)


def test_a_cancelled_flow_waits_for_no_pods() -> None:
    world = unread(needing(**NAMED).later(1).ended("f-a", "Completed")).stored()
    assert world.with_command().plan().phases["a"] == "Completed"


def test_a_failure_waits_for_unreadable_pods() -> None:
    world = replace(needing(**NAMED).later(1), failed_pods_read=False).ended("f-a", "Failed")
    assert unread(world).plan().conditions["a"].reason == "PodsUnread"
    assert unread(unread(world).stored().later(300)).plan().failed == {"a": "JobFailed"}


def test_outputs_of_an_empty_message_are_not_missing() -> None:
    world = finish(needing(**NAMED), "f-a", "", watched=False)
    condition = world.settled().plan().conditions["a"]
    assert (condition.phase, condition.reason, condition.outputs) == ("Completed", "", None)


def test_the_event_of_missing_outputs_is_a_warning() -> None:
    world = needing(**NAMED).later(1).ended("f-a", "Completed").apply()
    events = [(event.type, event.reason) for event in world.plan().plan.events]
    assert ("Warning", "OutputsMissing") in events


def test_outputs_that_until_uses_are_read() -> None:
    world = finish(repeated().settled(), "f-a-0", '{"done": true}', watched=False)
    assert world.plan().reads == ["f-a-0"]
    assert world.settled().plan().phases["a"] == "Completed"
