"""Faults of patched specs, and their locations in the patch."""

from typing import Any

import pytest

from jobflow.core.admission.validate import Known
from support.admission.reviewed import faults, flow_of, knowing, template_of

TRAIN = template_of("train", "ps", "worker", replicas=2, minAvailable=4, queue="default")


def patched(job_spec: Any, known: Known, field: str = "jobSpec") -> list[str]:
    step = {"name": "b", "template": "train", "patch": {field: job_spec}}
    return faults(flow_of({"name": "a", "template": "train"}, step), known)


@pytest.mark.parametrize(
    "patch",
    [
        {},
        None,
        {"queue": "gpu", "priorityClassName": "high"},
        {"minAvailable": 7, "tasks": [{"name": "worker", "replicas": 5}]},
        {"minAvailable": 5, "tasks": [{"name": "extra", "replicas": 1, "template": {
            "spec": {"containers": [{"name": "main", "image": "busybox"}]}}}]},
        {"tasks": [{"name": "ps", "$patch": "delete"}], "minAvailable": None},
        {"policies": [{"event": "TaskCompleted", "action": "CompleteJob"}]},
    ],
)  # fmt: skip
def test_a_patch_with_a_valid_result_is_admitted(patch):
    assert patched(patch, knowing(TRAIN)) == []
    assert patched(patch, Known()) == []


AT = "spec.flows[1].patch.jobSpec"


@pytest.mark.parametrize(
    ("patch", "places"),
    [
        # minAvailable of the template exceeds the pods that remain after the patch.
        ({"tasks": [{"name": "worker", "replicas": 1}]}, [AT]),
        ({"minAvailable": 5}, [f"{AT}.minAvailable"]),
        # The second task of the template is the first of the patch.
        ({"tasks": [{"name": "worker", "minAvailable": 3}]}, [f"{AT}.tasks[0].minAvailable"]),
        (
            {"tasks": [{"name": "worker", "replicas": 3}, {"name": "ps", "replicas": -1}]},
            [f"{AT}.tasks[1].replicas", AT],
        ),
        # A directive may remove the spec of the template.
        ({"$patch": "replace", "queue": "q"}, [AT]),
        ({"$patch": "delete", "minAvailable": 1}, [AT]),
        # A task that the template does not have is incomplete.
        ({"tasks": [{"name": "wroker", "replicas": 1}]}, [f"{AT}.tasks[0]"]),
        ({"policies": [{"event": "*", "action": "Stop"}]}, [f"{AT}.policies[0].action"]),
        ({"tasks": None, "minAvailable": 0}, [f"{AT}.tasks"]),
        ({"queue": 7}, [f"{AT}.queue"]),
        (
            {"tasks": [{"name": "ps", "template": {"spec": {"containers": [
                {"name": "main", "image": ""}]}}}]},
            [f"{AT}.tasks[0].template.spec.containers[0].image"],
        ),
    ],
)  # fmt: skip
def test_a_fault_of_the_merged_spec_is_located_in_the_patch(patch, places):
    reported = patched(patch, knowing(TRAIN))
    assert sorted({line.partition(": ")[0] for line in reported}) == sorted(places)


def test_a_fault_outside_the_patch_names_its_place_in_the_merged_spec():
    (reported,) = patched({"tasks": [{"name": "worker", "replicas": 1}]}, knowing(TRAIN))
    assert reported == (
        "spec.flows[1].patch.jobSpec: Invalid value: 4: must not be greater than the replicas of "
        "all tasks together (3) (at minAvailable in the merged spec)"
    )


def test_faults_of_the_template_are_not_reported_for_the_patch():
    broken = template_of("train", "main", minAvailable=9)
    assert patched({"queue": "gpu"}, knowing(broken)) == []


@pytest.mark.parametrize(
    ("patch", "places"),
    [
        ({"tasks": [{"name": "worker", "replicas": 1}]}, []),
        ({"minAvailable": 1_000}, []),
        ({"plugins": {"mpi": ["--master=boss"]}}, []),
        ({"tasks": [{"name": "a", "dependsOn": {"name": ["b"]}}]}, []),
        ({"minAvailable": -1}, ["minAvailable"]),
        ({"minAvailable": "two"}, ["minAvailable"]),
        ({"queue": "Gold"}, ["queue"]),
        ({"plugins": {"gpu": []}}, ["plugins"]),
        ({"tasks": [{"name": "b", "replicas": -1}]}, ["tasks[0].replicas"]),
        ({"tasks": [{"name": "A"}]}, ["tasks[0].name"]),
        ({"tasks": [{"name": "x"}, {"name": "x", "maxRetry": -1}]}, ["tasks[1].maxRetry"]),
        ({"policies": [{"event": "*", "exitCode": 3, "action": "AbortJob"}]}, ["policies[0]"]),
        ({"policies": [{"event": "*", "action": "CompletedJob"}]}, ["policies[0].action"]),
        ({"volumes": [{"volumeClaimName": "data"}]}, ["volumes[0].mountPath"]),
        ({"tasks": "all"}, ["tasks"]),
    ],
)
def test_a_patch_is_checked_without_its_template(patch, places):
    reported = patched(patch, Known())
    found = [line.partition(": ")[0] for line in reported]
    assert len(found) == len(places)
    assert all(one.startswith(f"{AT}.{at}") for one, at in zip(found, places, strict=True))
    assert reported == patched(patch, knowing(template_of("other")))
    other = [line.replace("jobSpec", "spec") for line in reported]
    assert patched(patch, Known(), "spec") == other


def test_each_element_without_a_key_has_its_own_place():
    known = knowing(template_of("train", "ps", minAvailable=1))
    found = patched({"tasks": [{"name": "ps"}, 2, {"name": "ps"}, None, [3]]}, known)
    at = [line.split(": ")[0] for line in found if "must be of type object" in line]
    assert at == [f"{AT}.tasks[1]", f"{AT}.tasks[3]", f"{AT}.tasks[4]"]


def test_a_deleted_element_does_not_shift_other_places():
    patch = {"tasks": [{"name": "ps", "$patch": "delete"}, {"name": "worker", "replicas": -1}]}
    found = patched(patch, knowing(template_of("train", "ps", "worker", minAvailable=0)))
    assert f"{AT}.tasks[1].replicas" in [line.split(": ")[0] for line in found]
