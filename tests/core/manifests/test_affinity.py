"""Node affinity that keeps pods off nodes, merged with any affinity of the template."""

import copy
from typing import Any

import pytest

from jobflow.core.manifests.job import avoid_nodes

AVOID = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["n1", "n2"]}
GPU = {"key": "gpu", "operator": "In", "values": ["a100"]}
ZONE = {"key": "zone", "operator": "In", "values": ["z"]}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def avoiding(pod: dict[str, Any]) -> dict[str, Any]:
    spec = {"tasks": [{"template": {"spec": copy.deepcopy(pod)}}]}
    avoid_nodes(spec, ["n1", "n2"])
    pod_spec: dict[str, Any] = spec["tasks"][0]["template"]["spec"]
    return pod_spec


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


@pytest.mark.parametrize(
    ("pod", "terms"),
    [
        ({}, [{"matchExpressions": [AVOID]}]),
        ({"affinity": None}, [{"matchExpressions": [AVOID]}]),
        (required(), [{"matchExpressions": [AVOID]}]),
        (required({"matchExpressions": [GPU]}), [{"matchExpressions": [GPU, AVOID]}]),
        (
            required({"matchExpressions": [GPU]}, {"matchExpressions": [ZONE]}),
            [{"matchExpressions": [GPU, AVOID]}, {"matchExpressions": [ZONE, AVOID]}],
        ),
        (required({"matchFields": [GPU]}), [{"matchFields": [GPU], "matchExpressions": [AVOID]}]),
        (required({}), [{}]),
    ],
    ids=["none", "null", "no terms", "one", "each of several", "fields", "that matches nothing"],
)
def test_every_term_avoids_the_nodes(pod: dict[str, Any], terms: list[dict[str, Any]]) -> None:
    assert avoiding(pod) == required(*terms)


def test_other_affinity_is_kept() -> None:
    pods = {"podAffinity": {"x": 1}, "nodeAffinity": {"preferred": [1]}}
    affinity = avoiding({"affinity": pods})["affinity"]
    assert (affinity["podAffinity"], affinity["nodeAffinity"]["preferred"]) == ({"x": 1}, [1])


def with_affinity(affinity: Any) -> dict[str, Any]:
    return {"tasks": [{"template": {"spec": {"affinity": affinity}}}]}


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"tasks": None},
        {"tasks": "x"},
        {"tasks": [3, {}, {"template": 1}, {"template": {"spec": []}}]},
        with_affinity(3),
        with_affinity({"nodeAffinity": []}),
        with_affinity({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": {}}}}),
    ],
)
def test_malformed_specs_are_not_changed(spec: dict[str, Any]) -> None:
    before = copy.deepcopy(spec)
    avoid_nodes(spec, ["n1"])
    assert spec == before
