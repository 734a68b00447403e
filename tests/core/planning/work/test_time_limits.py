"""Limits of time of an attempt: `timeout` from its vars, and `queueTimeout`. Each adds a second,
because its start is cut to a whole one."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from jobflow.api.flow.control import Patch, Retry
from jobflow.core.planning.actions import CreateJob
from support.plan.loop_worlds import end_jobs, finish, two_steps, wait
from support.plan.plan_world import World, flow
from support.plan.world_state import NOW


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def limited(limit: str, **fields: Any) -> World:
    return two_steps(timeout="$(vars.limit)", vars={"limit": limit}, **fields).settled()


@pytest.mark.parametrize(
    ("limit", "timeout", "until"),
    [
        ('"59s"', "59s", 61),
        ("59", "59s", 61),
        ("1.5", "1.5s", 4),
        ('string(1) + "h30m"', "1h30m0s", 5402),
        ("31536000", "8760h0m0s", 31536002),
    ],
)
def test_vars_give_the_timeout_of_an_attempt(limit: str, timeout: str, until: int) -> None:
    world = end_jobs(limited(limit), "Running", "f-a")
    condition = world.plan().conditions["a"]
    assert (condition.timeout, condition.deadline) == (timeout, at(until))
    world = world.later(until).settled()
    assert world.plan().conditions["a"].message == (
        f"is being aborted: it took longer than its timeout of {timeout}"
    )


def test_the_timeout_of_an_attempt_stays_with_its_job() -> None:
    """The first plan that sees the vcjob has no status of it."""
    world = end_jobs(limited("59"), "Running", "f-a").with_condition("a", timeout="", deadline=None)
    assert world.plan().conditions["a"].deadline == at(61)


@pytest.mark.parametrize(
    ("limit", "why"),
    [
        ("[2, 4]", "gives [2,4], which is neither a duration such as 2h nor a number of seconds"),
        ("true", "gives true, which is neither a duration such as 2h nor a number of seconds"),
        ("0", "gives 0, which is not longer than 0s"),
        ("-2", "gives -2, which is not a duration: write it like 2s, 500ms or 1m30s"),
        ('"0s"', 'gives "0s", which is not longer than 0s'),
        (
            '"1 year"',
            'gives "1 year", which is not a duration: write it like 2s, 500ms or 1m30s',
        ),
        ("4e9", "gives 4000000000.0, which is longer than a hundred years"),
    ],
)
def test_a_value_that_is_no_timeout_fails_the_step(limit: str, why: str) -> None:
    # admission does not know the value of a key
    planned = two_steps(timeout="$(vars.all.a)", vars={"all": f'{{"a": {limit}}}'}).plan()
    assert planned.failed == {"a": "ExpressionError"}
    assert planned.conditions["a"].message == f"timeout: $(vars.all.a) {why}"
    assert planned.creates == []


def test_a_key_of_vars_is_a_timeout_too() -> None:
    world = two_steps(timeout="$(vars.limits.a)", vars={"limits": '{"a": 59}'}).settled()
    assert end_jobs(world, "Running", "f-a").plan().conditions["a"].deadline == at(61)


def test_an_attempt_after_a_timeout_gets_more_time() -> None:
    """The first takes too long, the second is out of memory, and the third has the time again."""
    world = limited('failure.reason == "Timeout" ? 118 : 59', retry=Retry(limit=2))
    world = wait(end_jobs(end_jobs(world, "Running", "f-a").later(60).settled(), "Aborted", "f-a"))
    world = end_jobs(world, "Running", "f-a-r1")
    assert world.plan().conditions["a"].timeout == "1m58s"
    world = wait(finish(world, "f-a-r1", "", phase="Failed").settled())
    assert end_jobs(world, "Running", "f-a-r2").plan().conditions["a"].timeout == "59s"


@pytest.mark.parametrize("reason", ["Timeout", "Error"])
def test_a_timeout_is_the_reason_of_the_failure(reason: str) -> None:
    when = f'failure.reason == "{reason}" && attempt == 1'
    world = two_steps(timeout="59s", retry=Retry(limit=1, when=when)).settled()
    world = end_jobs(world, "Running", "f-a").later(60).settled()
    condition = end_jobs(world, "Aborted", "f-a").plan().conditions["a"]
    assert condition.reason == ("Retrying" if reason == "Timeout" else "Timeout")


def test_the_flow_is_not_the_reason_of_the_failure() -> None:
    world = flow("a").with_spec(timeout="59s").with_jobs(a="Running").settled().later(60).settled()
    world = world.ended("f-a", "Aborted")
    assert world.plan().failed == {"a": "Timeout"}
    assert world.plan().conditions["a"].failure is None


# ------------------------------------------------------------------------------ queueTimeout


def queued(**fields: Any) -> World:
    """A world in which the vcjob of `a` is in its queue, and may be there for 59 s."""
    world = two_steps(queue_timeout="59s", **fields).settled()
    return end_jobs(world, "Pending", "f-a")


def test_a_job_that_stays_in_its_queue_is_aborted() -> None:
    world = queued()
    assert world.plan().conditions["a"].queue_deadline == at(60)
    assert world.later(58).plan().conditions["a"].reason == ""
    assert world.later(58).plan().plan.requeue_after == timedelta(seconds=1)
    world = world.later(59)
    condition = world.plan().conditions["a"]
    assert (condition.reason, world.plan().aborts) == ("QueueTimeout", [])
    why = "it was longer in the queue than its queueTimeout of 59s"
    assert condition.message == f"is being aborted: {why}"
    world = world.settled()
    assert list(world.aborts) == ["uid-f-a"]
    world = end_jobs(world, "Aborted", "f-a")
    condition = world.plan().conditions["a"]
    assert (condition.phase, condition.reason) == ("Failed", "QueueTimeout")
    assert condition.message == f"{why}; the job f-a ended Aborted"
    assert condition.queue_deadline is None


def test_a_job_that_has_run_is_no_longer_in_its_queue() -> None:
    world = end_jobs(queued().later(30), "Running", "f-a")
    assert world.plan().conditions["a"].queue_deadline is None
    world = end_jobs(world.settled().later(10), "Pending", "f-a")  # Volcano has restarted it
    assert world.later(3600).plan().conditions["a"].reason == ""


def test_the_time_in_the_queue_does_not_count_for_the_timeout() -> None:
    world = end_jobs(queued(timeout="59s").later(58), "Running", "f-a")
    assert world.plan().conditions["a"].deadline == at(120)


def test_a_job_that_ran_and_ended_between_two_plans_was_not_too_long_in_its_queue() -> None:
    assert queued().later(3600).ended("f-a", "Completed").plan().phases["a"] == "Completed"


def test_an_attempt_after_a_queue_timeout_may_take_another_queue() -> None:
    when = 'failure.reason == "QueueTimeout" && reason == "QueueTimeout"'
    patch = Patch(job_spec={"queue": "after-$(failure.reason)-$(attempt)"})
    world = queued(retry=Retry(limit=1, when=when, patch=patch)).later(60).settled()
    condition = end_jobs(world, "Aborted", "f-a").plan().conditions["a"]
    assert (condition.reason, condition.failures) == ("Retrying", 1)
    world = end_jobs(world, "Aborted", "f-a").later(2)
    (create,) = (each for each in world.plan().plan.actions if isinstance(each, CreateJob))
    assert create.manifest["spec"]["queue"] == "after-QueueTimeout-2"
    created, world = world.now, world.settled()
    world = end_jobs(world, "Pending", "f-a-r1")
    until = world.plan().conditions["a"].queue_deadline
    assert until is not None and until - created >= timedelta(seconds=59)


def test_a_suspension_does_not_count_for_the_time_in_the_queue() -> None:
    world = queued().later(40).with_command("SuspendFlow").settled().later(100)
    assert world.plan().conditions["a"].reason == ""
    assert world.plan().plan.requeue_after is None
    world = world.with_command("ResumeJob", name="again").settled()
    assert world.plan().conditions["a"].queue_deadline == at(160)
    assert world.later(18).plan().conditions["a"].reason == ""
    assert world.later(19).plan().conditions["a"].reason == "QueueTimeout"
