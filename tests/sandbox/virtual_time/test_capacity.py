"""Vcjobs get room in a capacity as Volcano's gang scheduling gives it."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from jobflow.api.flow.jobflow import JobFlow, JobTemplate
from jobflow.api.volcano.job import JobSpec
from jobflow.sandbox.jobs.objects import with_defaults
from jobflow.sandbox.virtual_time.capacity import Room, gang_requests, parse_capacity
from jobflow.sandbox.virtual_time.planned_flows import VirtualCluster
from support.sandbox.running_controller import flow, template
from support.time.stepping_loop import START

GPU = "nvidia.com/gpu"


def asking(
    name: str, cpu: int, pods: int = 1, gang: int = 0, duration: str = "10s", **fields: Any
) -> dict[str, Any]:
    """Return a JobTemplate whose pods request CPU each; `gang` of them must start together."""
    made = template(name, minAvailable=gang or pods)
    made["metadata"]["annotations"] = {"sandbox.jobflow.volcano.sh/duration": duration}
    [task] = made["spec"]["tasks"]
    task |= {"replicas": pods, **({"minAvailable": gang} if gang else {}), **fields}
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    task["template"] = {"spec": {"containers": [container]}}
    return made


def run(capacity: Mapping[str, float], *templates: dict[str, Any]) -> VirtualCluster:
    """Run a flow with a step for each template, and nothing to wait for."""
    room = Room(capacity)
    cluster = VirtualCluster(START, room_of=lambda queue: room)
    steps = {made["metadata"]["name"]: "" for made in templates}
    cluster.add(
        msgspec.convert(flow("f", steps), JobFlow),
        [msgspec.convert(made, JobTemplate) for made in templates],
    )
    cluster.run()
    return cluster


def spans(cluster: VirtualCluster) -> dict[str, tuple[float | None, float | None]]:
    """Return the seconds of start and end by step."""
    return {
        each.step: (
            each.start and (each.start - START).total_seconds(),
            each.end and (each.end - START).total_seconds(),
        )
        for each in cluster.jobs
    }


def test_jobs_wait_for_room_in_the_order_of_creation() -> None:
    found = spans(run({"cpu": 4}, asking("a", 3), asking("b", 3), asking("c", 3)))
    assert found == {"a": (0, 10), "b": (10, 20), "c": (20, 30)}


def test_a_job_that_fits_overtakes_one_that_does_not() -> None:
    found = spans(run({"cpu": 4}, asking("a", 3), asking("b", 3), asking("c", 1)))
    assert found == {"a": (0, 10), "b": (10, 20), "c": (0, 10)}


def test_the_pods_of_a_gang_start_together() -> None:
    found = spans(run({"cpu": 4}, asking("a", 2), asking("b", 1, pods=3)))
    assert found == {"a": (0, 10), "b": (10, 20)}


def test_pods_beyond_the_gang_start_one_by_one() -> None:
    found = spans(run({"cpu": 2}, asking("a", 1, pods=5, gang=1)))
    assert found == {"a": (0, 30)}


def test_a_pod_that_has_ended_frees_its_room_before_its_job() -> None:
    short = asking("a", 1, pods=2, duration="10s")
    phases = '{"main": [["Running", 0], ["Succeeded", 4]], "long": [["Running", 0]]}'
    short["metadata"]["annotations"]["sandbox.jobflow.volcano.sh/task-phases"] = phases
    [task] = short["spec"]["tasks"]
    short["spec"] |= {"tasks": [task, {**task, "name": "long", "replicas": 1}], "minAvailable": 3}
    found = spans(run({"cpu": 3}, short, asking("b", 2)))
    assert found == {"a": (0, 10), "b": (4, 14)}


def test_resources_that_the_capacity_does_not_name_are_unlimited() -> None:
    found = spans(run({GPU: 1}, asking("a", 100), asking("b", 100)))
    assert found == {"a": (0, 10), "b": (0, 10)}


def test_a_job_that_waits_too_long_for_room_is_retried_in_another_queue() -> None:
    retry = {
        "limit": 1,
        "when": 'failure.reason == "QueueTimeout"',
        "patch": {"jobSpec": {"queue": "$(vars.queue)"}},
    }
    queue = 'failure.reason == "QueueTimeout" ? "on-demand" : "default"'
    rooms = {"default": Room({"cpu": 0}), "on-demand": Room({"cpu": 1})}
    cluster = VirtualCluster(START, room_of=rooms.__getitem__)
    made = flow("f", {"a": ""})
    made["spec"]["flows"][0] |= {"queueTimeout": "5s", "vars": {"queue": queue}, "retry": retry}
    cluster.add(msgspec.convert(made, JobFlow), [msgspec.convert(asking("a", 1), JobTemplate)])
    cluster.run()
    assert [job.metadata.name for job in cluster.jobs] == ["f-a", "f-a-r1"]
    assert cluster.flows[0].status.state.phase == "Succeed"


def test_a_job_that_never_fits_is_named() -> None:
    cluster = run({"cpu": 4}, asking("a", 1), asking("b", 1, pods=5))
    [(large, resources)] = cluster.too_large()
    assert (large.step, resources, cluster.flows[0].final) == ("b", ["cpu"], False)


def test_a_gang_takes_first_what_its_tasks_require() -> None:
    task = asking("a", 1, pods=4)["spec"]["tasks"][0]
    other = {**asking("a", 10, pods=4)["spec"]["tasks"][0], "name": "other", "minAvailable": 1}
    spec = msgspec.convert(
        {"minAvailable": 3, "tasks": [{**task, "minAvailable": 0}, other]}, JobSpec
    )
    assert gang_requests(with_defaults(spec)) == {"cpu": 12}


def test_an_init_container_counts_if_it_asks_for_more() -> None:
    made = asking("a", 2)
    limits = {"limits": {"cpu": "5"}}
    pod = made["spec"]["tasks"][0]["template"]["spec"]
    pod["initContainers"] = [{"name": "first", "image": "i", "resources": limits}]
    assert gang_requests(with_defaults(msgspec.convert(made["spec"], JobSpec))) == {"cpu": 5}


def test_a_capacity_is_a_list_of_quantities() -> None:
    found = parse_capacity("cpu=1500m, memory=2Gi,nvidia.com/gpu=8")
    assert found == {"cpu": 1.5, "memory": 2 * 2**30, GPU: 8}


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("cpu", ['"cpu" is not a resource']),
        ("cpu=", ['"cpu=" is not a resource']),
        ("cpu=-1", ['"cpu=-1" is not a resource']),
        ("", ['"" is not a resource']),
        ("cpu=1,cpu=2", ["cpu is given twice"]),
        ("cpu=x,memory", ['"cpu=x" is not', '"memory" is not']),
    ],
)
def test_faults_of_a_capacity_are_named(text: str, faults: list[str]) -> None:
    with pytest.raises(ValueError, match="is") as caught:
        parse_capacity(text)
    lines = str(caught.value).splitlines()
    assert len(lines) == len(faults)
    assert all(line.startswith(fault) for line, fault in zip(lines, faults, strict=True))
