"""`spec.parallelism`: how many vcjobs of a flow run at once, in the order of `spec.flows`."""

from datetime import timedelta

import pytest

from jobflow.api.flow.control import Backoff, ForEach, Patch, Repeat, Retry
from jobflow.api.flow.step import Step
from support.plan.loop_worlds import end_jobs, for_each, run
from support.plan.plan_world import World, flow
from support.plan.steps import step


def limit(most: int | None, *names: str) -> World:
    return flow(*names).with_spec(parallelism=most)


@pytest.mark.parametrize(("most", "started"), [(1, "a"), (2, "ab"), (3, "abc"), (9, "abc")])
def test_the_first_steps_start_and_the_others_wait(most: int, started: str) -> None:
    planned = limit(most, "a", "b", "c").plan()
    assert planned.creates == [f"f-{name}" for name in started]
    waiting = [name for name, reason in planned.held_up.items() if reason == "Parallelism"]
    assert "".join([*started, *waiting]) == "abc"


def test_the_message_states_the_limit() -> None:
    condition = limit(1, "a", "b").plan().conditions["b"]
    assert condition.message == "waits for room: the flow has at most 1 job at once"
    assert limit(2, "a", "b", "c").plan().conditions["c"].message.endswith("at most 2 jobs at once")


@pytest.mark.parametrize("phase", ["", "Pending", "Running", "Restarting", "Aborting"])
def test_every_job_that_has_not_ended_counts(phase: str) -> None:
    world = limit(1, "a", "b").with_jobs(b=phase)
    assert (world.plan().creates, world.plan().held_up) == ([], {"a": "Parallelism"})


@pytest.mark.parametrize("end", ["Completed", "Aborted", "Terminated"])
def test_an_ended_job_does_not_count(end: str) -> None:
    world = limit(1, "a", "b", "c").with_spec(failure_policy="Continue").with_jobs(a=end).settled()
    assert world.plan().phases["b"] == "Pending"
    assert world.plan().held_up == {"c": "Parallelism"}


def test_a_deleted_job_makes_room_and_one_that_is_being_deleted_does_not() -> None:
    world = limit(1, "a", "b").with_jobs(a="Running")
    assert world.being_deleted().plan().held_up == {"b": "Terminating"}
    assert world.with_deleted("a").plan().creates == ["f-b"]


@pytest.mark.parametrize("room", [1, 2, 3, 4])
def test_a_loop_starts_as_many_items_as_there_is_room_for(room: int) -> None:
    world = flow("x", a=step(for_each=ForEach(count=4))).with_spec(parallelism=1 + room)
    assert world.plan().creates == ["f-x", *(f"f-a-{index}" for index in range(room))]


def test_steps_start_in_the_order_of_the_spec() -> None:
    world = flow("z", "b", a="z", y="b").with_spec(parallelism=1)
    started = []
    while not world.settled().flow.final:
        world = world.settled()
        [name] = [name for name, job in world.jobs.items() if not job.ended]
        started.append(name)
        world = world.ended(name, "Completed")
    assert started == ["f-z", "f-b", "f-a", "f-y"]


def test_parallelism_limits_finally() -> None:
    world = limit(1, "a").with_finally("y", "z").with_jobs(a="Completed").stored()
    assert (world.plan().creates, world.plan().held_up) == (
        ["f-y"],
        {"y": "Starting", "z": "Parallelism"},
    )


def test_an_earlier_step_whose_job_was_lost_goes_first() -> None:
    world = limit(1, "a", "b").with_jobs(a="Running").settled()
    world = world.without_jobs("a").with_missing("f-a").settled()
    world = world.settled()
    assert world.plan().held_up == {"a": "JobLost"}  # b uses the room now
    world = world.later(2)
    planned = world.plan()
    assert (planned.creates, planned.held_up) == ([], {"a": "Parallelism"})
    assert planned.conditions["a"].attempts == 1
    world = world.settled().ended("f-b", "Completed")
    assert world.plan().creates == ["f-a-r1"]


def test_a_step_that_waits_for_room_has_not_started() -> None:
    world = limit(1, "a", "b").with_jobs(a="Running").settled()
    assert world.ended("f-a", "Failed").plan().skipped == {"b": "Stopped"}
    assert world.cancelled().plan().skipped == {"b": "Stopped"}


def test_the_decision_of_a_step_that_waits_for_room_is_kept() -> None:
    world = flow("p", a="p", b=step("p", when="true")).with_spec(parallelism=1)
    world = world.with_jobs(p="Completed").settled()
    assert world.plan().held_up == {"b": "Parallelism"}
    decisions = world.plan().conditions["b"].decisions
    assert decisions is not None
    assert decisions.when is True
    world = world.ended("f-a", "Completed")
    assert world.plan().creates == ["f-b"]


def test_next_jobs_are_limited_by_parallelism() -> None:
    world = limit(2, "a", "b", "c", "d", "e").settled()
    assert world.flow.status.next_jobs == ["f-c", "f-d"]


def test_a_running_item_times_out_while_the_next_one_waits_for_room() -> None:
    world = for_each(2, timeout="59s").with_spec(parallelism=1).settled()
    world = end_jobs(world, "Running", "f-a-0")
    assert world.plan().creates == []
    assert world.plan().plan.requeue_after == timedelta(seconds=60)
    assert run(world.later(60).plan(), 0).reason == "Timeout"


def test_a_retry_that_waits_for_room_keeps_its_failure() -> None:
    retry = Retry(limit=3, backoff=Backoff(duration="5s", factor=1))
    world = flow(a=step(retry=retry), z=step()).with_spec(parallelism=1).settled()
    world = end_jobs(world, "Failed", "f-a")
    before = world.plan().conditions["a"]
    after = world.later(20).settled().plan().conditions["a"]
    assert (after.reason, after.job, after.attempts) == ("Parallelism", "f-a", 1)
    assert (after.failures, after.failure) == (before.failures, before.failure)


def test_a_step_with_items_that_waits_for_room_names_no_job_of_its_own() -> None:
    retry = Retry(limit=3, backoff=Backoff(duration="5s", factor=1))
    world = flow(a=step(for_each=ForEach(count=1), retry=retry), z=step()).with_spec(parallelism=1)
    world = end_jobs(world.settled(), "Failed", "f-a-0").later(20).settled()
    condition = world.plan().conditions["a"]
    assert (condition.reason, condition.job) == ("Parallelism", "")
    assert run(world.plan(), 0).job == "f-a-0"


BROKEN = Patch(job_spec={"queue": "$(params.nowhere)"})
"""A patch that admission would refuse, so the flow already has a vcjob."""


def past_admission(most: int | None, **steps: Step) -> World:
    return flow("x", **steps).with_spec(parallelism=most).with_jobs(x="Completed")


def test_a_job_that_cannot_be_built_takes_no_room_and_stops_the_flow_at_once() -> None:
    world = past_admission(1, a=step(patch=BROKEN), b=step(), c=step())
    planned = world.with_spec(failure_policy="Continue").plan()
    assert (planned.creates, planned.held_up["c"]) == (["f-b"], "Parallelism")
    assert (world.plan().creates, world.plan().skipped) == ([], {"b": "Stopped", "c": "Stopped"})


@pytest.mark.parametrize("most", [None, 1])
def test_handlers_whose_jobs_cannot_be_built_fail_one_after_another(most: int | None) -> None:
    chain = {f"h{i}": step(f"h{i - 1}", condition="Failed", patch=BROKEN) for i in range(1, 7)}
    world = past_admission(most, h0=step(patch=BROKEN), **chain)
    first = world.plan()
    assert first.phases["h0"] == "Failed"
    assert (first.plan.urgent, first.plan.requeue_after) == (True, None)
    last = world.settled()
    assert {phase for name, phase in last.plan().phases.items() if name != "x"} == {"Failed"}
    assert last.flow.final


LOOPS = [step(for_each=ForEach(count=3)), step(repeat=Repeat(until="false", max=3))]


@pytest.mark.parametrize("loop", LOOPS, ids=["forEach", "repeat"])
def test_a_loop_without_a_running_job_waits_for_room(loop: Step) -> None:
    world = flow(a=loop).with_spec(parallelism=1).settled()
    assert list(world.jobs) == ["f-a-0"]
    world = world.with_spec(flows=[Step(name="x"), *(world.flow.spec.flows or ())])
    world = world.ended("f-a-0", "Completed").settled()
    assert sorted(world.jobs) == ["f-a-0", "f-x"]
    condition = world.plan().conditions["a"]
    assert (condition.phase, condition.reason) == ("Waiting", "Parallelism")
    assert condition.message == "waits for room: the flow has at most 1 job at once"
    assert [run.phase for run in condition.runs or ()] == ["Completed"]
    assert (condition.attempts, condition.job) == (1, "")
    assert world.plan().nothing
    since = condition.last_transition_time
    assert world.later(5).plan().conditions["a"].last_transition_time == since
    world = world.later(5).ended("f-x", "Completed").settled()
    assert sorted(world.jobs) == ["f-a-0", "f-a-1", "f-x"]


def test_a_loop_with_a_running_job_is_running() -> None:
    world = flow(a=LOOPS[0]).with_spec(parallelism=2).settled()
    assert list(world.jobs) == ["f-a-0", "f-a-1"]
    assert (world.plan().phases["a"], world.plan().conditions["a"].reason) == ("Running", "")
    world = world.with_spec(flows=[Step(name="x"), *(world.flow.spec.flows or ())])
    world = world.ended("f-a-0", "Completed").settled()
    assert (world.plan().phases["a"], world.plan().conditions["a"].reason) == ("Running", "")
