"""Volcano's rules for vcjobs: the job, its tasks and volumes."""

from typing import Any

import pytest

from jobflow.core.admission.volcano.job import job_violations
from support.admission.reviewed import brief, job_faults

CONTAINERS = {"spec": {"containers": [{"name": "c", "image": "busybox"}]}}


def task(name: str | None = "a", **fields: Any) -> dict[str, Any]:
    named = {} if name is None else {"name": name}
    return {**named, "replicas": 1, "template": CONTAINERS, **fields}


def partitions(total: int, size: int, least: int | None = None, **topology: Any) -> dict[str, Any]:
    policy = {"totalPartitions": total, "partitionSize": size, "minPartitions": least}
    return {"partitionPolicy": policy | ({"networkTopology": topology} if topology else {})}


def job(*tasks: Any, **fields: Any) -> dict[str, Any]:
    return {"tasks": list(tasks) or [task()], **fields}


GOOD: dict[str, dict[str, Any]] = {
    "the smallest job": {"tasks": [{"template": CONTAINERS}]},
    "a job with every field": job(
        task("ps", replicas=2, minAvailable=2, maxRetry=3, topologyPolicy="none"),
        task(
            "worker",
            replicas=4,
            dependsOn={"name": ["ps"], "iteration": "any"},
            **partitions(2, 2, 1),
        ),
        minAvailable=6,
        minSuccess=1,
        maxRetry=0,
        ttlSecondsAfterFinished=0,
        queue="team-a.gpu",
        priorityClassName="high",
        schedulerName="volcano",
        runningEstimate="1h30m",
        plugins={"env": [], "svc": ["--publish-not-ready-addresses"], "ssh": None},
        volumes=[
            {"mountPath": "/in", "volumeClaimName": "data"},
            {"mountPath": "/out", "volumeClaim": {}},
        ],
        networkTopology={"mode": "hard", "highestTierAllowed": 2},
    ),
    "empty fields with a default": job(
        task(None), task(""), queue="", minAvailable=0, schedulerName=""
    ),
    "null fields": job(
        task(minAvailable=None, maxRetry=None, topologyPolicy=None, dependsOn=None, policies=None),
        **dict.fromkeys(["queue", "priorityClassName", "plugins", "volumes", "networkTopology"]),
    ),
    "no pods at all": job(task(replicas=0, minAvailable=0)),
    "integers as floats": job(task(replicas=2.0, minAvailable=2.0), minAvailable=2.0),
    "a field of a newer Volcano": job(task(brandNew=1), brandNew={}),
    "the mpi master by its default name": job(task("master"), task("worker"), plugins={"mpi": []}),
    "the mpi master by another name": job(task("m"), plugins={"mpi": ["--master=m"]}),
    "the mpi master after other flags": job(
        task("m"), plugins={"mpi": ["--port=0x1_6", "-worker", "w", "--master", "m"]}
    ),
    "an mpi master that Volcano names": job(task(None), plugins={"mpi": ["--master=default0"]}),
    "minPartitions decide minAvailable": job(
        task(replicas=4, minAvailable=2, **partitions(2, 2, 1, mode="soft", highestTierName="rack"))
    ),
    "a dependency on nothing": job(task(dependsOn={}), task("b", dependsOn={"name": []})),
}


@pytest.mark.parametrize("spec", GOOD.values(), ids=GOOD.keys())
def test_valid_specs_are_accepted(spec: dict[str, Any]):
    assert job_faults(spec) == []


JOBS: list[tuple[dict[str, Any], list[str]]] = [
    (job(minAvailable=-1), ["spec.minAvailable Invalid"]),
    (job(maxRetry=-1), ["spec.maxRetry Invalid"]),
    (job(ttlSecondsAfterFinished=-1), ["spec.ttlSecondsAfterFinished Invalid"]),
    (job(minSuccess=0), ["spec.minSuccess Invalid"]),
    (job(minAvailable=2), ["spec.minAvailable Invalid"]),
    ({}, ["spec.tasks Required"]),
    ({"tasks": []}, ["spec.tasks Required"]),
    (job(queue="Team A"), ['spec.queue Invalid; "team-a" would do']),
    (job(priorityClassName=""), ["spec.priorityClassName Invalid"]),
    (job(schedulerName="s" * 64), ["spec.schedulerName Too"]),
    (job(runningEstimate="3 hours"), ["spec.runningEstimate Invalid"]),
    (
        job(plugins={"SVC": [], "tensorflw": []}),
        [
            'spec.plugins Unsupported; did you mean "svc"?',
            'spec.plugins Unsupported; did you mean "tensorflow"?',
        ],
    ),
    (
        job(networkTopology={"mode": "Hard", "highestTierAllowed": -1}),
        [
            "spec.networkTopology.highestTierAllowed Invalid",
            'spec.networkTopology.mode Unsupported; did you mean "hard"?',
        ],
    ),
    (
        job(networkTopology={"highestTierAllowed": 1, "highestTierName": "t" * 254}),
        [
            "spec.networkTopology.highestTierName Forbidden",
            "spec.networkTopology.highestTierName Too",
        ],
    ),
]


@pytest.mark.parametrize(("spec", "words"), JOBS)
def test_invalid_jobs_are_refused(spec: dict[str, Any], words: list[str]):
    assert brief(job_faults(spec)) == words


@pytest.mark.parametrize(
    ("arguments", "master"),
    [
        ([], "master"),
        (["--master=boss"], "boss"),
        (["--master="], ""),
        (["--master"], "master"),
        (["--port=x", "--master=mpimaster"], "master"),
        (["word", "--master=mpimaster"], "master"),
        (["--other", "--master=mpimaster"], "master"),
        (None, "master"),
    ],
)
def test_the_mpi_plugin_needs_its_master(arguments: Any, master: str):
    """Reading stops where Go's flag package would stop."""
    guess = '; did you mean "mpimaster"?' if master == "master" else ""
    assert job_faults(job(task("mpimaster"), plugins={"mpi": arguments})) == [
        f'spec.plugins.mpi: Invalid value: "{master}": the mpi plugin\'s master task is no task of '
        f"this job{guess}; set --master=TASK"
    ]


TASKS: list[tuple[list[Any], list[str]]] = [
    ([task(replicas=-1, maxRetry=-1)],
     ["spec.tasks[0].replicas Invalid", "spec.tasks[0].maxRetry Invalid"]),
    ([task(minAvailable=-1)], ["spec.tasks[0].minAvailable Invalid"]),
    ([task(minAvailable=2)], ["spec.tasks[0].minAvailable Invalid"]),
    ([task("A_b")], ['spec.tasks[0].name Invalid; "a-b" would do']),
    ([task("a.b")], ["spec.tasks[0].name Invalid"]),
    ([task("n" * 64)], ["spec.tasks[0].name Too"]),
    ([task("a"), task("a")], ["spec.tasks[1].name Duplicate"]),
    ([task("default1"), task(None)], ["spec.tasks[1].name Duplicate"]),
    (
        [task(partitionPolicy={})],
        [
            "spec.tasks[0].partitionPolicy.totalPartitions Required",
            "spec.tasks[0].partitionPolicy.partitionSize Required",
        ],
    ),
    ([task(**partitions(0, 1))],
     ["spec.tasks[0].partitionPolicy.totalPartitions Invalid"]),
    ([task(replicas=3, **partitions(2, 2))],
     ["spec.tasks[0].replicas Invalid"]),
    (
        [
            task(
                replicas=4,
                minAvailable=3,
                **partitions(2, 2, 1, highestTierAllowed=0, highestTierName="x"),
            )
        ],
        [
            "spec.tasks[0].partitionPolicy.networkTopology.highestTierName Forbidden",
            "spec.tasks[0].minAvailable Invalid",
        ],
    ),
    ([task(replicas=4, **partitions(2, 2, 3))],
     ["spec.tasks[0].partitionPolicy.minPartitions Invalid"]),
]  # fmt: skip


@pytest.mark.parametrize(("tasks", "words"), TASKS)
def test_invalid_tasks_are_refused(tasks: list[Any], words: list[str]):
    assert brief(job_faults(job(*tasks))) == words


def after(*names: Any) -> dict[str, Any]:
    return {"dependsOn": {"name": list(names)}}


@pytest.mark.parametrize(
    ("tasks", "words"),
    [
        (
            [task("ps"), task("worker", **after("pss"))],
            [
                'spec.tasks[1].dependsOn.name[0]: Invalid value: "pss": no such task; '
                'did you mean "ps"?'
            ],
        ),
        (
            [task("a"), task("b", **after("a", 3))],
            [
                'spec.tasks[1].dependsOn.name[1]: Invalid value: "integer": must be of type '
                'string: "integer"; write "3", in quotes'
            ],
        ),
        ([task("a", **after("a"))],
         ['spec.tasks[0].dependsOn.name[0]: Invalid value: "a": a task cannot wait for itself']),
        ([task("a"), task("b", **after("a", "a"))],
         ['spec.tasks[1].dependsOn.name[1]: Duplicate value: "a": name it once']),
        (
            [task("a", **after("c")), task("b", **after("a")), task("c", **after("b"))],
            [
                'spec.tasks[0].dependsOn.name: Invalid value: "a": the tasks wait for '
                "each other, so they never start: a -> b -> c -> a",
            ],
        ),
    ],
)  # fmt: skip
def test_invalid_dependencies_between_tasks_are_refused(tasks: list[Any], words: list[str]):
    assert job_faults(job(*tasks)) == words


def test_wrong_types_cause_no_further_faults():
    spec = job(task(replicas="2", minAvailable=2), "x", minAvailable=5, volumes=[{"mountPath": 3}])
    assert [violation.path for violation in job_violations(spec, "spec")] == [
        "spec.tasks[0].replicas",
        "spec.tasks[1]",
        "spec.volumes[0].mountPath",
        "spec.volumes[0].volumeClaimName",
    ]


@pytest.mark.parametrize("spec", [3, [], "x"])
def test_a_spec_that_is_no_map_is_refused(spec: Any):
    first, second = job_violations(spec, "spec")
    assert first.path == "spec"
    assert str(second) == "spec.tasks: Required value: a job has at least one task"


def test_half_a_surrogate_pair_instead_of_a_list_is_a_violation() -> None:
    (words,) = job_faults({"tasks": "\ud800"})
    assert words.startswith('spec: Invalid value: "object": cannot be read as JSON: ')


VOLUMES: list[tuple[Any, list[str]]] = [
    ({"volumeClaimName": "c"}, ["spec.volumes[0].mountPath Required"]),
    ({"mountPath": "", "volumeClaimName": "c"}, ["spec.volumes[0].mountPath Required"]),
    ({"mountPath": "/a:b", "volumeClaimName": "c"}, ["spec.volumes[0].mountPath Invalid"]),
    ({"mountPath": "/a"}, ["spec.volumes[0].volumeClaimName Required"]),
    ({"mountPath": "/a", "volumeClaimName": "c", "volumeClaim": {}},
     ["spec.volumes[0].volumeClaim Forbidden"]),
    ({"mountPath": "/a", "volumeClaimName": "C"},
     ['spec.volumes[0].volumeClaimName Invalid; "c" would do']),
]  # fmt: skip


@pytest.mark.parametrize(("volume", "words"), VOLUMES)
def test_invalid_volumes_are_refused(volume: Any, words: list[str]):
    assert brief(job_faults(job(volumes=[volume]))) == words


def test_a_path_can_be_mounted_only_once():
    volume = {"mountPath": "/a", "volumeClaim": {}}
    assert job_faults(job(volumes=[volume, volume])) == [
        'spec.volumes[1].mountPath: Duplicate value: "/a": volumes[0] is mounted there already'
    ]
