"""`flows[].concurrency`: when an attempt of a step gets its places, and how long it holds them."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from jobflow.api.flow.control import Backoff, ForEach, Param, Repeat, Retry, StepConcurrency
from jobflow.api.flow.status import StepPlace
from jobflow.api.flow.step import Step
from jobflow.core.spec.concurrency import Group, GroupMember
from support.plan.loop_worlds import end_jobs
from support.plan.plan_world import World, flow
from support.plan.steps import step


def placed(targets: str = "", *, limit: int = 1, slots: int | None = None, **fields: Any) -> Step:
    places = StepConcurrency(group="g", limit=limit, slots=slots)
    return step(targets, concurrency=places, **fields)


def beside(world: World, before: str = "", **holders: int) -> World:
    """Set the other flows of the group: the places of each that holds some, and those before."""
    members = [GroupMember(name, name, slots=slots) for name, slots in holders.items()]
    waiting = [GroupMember(name, name) for name in before.split()]
    return replace(world, groups={(True, "g"): Group((*members,), (*waiting,))})


def held(world: World) -> dict[str, int]:
    """Return the places by job; a step that waits is there with what it needs."""
    places = world.flow.status.places or ()
    return {each.job or f"{each.step} waits": each.slots for each in places}


ONE = flow(a=placed())


def test_a_place_is_stored_before_the_job_is_created() -> None:
    planned = ONE.plan()
    assert planned.creates == []
    assert planned.plan.urgent
    assert planned.status.places == [StepPlace(group="g", step="a", job="f-a", slots=1)]
    assert planned.held_up == {"a": "Starting"}
    assert ONE.stored().plan().creates == ["f-a"]


def test_a_step_waits_while_others_hold_all_places() -> None:
    world = beside(ONE, x=1).settled()
    assert world.plan().held_up == {"a": "Concurrency"}
    message = 'waits for a place in the concurrency group "g": at most 1 at once'
    assert world.plan().conditions["a"].message == message
    assert world.flow.status.places == [StepPlace(group="g", step="a", slots=1, limit=1)]
    assert world.plan().nothing
    assert beside(world).settled().jobs.keys() == {"f-a"}


@pytest.mark.parametrize(
    ("limit", "slots", "taken", "before", "starts"),
    [
        (3, 1, 2, "", True),
        (3, 1, 3, "", False),
        (3, 2, 1, "", True),
        (3, 2, 2, "", False),
        (3, 3, 0, "", True),
        (3, 1, 0, "w", False),
    ],
)
def test_a_step_starts_when_its_slots_fit_and_nobody_waits_before_it(
    limit: int, slots: int, taken: int, before: str, starts: bool
) -> None:
    world = beside(flow(a=placed(limit=limit, slots=slots)), before, x=taken)
    assert bool(world.settled().jobs) == starts


def test_a_place_is_held_to_the_end_of_the_job() -> None:
    world = flow(a=placed(), b="a").settled()
    assert held(world) == {"f-a": 1}
    assert held(world.ended("f-a", "Completed").settled()) == {}


def test_a_status_that_was_lost_holds_the_place_of_a_job_that_runs() -> None:
    assert held(ONE.with_jobs(a="Running").stored()) == {"f-a": 1}


def test_steps_of_one_flow_take_places_in_their_order() -> None:
    world = flow(a=placed(limit=2), b=placed(limit=2, slots=2), c=placed(limit=2)).settled()
    assert held(world) == {"f-a": 1, "b waits": 2}
    assert world.plan().held_up == {"b": "Concurrency", "c": "Concurrency"}
    world = world.ended("f-a", "Completed").settled()
    assert held(world) == {"f-b": 2, "c waits": 1}


def test_items_take_as_many_places_as_there_are() -> None:
    world = beside(flow(a=placed(limit=3, for_each=ForEach(count=4))), x=1).settled()
    assert held(world) == {"f-a-0": 1, "f-a-1": 1, "a waits": 1}
    message = world.plan().conditions["a"].message
    assert message.startswith("0 of 4 items have ended, 2 under way; the next waits for a place")
    world = end_jobs(world, "Completed", "f-a-0").settled()
    assert held(world) == {"f-a-1": 1, "f-a-2": 1, "a waits": 1}


def test_each_repeat_takes_its_place_again() -> None:
    world = (
        flow(a=placed(repeat=Repeat(until="index > 0", max=2)))
        .settled()
        .ended("f-a-0", "Completed")
    )
    assert held(beside(world, "w").settled()) == {"a waits": 1}
    assert held(world.settled()) == {"f-a-1": 1}


def test_place_and_room_are_taken_together_or_not_at_all() -> None:
    world = flow(x="", a=placed()).with_spec(parallelism=1).settled()
    assert (held(world), world.plan().held_up) == ({}, {"a": "Parallelism"})
    full = beside(flow(a=placed(), x="").with_spec(parallelism=1), y=1).settled()
    assert full.jobs.keys() == {"f-x"}


def test_the_room_of_a_job_that_has_its_place_is_kept() -> None:
    world = flow("p", b="p", a=placed()).with_spec(parallelism=2).with_jobs(p="Running").stored()
    assert held(world) == {"f-a": 1}
    world = world.with_spec(parallelism=1).with_jobs(p="Completed")
    assert (world.plan().creates, world.plan().held_up["b"]) == (["f-a"], "Parallelism")


def test_a_step_without_a_template_takes_no_place() -> None:
    world = ONE.without_template("a").settled()
    assert (held(world), world.plan().held_up) == ({}, {"a": "WaitingForTemplate"})


def test_the_pause_between_two_attempts_holds_no_place() -> None:
    retry = Retry(limit=1, backoff=Backoff(duration="5s"))
    world = flow(a=placed(retry=retry)).settled().ended("f-a", "Failed").settled()
    assert (held(world), world.plan().held_up) == ({}, {"a": "Retrying"})
    assert held(world.later(6).settled()) == {"f-a-r1": 1}


def test_a_retry_without_a_pause_does_not_overtake() -> None:
    retry = Retry(limit=1, backoff=Backoff(duration="0s"))
    world = flow(a=placed(retry=retry)).settled()
    world = beside(world, "w").ended("f-a", "Failed").settled().later(1).settled()
    assert held(world) == {"a waits": 1}


def test_a_refused_create_gives_the_place_back() -> None:
    world = ONE.stored().with_refusal("a", code=403, retry_in=30).settled()
    assert (held(world), world.plan().held_up) == ({}, {"a": "CreateRefused"})
    again = world.later(31)
    assert again.plan().status.places is not None
    assert again.stored().plan().creates == ["f-a"]


def test_a_create_without_an_answer_keeps_the_place() -> None:
    world = ONE.stored()
    assert world.apply(write=False).plan().status.places == world.flow.status.places


def test_a_suspended_flow_gives_back_what_it_has_not_used() -> None:
    world = ONE.stored().with_command("SuspendFlow").settled()
    assert (held(world), world.plan().held_up) == ({}, {"a": "Suspended"})


def test_a_suspended_flow_waits_for_no_place() -> None:
    world = beside(ONE, x=1).settled().with_command("SuspendFlow").settled()
    assert held(world) == {}


@pytest.mark.parametrize("command", ["TerminateJob", "TerminateNow"])
def test_a_cancelled_flow_frees_its_places_when_its_jobs_have_ended(command: str) -> None:
    world = ONE.settled().with_command(command).settled()
    assert held(world) == {"f-a": 1}
    assert held(world.ended("f-a", "Aborted").settled()) == {}


def test_a_retried_flow_waits_in_the_order_of_its_retry() -> None:
    failed = ONE.run(lambda name: "Failed")
    retried = failed.later(30).with_command("RestartJob").stored()
    assert (retried.flow.status.queued_time, held(retried)) == (retried.now, {})
    assert held(retried.settled()) == {"f-a-r1": 1}


def test_a_child_flow_holds_its_place_to_its_end() -> None:
    inner = {"flows": [{"name": "b", "template": "b"}]}
    world = flow(a=placed(flow=inner)).stored()
    assert held(world) == {"f-a": 1}
    assert held(world.settled()) == {"f-a": 1}


def test_the_group_may_have_references() -> None:
    places = StepConcurrency(group="g-$(params.site)")
    world = flow(a=step(concurrency=places)).with_spec(params=[Param(name="site", value="x")])
    [place] = world.plan().status.places or ()
    assert place.group == "g-x"


def test_finally_waits_for_places_too() -> None:
    world = flow("a").with_spec(
        finally_=[msgspec.structs.replace(placed(), name="z", template="a")]
    )
    world = world.settled().ended("f-a", "Completed")
    assert held(beside(world, x=1).settled()) == {"z waits": 1}


def test_the_next_plan_comes_when_a_refusal_ends() -> None:
    world = ONE.stored().with_refusal("a", code=403, retry_in=30).settled()
    assert world.plan().plan.requeue_after == timedelta(seconds=30)
