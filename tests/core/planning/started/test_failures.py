"""Facts of failures and numbers of attempts in expressions and references, and disruptions."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from jobflow.api.flow.control import Backoff, Patch, Retry
from jobflow.api.flow.step import Step
from jobflow.core.planning.actions import CreateJob
from support.plan.loop_worlds import (
    end_jobs,
    finish,
    for_each,
    jobs_in,
    retried,
    two_steps,
    wait,
    with_step,
)
from support.plan.plan_world import World


def queue_of(world: World, name: str) -> Any:
    """The queue of a vcjob that is created now."""
    actions = world.plan().plan.actions
    specs = {action.name: action.manifest for action in actions if isinstance(action, CreateJob)}
    return specs[name]["spec"].get("queue")


def failing(**fields: Any) -> World:
    """A flow whose step `a` has failed, and whose step `b` starts now with these fields."""
    world = with_step(two_steps(condition="Finished").settled(), "b", **fields)
    return finish(world, "f-a", "out of luck", phase="Failed").stored()


@pytest.mark.parametrize(
    ("when", "again"),
    [
        ("failure.exitCode == 1 && failure.message == 'out of luck'", True),
        ("failure.node == 'n-f-a' && failure.pod == 'f-a-t-0'", True),
        ("failure.exitCode == 3", False),
        ("failure.disruption", False),
    ],
)
def test_a_run_is_retried_only_for_the_failures_that_when_names(when: str, again: bool) -> None:
    world = finish(retried(when=when).settled(), "f-a", "out of luck", phase="Failed").settled()
    assert world.plan().conditions["a"].reason == ("Retrying" if again else "JobFailed")


@pytest.mark.parametrize(
    ("when", "phase"),
    [
        ('steps["a"].failure.exitCode == 1', "Pending"),
        ('steps["a"].failure.exitCode == 2', "Skipped"),
    ],
)
def test_a_step_decides_by_the_failure_of_another_one(when: str, phase: str) -> None:
    assert failing(when=when).settled().plan().phases["b"] == phase


def test_a_step_is_given_the_failure_of_another_one() -> None:
    patch = Patch(job_spec={"queue": "q$(steps.a.failure.exitCode)-$(steps.a.failure.reason)"})
    assert queue_of(failing(patch=patch), "f-b") == "q1-Error"


def test_a_step_that_has_not_failed_has_unknown_facts() -> None:
    patch = Patch(job_spec={"queue": "q$(steps.a.failure.exitCode)$(steps.a.failure.reason)"})
    world = with_step(two_steps().settled(), "b", patch=patch)
    assert queue_of(finish(world, "f-a", "").stored(), "f-b") == "q-1"


def test_a_step_with_items_has_the_failure_of_its_first_failed_item() -> None:
    patch = Patch(job_spec={"queue": "$(steps.a.failure.pod)"})
    world = with_step(for_each(2, condition="Finished").settled(), "b", patch=patch)
    world = finish(end_jobs(world, "Completed", "f-a-0"), "f-a-1", "", phase="Failed")
    assert queue_of(world.stored(), "f-b") == "f-a-1-t-0"


def evicted(world: World, name: str) -> World:
    """Evict the pod of a vcjob, which therefore fails."""
    world = finish(world, name, "", phase="Failed")
    uid = world.jobs[name].metadata.uid
    pods = {
        pod: msgspec.structs.replace(
            each, status=msgspec.structs.replace(each.status, reason="Evicted")
        )
        for pod, each in world.pods[uid].items()
    }
    return replace(world, pods={**world.pods, uid: pods})


def counts(world: World) -> tuple[int, int, int]:
    condition = world.plan().conditions["a"]
    return condition.attempts, condition.failures, condition.disruptions


def test_a_disruption_does_not_count_and_when_is_not_asked() -> None:
    world = evicted(retried(0, when="false").settled(), "f-a").settled()
    condition = world.plan().conditions["a"]
    assert (condition.reason, condition.failures, condition.disruptions) == ("Retrying", 0, 1)
    assert condition.message.startswith("runs again (disruption 1 of 5): the job f-a ended Failed")
    assert list(jobs_in(wait(world))) == ["f-a", "f-a-r1"]


def test_disruptions_beyond_their_number_count() -> None:
    world = evicted(retried(1, disruptions=1).settled(), "f-a").settled()
    world = evicted(wait(world), "f-a-r1").settled()
    assert counts(world) == (2, 1, 1)
    world = evicted(wait(world), "f-a-r2").settled()
    assert counts(world) == (3, 2, 1)
    assert world.plan().failed == {"a": "JobFailed"}


@pytest.mark.parametrize("retry", [None, Retry(limit=0, disruptions=0)])
def test_a_step_without_room_for_disruptions_fails(retry: Retry | None) -> None:
    world = evicted(two_steps(retry=retry).settled(), "f-a").settled()
    assert world.plan().failed == {"a": "JobFailed"}


def test_pauses_grow_with_disruptions_too() -> None:
    world = evicted(retried(backoff=Backoff(duration="10s", factor=2)).settled(), "f-a").settled()
    assert world.plan().plan.requeue_after == timedelta(seconds=10)
    world = finish(wait(world), "f-a-r1", "", phase="Failed").settled()
    assert world.plan().plan.requeue_after == timedelta(seconds=20)


@pytest.mark.parametrize("when", ["attempt == 1 && retries == 0", "attempt < 2"])
def test_an_attempt_is_numbered_with_disruptions_and_retries_without(when: str) -> None:
    world = finish(retried(when=when).settled(), "f-a", "", phase="Failed").settled()
    assert world.plan().conditions["a"].reason == "Retrying"
    world = finish(wait(world), "f-a-r1", "", phase="Failed").settled()
    assert world.plan().failed == {"a": "JobFailed"}


def test_a_patch_is_given_the_numbers_of_its_attempt() -> None:
    patch = Patch(job_spec={"queue": "q-$(attempt)-$(retries)"})
    world = retried(step={"patch": patch})
    assert queue_of(world, "f-a") == "q-1-0"
    world = evicted(world.settled(), "f-a").stored().later(1)
    assert queue_of(world, "f-a-r1") == "q-2-0"
    world = finish(world.settled(), "f-a-r1", "", phase="Failed").stored().later(1)
    assert queue_of(world, "f-a-r2") == "q-3-1"


def test_finally_is_given_the_failed_steps_in_order_of_the_spec() -> None:
    report = Step(name="z", patch=Patch(job_spec={"plugins": {"env": ["$(flow.failures)"]}}))
    world = for_each(2, parallelism=1).with_spec(finally_=[report]).settled()
    world = end_jobs(world, "Completed", "f-a-0")
    world = finish(world, "f-a-1", "out of luck", phase="Failed").stored()
    create = next(each for each in world.plan().plan.actions if isinstance(each, CreateJob))
    (text,) = create.manifest["spec"]["plugins"]["env"]
    (failure,) = msgspec.json.decode(text)
    message = failure.pop("message")
    assert message.startswith("item 1: the job f-a-1 ended Failed: pod f-a-1-t-0")
    facts = failure.pop("failure")
    assert failure == {"step": "a", "index": 1, "reason": "JobFailed"}
    assert (facts["exitCode"], facts["message"], facts["node"]) == (1, "out of luck", "n-f-a-1")


@pytest.mark.parametrize(
    ("phase", "when", "runs"),
    [
        ("Failed", "flow.failures.exists(f, f.failure.exitCode == 1 && f.index == -1)", True),
        ("Failed", "flow.failures[0].step == 'a' && size(flow.failures) == 1", True),
        ("Completed", "size(flow.failures) > 0", False),
    ],
)
def test_a_step_of_finally_decides_by_the_failures(phase: str, when: str, runs: bool) -> None:
    world = two_steps().with_spec(finally_=[Step(name="z", when=when)]).settled()
    world = finish(world, "f-a", "", phase=phase).settled()
    world = world if phase == "Failed" else end_jobs(world, "Completed", "f-b")
    assert ("f-z" in world.jobs) == runs


LARGER = Patch(job_spec={"queue": "q-$(failure.reason)-$(attempt)-$(retries)"})


def test_the_patch_of_a_retry_is_merged_last_after_the_first_failure_that_counts() -> None:
    world = retried(patch=LARGER, step={"patch": Patch(job_spec={"queue": "own"})})
    assert queue_of(world, "f-a") == "own"
    world = evicted(world.settled(), "f-a").stored().later(1)
    assert queue_of(world, "f-a-r1") == "own"
    world = finish(world.settled(), "f-a-r1", "", phase="Failed").stored().later(1)
    assert queue_of(world, "f-a-r2") == "q-Error-3-1"
    world = end_jobs(world.settled(), "Completed", "f-a-r2")
    assert world.plan().conditions["a"].failure is None


def test_the_patch_of_a_retry_keeps_the_failure_of_an_attempt_before_a_lost_one() -> None:
    world = finish(retried(patch=LARGER).settled(), "f-a", "", phase="Failed").stored().later(1)
    world = world.settled().with_deleted("a-r1").settled()
    assert world.plan().held_up == {"a": "JobLost"}
    assert queue_of(world.later(60), "f-a-r2") == "q-Error-3-1"


def test_the_patch_of_a_retry_keeps_the_failure_of_an_attempt_before_a_suspended_one() -> None:
    world = finish(retried(patch=LARGER).settled(), "f-a", "", phase="Failed").stored().later(1)
    world = world.settled().with_command("AbortJob").settled()
    world = end_jobs(world, "Aborted", "f-a-r1").with_command("ResumeJob").stored()
    assert queue_of(world, "f-a-r2") == "q-Error-3-1"
