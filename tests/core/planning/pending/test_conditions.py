"""`dependsOn.conditions`: targets with different conditions."""

import pytest

from jobflow.core.explain.explain import explain_step
from support.plan.loop_worlds import end_jobs
from support.plan.plan_world import World, flow
from support.plan.steps import step

MIXED = step("a b", conditions={"b": "Failed"})


def mixed(**fields: str) -> World:
    """h runs when a has completed and b has failed."""
    return flow("a", "b", h=MIXED, **fields).settled()


def test_a_step_starts_when_each_target_has_met_its_own_condition() -> None:
    world = end_jobs(mixed(), "Completed", "f-a")
    assert world.plan().waiting == {"h": "waits for b (Pending) to fail"}
    assert end_jobs(world, "Failed", "f-b").plan().phases["h"] == "Pending"


def test_a_waiting_step_names_the_condition_of_each_target() -> None:
    world = mixed()
    targets = "a (Pending) to complete and b (Pending) to fail"
    assert world.plan().waiting == {"h": f"waits for {targets}"}
    sentence = explain_step(world.flow, "h", now=world.now).sentences[0]
    assert sentence.endswith(f"for {targets}.")


@pytest.mark.parametrize(
    ("a", "b", "reason"),
    [("Completed", "Completed", "NotTaken"), ("Failed", "Completed", "UpstreamFailed")],
)
def test_a_target_that_ends_otherwise_skips_the_step(a: str, b: str, reason: str) -> None:
    world = end_jobs(end_jobs(mixed(), b, "f-b"), a, "f-a")
    assert world.plan().skipped == {"h": reason}


def test_a_step_handles_the_failure_of_the_target_that_may_fail() -> None:
    world = flow("x", "b", h=step("x b", strategy="any", conditions={"b": "Failed"}))
    world = end_jobs(world.settled(), "Failed", "f-b")
    assert world.plan().phases["h"] == "Pending"


def test_a_step_that_another_target_starts_handles_no_failure() -> None:
    world = flow("x", "b", "y", h=step("x b", strategy="any", conditions={"b": "Failed"}))
    world = end_jobs(end_jobs(world.settled(), "Failed", "f-y"), "Completed", "f-x")
    assert world.plan().skipped == {"h": "Stopped"}


def test_a_target_that_only_has_to_run_stays_met() -> None:
    world = flow("a", "b", h=step("a b", conditions={"a": "Running"})).settled()
    world = end_jobs(world, "Running", "f-a")
    assert world.plan().conditions["h"].passed_targets == ["a"]
    world = end_jobs(world.without_jobs("a").with_missing("f-a").settled(), "Completed", "f-b")
    assert world.plan().phases["h"] == "Pending"
