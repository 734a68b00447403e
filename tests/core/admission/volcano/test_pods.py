"""Volcano's rules for the pods of a task."""

from typing import Any

import pytest

from support.admission.reviewed import brief, job_faults


def reported(pod: Any, **task: Any) -> list[str]:
    spec = {"tasks": [{"name": "w", "replicas": 1, "template": {"spec": pod}, **task}]}
    return job_faults(spec)


def containers(*names: Any, **fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": name, "image": "i", **fields} for name in names]}


AT = "spec.tasks[0].template.spec"
NO_CONTAINERS = f"{AT}.containers: Required value: a pod has at least one container"


@pytest.mark.parametrize("pod", [None, {}, {"containers": []}, {"containers": None}])
def test_a_pod_needs_containers(pod: Any):
    assert reported(pod) == [NO_CONTAINERS]


def test_a_task_needs_a_template():
    spec = {"tasks": [{"name": "w", "replicas": 1}]}
    assert job_faults(spec) == [NO_CONTAINERS]


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        (containers("a", "b"), []),
        (containers("a") | {"initContainers": [{"name": "b", "image": "i"}]}, []),
        ({"containers": [{"image": "i"}]}, [".name Required"]),
        ({"containers": [{"name": "a"}]}, [".image Required"]),
        (containers("Main_1"), [".name Invalid"]),
        (containers("a") | {"initContainers": [{"name": "a", "image": "i"}]}, [".name Duplicate"]),
        ({"containers": [3, {"name": 4, "image": "i"}]}, []),
    ],
)  # fmt: skip
def test_containers_are_checked(pod: Any, words: list[str]):
    assert brief(reported(pod)) == [f"{AT}.containers[0]{word}" for word in words]


@pytest.mark.parametrize("policy", [None, "none", 3])
def test_without_a_topology_policy_cpus_may_be_shared(policy: Any):
    assert not any("cpu" in words for words in reported(containers("a"), topologyPolicy=policy))


@pytest.mark.parametrize(
    "cpu", [1, 1.0, [], "9" * 40, *"2 +2 2.0 2000m 15000000000n 4e0 1k 3. 1Ti what 2x".split()]
)
def test_whole_cpus_are_accepted(cpu: Any):
    """The API server refuses malformed and huge quantities."""
    pod = containers("a", resources={"requests": {"cpu": cpu}})
    assert reported(pod, topologyPolicy="restricted") == []


@pytest.mark.parametrize(
    ("cpu", "quoted"),
    [
        (0, "0"),
        ("0", '"0"'),
        ("500m", '"500m"'),
        (1.5, "1.5"),
        ("1.5", '"1.5"'),
        ("1e-1", '"1e-1"'),
        ("1u", '"1u"'),
        ("1n", '"1n"'),
        ("0.1n", '"0.1n"'),
        ("+1.5", '"+1.5"'),
        (None, "null"),
    ],
)
def test_cpus_that_are_not_whole_are_refused(cpu: Any, quoted: str):
    pod = containers("a", resources={"requests": {"cpu": cpu}})
    assert reported(pod, topologyPolicy="single-numa-node") == [
        f"{AT}.containers[0].resources.requests.cpu: Invalid value: {quoted}: with topologyPolicy "
        "single-numa-node each container requests whole CPUs"
    ]


def test_limits_are_the_default_of_requests():
    limited = containers("a", resources={"limits": {"cpu": 2}})
    assert reported(limited, topologyPolicy="best-effort") == []
    other = containers("a", resources={"limits": {"cpu": 2}, "requests": {"memory": "1Gi"}})
    assert len(reported(other, topologyPolicy="best-effort")) == 1


def test_init_containers_need_whole_cpus():
    init = {"initContainers": [{"name": "i", "image": "i"}]}
    pod = containers("a", resources={"limits": {"cpu": 2}}) | init
    (words,) = reported(pod, topologyPolicy="restricted")
    assert words.startswith(f"{AT}.initContainers[0].resources.requests.cpu: ")
