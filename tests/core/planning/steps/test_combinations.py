"""Combinations of primitives: `any` with loops, daemons with retries, probes on later attempts."""

from typing import Any

import pytest

from jobflow.api.control import Backoff, Case, ForEach, Repeat, Retry
from jobflow.api.jobflow import DependsOn, Probe, Step, TaskStatusProbe
from support.admission.reviewed import faults, flow_of
from support.plan.loop_worlds import ends
from support.plan.plan_world import World, flow
from support.plan.steps import after, step

SOON = Backoff(duration="1s", factor=1)
DONE = Probe(task_status_list=[TaskStatusProbe(task_name="t", phase="Succeeded")])
NOT_TAKEN = {"when": step(when="false"), "switch": step(switch=[Case(when="false", template="x")])}


def any_of(condition: str | None = None, /, **targets: Step) -> World:
    """z starts at the first of x, which is a plain step, and these."""
    strategy = after(" ".join(["x", *targets]), condition=condition, strategy="any")
    return flow("x", **targets, z=strategy)


@pytest.mark.parametrize("skipped", NOT_TAKEN.values(), ids=NOT_TAKEN.keys())
def test_any_passes_over_what_is_not_taken(skipped: Step) -> None:
    world = any_of(a=skipped).settled()
    assert world.plan().skipped == {"a": "NotTaken"}
    assert world.plan().waiting == {"z": "waits for x (Pending)"}
    assert ends(world, "Completed", "f-x").plan().phases["z"] == "Pending"
    failed = ends(world.with_spec(failure_policy="Continue"), "Failed", "f-x")
    assert failed.plan().skipped == {"a": "NotTaken", "z": "UpstreamFailed"}


@pytest.mark.parametrize("each", [ForEach(count=0), ForEach(items=[])])
def test_any_starts_at_once_where_a_target_has_no_items(each: ForEach) -> None:
    assert "f-z" in any_of(a=step(for_each=each)).settled().jobs


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
    world = ends(any_of(condition, a=step(**loop)).settled(), first, "f-a-0")
    assert "f-z" not in world.jobs
    assert "f-z" in ends(world, then, "f-a-1").jobs


def service(**said: Any) -> World:
    """b needs the service a, and c comes after b."""
    return flow(a=step(daemon=True, **said), b="a", c="b").settled()


def test_a_service_that_fails_is_started_again() -> None:
    world = ends(service(retry=Retry(limit=1, backoff=SOON)), "Running", "f-a")
    assert world.plan().phases["b"] == "Pending"
    world = ends(world, "Failed", "f-a").later(2).settled()
    assert world.plan().conditions["a"].job == "f-a-r1"
    world = ends(ends(world, "Running", "f-a-r1"), "Completed", "f-b")
    world = ends(world, "Completed", "f-c")
    assert world.plan().conditions["a"].reason == "DaemonEnded"
    assert ends(world, "Aborted", "f-a-r1").flow.status.state.phase == "Succeed"


def probed(**said: Any) -> World:
    return flow(a=step(**said), b=DependsOn(targets=["a"], probe=DONE)).settled()


def test_a_probe_waits_for_the_next_attempt_of_its_target() -> None:
    world = probed(retry=Retry(limit=1, backoff=SOON))
    world = world.with_pods("a", t="Failed").later(1).ended("f-a", "Failed").settled()
    assert world.plan().held_up == {"a": "Retrying", "b": "WaitingForProbe"}
    world = world.later(2).settled()
    assert world.plan().held_up == {"b": "WaitingForProbe"}
    world = world.with_pods("a", run=1, t="Succeeded").settled()
    assert world.plan().phases["b"] == "Pending"


EACH: dict[str, Any] = {"forEach": {"count": 2}}
AGAIN: dict[str, Any] = {"repeat": {"until": "true", "max": 2}}
TRIED: dict[str, Any] = {"retry": {"limit": 1, "avoidNodes": True}, "timeout": "1h"}
PROBE = {"taskStatusList": [{"taskName": "main", "phase": "Running"}]}
SEEN = 'steps["a"].items[0].outputs.n == 1'


def b(target: str = "a", **said: Any) -> dict[str, Any]:
    depends_on = {"targets": [target], **said.pop("dependsOn", {})}
    return {"name": "b", "dependsOn": depends_on, **said}


@pytest.mark.parametrize(
    "steps",
    [
        [{"name": "a", "daemon": True, **TRIED}, b()],
        [{"name": "a", "when": "true", **EACH, **TRIED}, b(dependsOn={"condition": "Running"})],
        [{"name": "a", "switch": [{"template": "t"}], **AGAIN, **TRIED}, b()],
        [{"name": "a", "switch": [{"template": "t"}], **EACH}, b(dependsOn={"strategy": "any"})],
        [{"name": "a", **AGAIN}, b(dependsOn={"probe": PROBE})],
        [{"name": "a", **TRIED}, b(dependsOn={"probe": PROBE})],
        [{"name": "a", "daemon": True, **TRIED}, b(dependsOn={"probe": PROBE})],
        [{"name": "a", **EACH}, b(when=SEEN)],
        [{"name": "a", **EACH}, b(forEach={"from": 'steps["a"].items.map(i, i.outputs.n)'})],
    ],
    ids=lambda steps: str(steps)[:100],
)
def test_what_goes_together_is_admitted(steps: list[dict[str, Any]]) -> None:
    assert faults(flow_of(*steps)) == []


@pytest.mark.parametrize(
    ("steps", "path"),
    [
        ([{"name": "a", "daemon": True, **EACH}, b()], "spec.flows[0].daemon"),
        ([{"name": "a", "daemon": True, **AGAIN}, b()], "spec.flows[0].daemon"),
        ([{"name": "a", **EACH, **AGAIN}, b()], "spec.flows[0].repeat"),
        ([{"name": "a", **EACH}, b(dependsOn={"probe": PROBE})],
         "spec.flows[1].dependsOn.targets[0]"),
        ([{"name": "a", **EACH}, b(when='steps["a"].outputs.n == 1')], "spec.flows[1].when"),
        ([{"name": "a"}, b(when=SEEN)], "spec.flows[1].when"),
        ([{"name": "a", **EACH, "switch": [{"when": "item == 1", "template": "t"}]}, b()],
         "spec.flows[0].switch[0].when"),
        ([{"name": "a", **EACH},
          b(patch={"jobSpec": {"queue": "q-$(steps.a.items[0].outputs.n)"}})],
         "spec.flows[1].patch.jobSpec.queue"),
        ([{"name": "a", **EACH}, b(patch={"jobSpec": {"queue": "q-$(steps.a.outputs.n)"}})],
         "spec.flows[1].patch.jobSpec.queue"),
    ],
    ids=lambda it: str(it)[:100],
)  # fmt: skip
def test_what_does_not_is_refused_at_its_place(steps: list[dict[str, Any]], path: str) -> None:
    found = faults(flow_of(*steps))
    assert [fault.partition(": ")[0] for fault in found] == [path]
