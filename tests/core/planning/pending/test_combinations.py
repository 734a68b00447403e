"""Combinations of primitives: `any` with loops, daemons with retries, probes on later attempts."""

from typing import Any

import pytest

from jobflow.api.flow.control import Backoff, Case, ForEach, Repeat, Retry
from jobflow.api.flow.step import DependsOn, Probe, Step, TaskStatusProbe
from support.admission.reviewed import faults, flow_of
from support.plan.loop_worlds import end_jobs
from support.plan.plan_world import World, flow
from support.plan.steps import after, step

SOON = Backoff(duration="1s", factor=1)
DONE = Probe(task_status_list=[TaskStatusProbe(task_name="t", phase="Succeeded")])
NOT_TAKEN = {"when": step(when="false"), "switch": step(switch=[Case(when="false", template="x")])}


def any_of(condition: str | None = None, /, **targets: Step) -> World:
    """z starts after any of x, which is a plain step, and these targets."""
    strategy = after(" ".join(["x", *targets]), condition=condition, strategy="any")
    return flow("x", **targets, z=strategy)


@pytest.mark.parametrize("skipped", NOT_TAKEN.values(), ids=NOT_TAKEN.keys())
def test_any_ignores_a_target_that_is_not_taken(skipped: Step) -> None:
    world = any_of(a=skipped).settled()
    assert world.plan().skipped == {"a": "NotTaken"}
    assert world.plan().waiting == {"z": "waits for x (Pending)"}
    assert end_jobs(world, "Completed", "f-x").plan().phases["z"] == "Pending"
    failed = end_jobs(world.with_spec(failure_policy="Continue"), "Failed", "f-x")
    assert failed.plan().skipped == {"a": "NotTaken", "z": "UpstreamFailed"}


@pytest.mark.parametrize("loop", [ForEach(count=0), ForEach(items=[])])
def test_any_starts_at_once_if_a_target_has_no_items(loop: ForEach) -> None:
    assert "f-z" in any_of(a=step(for_each=loop)).settled().jobs


@pytest.mark.parametrize(
    ("condition", "loop", "first", "then"),
    [
        (None, {"for_each": ForEach(count=2)}, "Completed", "Completed"),
        (None, {"repeat": Repeat(until="index == 1", max=3)}, "Completed", "Completed"),
        ("Failed", {"for_each": ForEach(count=2)}, "Failed", "Completed"),
        ("Running", {"for_each": ForEach(count=2)}, "Pending", "Running"),
    ],
)
def test_any_starts_once_a_loop_meets_the_condition(
    condition: str | None, loop: dict[str, Any], first: str, then: str
) -> None:
    world = end_jobs(any_of(condition, a=step(**loop)).settled(), first, "f-a-0")
    assert "f-z" not in world.jobs
    assert "f-z" in end_jobs(world, then, "f-a-1").jobs


def with_daemon(**fields: Any) -> World:
    """b needs the daemon a, and c depends on b."""
    return flow(a=step(daemon=True, **fields), b="a", c="b").settled()


def test_a_daemon_that_fails_is_started_again() -> None:
    world = end_jobs(with_daemon(retry=Retry(limit=1, backoff=SOON)), "Running", "f-a")
    assert world.plan().phases["b"] == "Pending"
    world = end_jobs(world, "Failed", "f-a").later(2).settled()
    assert world.plan().conditions["a"].job == "f-a-r1"
    world = end_jobs(end_jobs(world, "Running", "f-a-r1"), "Completed", "f-b")
    world = end_jobs(world, "Completed", "f-c")
    assert world.plan().conditions["a"].reason == "DaemonEnded"
    assert end_jobs(world, "Aborted", "f-a-r1").flow.status.state.phase == "Succeed"


def probed(**fields: Any) -> World:
    return flow(a=step(**fields), b=DependsOn(targets=["a"], probe=DONE)).settled()


def test_a_probe_waits_for_the_next_attempt_of_its_target() -> None:
    world = probed(retry=Retry(limit=1, backoff=SOON))
    world = world.with_pods("a", t="Failed").later(1).ended("f-a", "Failed").settled()
    assert world.plan().held_up == {"a": "Retrying", "b": "WaitingForProbe"}
    world = world.later(2).settled()
    assert world.plan().held_up == {"b": "WaitingForProbe"}
    world = world.with_pods("a", run=1, t="Succeeded").settled()
    assert world.plan().phases["b"] == "Pending"


EACH: dict[str, Any] = {"name": "a", "forEach": {"count": 2}}
ITEM = 'steps["a"].items[0].outputs.n'


def queue(reference: str) -> dict[str, Any]:
    return {"patch": {"jobSpec": {"queue": f"q-$({reference})"}}}


@pytest.mark.parametrize(
    ("a", "b", "path"),
    [
        (EACH, {"when": f"{ITEM} == 1"}, None),
        (EACH, {"forEach": {"from": 'steps["a"].items.map(i, i.outputs.n)'}}, None),
        (EACH, {"when": 'steps["a"].outputs.n == 1'}, "when"),
        ({"name": "a"}, {"when": f"{ITEM} == 1"}, "when"),
        (EACH, queue("steps.a.items[0].outputs.n"), "patch.jobSpec.queue"),
        (EACH, queue("steps.a.outputs.n"), "patch.jobSpec.queue"),
    ],
)
def test_only_expressions_use_the_outputs_of_items(
    a: dict[str, Any], b: dict[str, Any], path: str | None
) -> None:
    found = faults(flow_of(a, {"name": "b", "dependsOn": {"targets": ["a"]}, **b}))
    paths = [fault.partition(": ")[0] for fault in found]
    assert paths == ([f"spec.flows[1].{path}"] if path else [])
