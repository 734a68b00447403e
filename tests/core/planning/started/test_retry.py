"""`retry` of a failed run, and its backoff."""

from dataclasses import replace
from datetime import timedelta

import pytest

from jobflow.api import labels
from jobflow.api.flow.control import Backoff, Retry
from jobflow.core.planning.actions import CreateJob
from jobflow.core.planning.started.retry import backoff
from support.plan.loop_worlds import (
    end_jobs,
    finish,
    for_each,
    jobs_in,
    retried,
    run,
    runs,
    wait,
    with_step,
)
from support.plan.plan_world import World


@pytest.mark.parametrize(
    ("spec", "waits"),
    [
        (None, [1, 2, 4, 8]),
        (Backoff(duration="3s"), [3, 6, 12, 24]),
        (Backoff(duration="1s", factor=3.0, max="10s"), [1, 3, 9, 10]),
        (Backoff(duration="500ms", factor=1.0), [0.5, 0.5, 0.5, 0.5]),
        (Backoff(duration="0s"), [0, 0, 0, 0]),
        (Backoff(duration="soon", factor=0.1, max="later"), [1, 2, 4, 8]),
    ],
    ids=["default", "longer", "to a limit", "even", "none", "past admission"],
)
def test_the_backoff_depends_on_the_failures(spec: Backoff | None, waits: list[float]) -> None:
    assert [backoff(spec or Backoff(), n).total_seconds() for n in (1, 2, 3, 4)] == waits


def test_no_backoff_is_longer_than_its_limit() -> None:
    assert backoff(Backoff(factor=100.0), 10_000) == timedelta(minutes=5)


@pytest.mark.parametrize("phase", ["Failed", "Terminated", "Aborted"])
def test_a_failed_attempt_is_followed_by_another_one(phase: str) -> None:
    world = end_jobs(retried().settled(), phase, "f-a")
    condition = world.plan().conditions["a"]
    assert (condition.phase, condition.reason, condition.failures) == ("Waiting", "Retrying", 1)
    assert condition.message.startswith(f"runs again (1 of 2): the job f-a ended {phase}")
    assert world.plan().plan.requeue_after == timedelta(seconds=1)
    assert world.plan().phase == "Running"
    assert "b" not in world.plan().skipped
    world = wait(world)
    assert list(jobs_in(world)) == ["f-a", "f-a-r1"]
    meta = world.jobs["f-a-r1"].metadata
    assert (meta.labels or {})[labels.ATTEMPT] == "2"
    assert world.plan().conditions["a"].attempts == 2


def test_a_step_fails_after_all_attempts_have_failed() -> None:
    world = end_jobs(retried(2).settled(), "Failed", "f-a")
    world = end_jobs(wait(world), "Failed", "f-a-r1")
    world = end_jobs(wait(world), "Failed", "f-a-r2")
    condition = world.plan().conditions["a"]
    assert (condition.phase, condition.reason) == ("Failed", "JobFailed")
    assert (condition.attempts, condition.failures) == (3, 3)
    assert list(jobs_in(world)) == ["f-a", "f-a-r1", "f-a-r2"]
    assert world.flow.status.failed_jobs == ["f-a", "f-a-r1", "f-a-r2"]
    assert world.plan().skipped == {"b": "UpstreamFailed"}


def test_a_step_completes_as_soon_as_an_attempt_does() -> None:
    world = end_jobs(wait(end_jobs(retried().settled(), "Failed", "f-a")), "Completed", "f-a-r1")
    condition = world.plan().conditions["a"]
    assert (condition.phase, condition.reason, condition.job) == ("Completed", "", "f-a-r1")
    assert condition.failure is None
    assert "f-b" in jobs_in(world)
    assert world.run().flow.status.state.phase == "Succeed"


def test_the_next_attempt_starts_after_the_end_of_the_last_is_stored() -> None:
    world = retried(backoff=Backoff(duration="0s")).settled().later(1).ended("f-a", "Failed")
    planned = world.plan()
    assert planned.creates == []
    assert planned.plan.urgent
    planned = world.stored().plan()
    assert (planned.creates, planned.must_not_exist) == (["f-a-r1"], [""])


def test_an_existing_next_attempt_is_adopted() -> None:
    """Another process created it, but could not write the status."""
    world = end_jobs(retried().settled(), "Failed", "f-a")
    created = wait(world)
    world = replace(created, flow=world.flow)
    assert world.plan().creates == []
    assert world.plan().conditions["a"].job == "f-a-r1"


def test_a_lost_attempt_does_not_count() -> None:
    world = retried(1).settled().without_jobs("a").settled()
    assert world.plan().held_up == {"a": "JobLost"}
    world = end_jobs(wait(world), "Failed", "f-a-r1")
    condition = world.plan().conditions["a"]
    assert (condition.reason, condition.failures, condition.attempts) == ("Retrying", 1, 2)
    assert list(jobs_in(wait(world))) == ["f-a-r1", "f-a-r2"]


def test_an_attempt_whose_job_is_deleted_after_its_stored_end_is_not_lost() -> None:
    world = end_jobs(retried().settled(), "Failed", "f-a").without_jobs("a").later(1)
    assert world.plan().held_up == {"a": "Retrying"}
    assert list(jobs_in(world.settled())) == ["f-a-r1"]


def test_a_retry_waits_for_an_ended_job_that_a_user_resumes() -> None:
    world = end_jobs(retried().settled(), "Aborted", "f-a").ended("f-a", "Running").later(5)
    assert world.plan().creates == []
    assert world.plan().phases["a"] == "Running"
    world = end_jobs(world.settled(), "Completed", "f-a")
    assert world.plan().phases["a"] == "Completed"


@pytest.mark.parametrize("limit", [0, None])
def test_a_step_without_a_limit_is_not_retried(limit: int | None) -> None:
    world = end_jobs(with_step(retried().settled(), "a", retry=Retry(limit=limit)), "Failed", "f-a")
    assert world.plan().failed == {"a": "JobFailed"}


@pytest.mark.parametrize(
    ("when", "message", "again"),
    [
        ("outputs.again", '{"again": true}', True),
        ("outputs.again", '{"again": false}', False),
        ("reason == 'JobFailed' && phase == 'Failed'", "", True),
        ("reason == 'Timeout'", "", False),
    ],
)
def test_a_failed_run_is_retried_only_if_when_holds(when: str, message: str, again: bool) -> None:
    world = finish(retried(when=when).settled(), "f-a", message, phase="Failed").settled()
    reason = "Retrying" if again else "JobFailed"
    assert world.plan().conditions["a"].reason == reason
    assert world.plan().conditions["a"].failures == 1


def test_an_expression_without_a_value_fails_the_step() -> None:
    world = finish(retried(when="outputs.again").settled(), "f-a", "x", phase="Failed").settled()
    condition = world.plan().conditions["a"]
    assert (condition.phase, condition.reason) == ("Failed", "ExpressionError")
    assert condition.message.startswith("retry.when `outputs.again`: ")
    assert "; the job f-a ended Failed" in condition.message  # the end that the expression is about
    assert condition.failure is not None


def test_outputs_that_the_expression_uses_are_read_first() -> None:
    world = retried(when="outputs.again").settled()
    message = '{"again": true}'
    world = finish(world, "f-a", message, phase="Failed", watched=False)
    assert world.plan().reads == ["f-a"]
    assert world.settled().plan().conditions["a"].reason == "Retrying"


def affinity(world: World, name: str) -> object:
    actions = world.plan().plan.actions
    specs = {action.name: action.manifest for action in actions if isinstance(action, CreateJob)}
    pod = specs[name]["spec"]["tasks"][0]["template"]["spec"]
    return pod.get("affinity", {}).get("nodeAffinity")


def away_from(*nodes: str) -> object:
    term = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": list(nodes)}
    required = {"nodeSelectorTerms": [{"matchExpressions": [term]}]}
    return {"requiredDuringSchedulingIgnoredDuringExecution": required}


def test_later_attempts_avoid_nodes_on_which_pods_failed() -> None:
    world = finish(retried(avoid_nodes=True).settled(), "f-a", "", phase="Failed").settled()
    assert world.plan().conditions["a"].avoid_nodes == ["n-f-a"]
    world = world.later(1)
    assert affinity(world, "f-a-r1") == away_from("n-f-a")
    world = finish(world.settled(), "f-a-r1", "", phase="Failed").settled().later(1)
    assert affinity(world, "f-a-r2") == away_from("n-f-a", "n-f-a-r1")
    world = finish(world.settled(), "f-a-r2", "", phase="Failed").settled()
    assert world.plan().failed == {"a": "JobFailed"}
    assert world.plan().conditions["a"].avoid_nodes is None


def test_without_avoid_nodes_the_next_attempt_may_use_the_node() -> None:
    world = finish(retried().settled(), "f-a", "", phase="Failed").settled()
    assert world.plan().conditions["a"].avoid_nodes is None
    assert affinity(world.later(1), "f-a-r1") is None


def test_every_item_is_retried_separately() -> None:
    world = end_jobs(for_each(2, retry=Retry(limit=1)).settled(), "Failed", "f-a-0")
    assert runs(world.plan()) == {0: "Waiting Retrying", 1: "Pending"}
    assert run(world.plan(), 0).failures == 1
    assert world.plan().phases["a"] == "Running"
    world = end_jobs(wait(world), "Completed", "f-a-1", "f-a-0-r1")
    assert world.plan().phases["a"] == "Completed"
    assert world.plan().conditions["a"].attempts == 3


def test_a_step_waits_if_all_its_items_wait_for_a_retry() -> None:
    world = end_jobs(for_each(2, retry=Retry(limit=1)).settled(), "Failed", "f-a-0", "f-a-1")
    condition = world.plan().conditions["a"]
    assert (condition.phase, condition.reason) == ("Waiting", "Retrying")
    assert condition.message.startswith("item 0: runs again (1 of 1): the job f-a-0 ended Failed")


def test_an_item_between_two_attempts_takes_up_room() -> None:
    world = end_jobs(for_each(3, parallelism=1, retry=Retry(limit=1)).settled(), "Failed", "f-a-0")
    assert list(jobs_in(world)) == ["f-a-0"]
    world = end_jobs(wait(world), "Completed", "f-a-0-r1")
    assert list(jobs_in(world)) == ["f-a-0", "f-a-0-r1", "f-a-1"]
