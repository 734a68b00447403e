"""The log of a container that failed is its message, unless something names its outputs."""

from dataclasses import replace
from typing import Any

import pytest

from jobflow.api.flow.control import Case, Patch
from jobflow.api.flow.step import DependsOn, Step
from jobflow.core.planning.actions import CreateJob
from support.plan.plan_pods import pod_of
from support.plan.plan_world import World, world_of
from support.sandbox.containers import ended, with_containers

IMAGE = {"image": "i"}
POD = {"restartPolicy": "Never", "containers": [{"name": "c", **IMAGE}]}
LOG = "Traceback (most recent call last):\nKeyError: 'user_id'\n"


def finish(world: World, message: str, code: int = 1) -> World:
    """End the job of a, whose pod has a termination message."""
    world = world.later(1).ended("f-a", "Failed" if code else "Completed")
    job = world.jobs["f-a"]
    pod = pod_of(job, "main", 0, "Failed" if code else "Succeeded")
    pod = with_containers(pod, ended(code, name="main", message=message))
    return replace(world, pods={job.metadata.uid: {pod.metadata.name: pod}})


def policy(world: World) -> object:
    """Return the policy in the manifest of the job that is created for a."""
    planned = world.plan()
    if not planned.creates:  # a decision is stored first
        planned = world.stored().plan()
    creates = [each for each in planned.plan.actions if isinstance(each, CreateJob)]
    [made] = [each.manifest for each in creates if each.name == "f-a"]
    [container] = made["spec"]["tasks"][0]["template"]["spec"]["containers"]
    return container.get("terminationMessagePolicy")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"container": IMAGE}, "FallbackToLogsOnError"),
        ({"container": {**IMAGE, "terminationMessagePolicy": "File"}}, "File"),
        ({"container": {**IMAGE, "terminationMessagePolicy": None}}, None),
        ({"switch": [Case(container=IMAGE)]}, "FallbackToLogsOnError"),
        ({"job_spec": {"tasks": [{"template": {"spec": POD}}]}}, None),
    ],
)
def test_a_container_has_its_log_as_message_unless_it_sets_a_policy(
    fields: dict[str, Any], expected: object
) -> None:
    assert policy(world_of([Step(name="a", **fields)])) == expected


@pytest.mark.parametrize(
    "reader",
    [
        {"when": "steps['a'].outputs.n > 1"},
        {"patch": Patch(job_spec={"queue": "$(steps.a.outputs.q)"})},
    ],
)
def test_a_container_whose_outputs_are_named_keeps_its_message(reader: dict[str, Any]) -> None:
    b = Step(name="b", container=IMAGE, depends_on=DependsOn(targets=["a"]), **reader)
    world = world_of([Step(name="a", container=IMAGE), b])
    assert policy(world) is None
    failed = finish(world.settled(), LOG).plan().conditions["a"]
    assert failed.outputs == {"text": LOG.strip()}


@pytest.mark.parametrize(
    ("log", "line"),
    [
        (LOG, "KeyError: 'user_id'"),
        ('{"level": "error"}', '{"level": "error"}'),
        ("x" * 2048, "x" * 253 + "…"),
        ("", ""),
    ],
)
def test_the_last_line_of_a_log_is_the_message_and_no_output(log: str, line: str) -> None:
    world = world_of([Step(name="a", container=IMAGE)]).settled()
    failed = finish(world, log).plan().conditions["a"]
    assert failed.failure is not None
    assert failed.failure.message == line
    assert failed.message.endswith(line[-1:])
    assert failed.outputs is None


def test_a_container_that_completes_has_outputs() -> None:
    world = world_of([Step(name="a", container=IMAGE)]).settled()
    assert finish(world, '{"n": 1}', 0).plan().conditions["a"].outputs == {"n": 1}
