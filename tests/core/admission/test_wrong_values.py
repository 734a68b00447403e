"""Null, or a value of a wrong type, at every place of a flow."""

from typing import Any

import msgspec
import pytest

from jobflow.api.flow.jobflow import JobFlow
from jobflow.core.admission.validate import Known, validate_flow
from support.admission.places import has_place, places_below, with_value

CONTAINER: dict[str, Any] = {
    "image": "busybox:1.36",
    "command": ["sleep", "$(params.p)"],
    "env": [{"name": "A", "value": "$(item)"}],
    "ports": [{"containerPort": 80}],
    "resources": {"limits": {"cpu": 1}},
    "volumeMounts": [{"name": "v", "mountPath": "/v"}],
}


def pod() -> dict[str, Any]:
    spec = {
        "restartPolicy": "Never",
        "nodeSelector": {"zone": "a"},
        "volumes": [{"name": "v", "emptyDir": {}}],
        "initContainers": [{"name": "init", "image": "busybox:1.36"}],
        "containers": [{"name": "main", **CONTAINER}],
    }
    return {"metadata": {"labels": {"a": "b"}}, "spec": spec}


def job_spec() -> dict[str, Any]:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    main = {
        "name": "main",
        "replicas": 1,
        "dependsOn": {"name": ["other"]},
        "policies": [{"exitCode": 3, "action": "AbortJob"}],
        "template": pod(),
    }
    return {
        "minAvailable": 1,
        "volumes": [{"mountPath": "/data", "volumeClaim": claim}],
        "plugins": {"svc": []},
        "policies": [{"events": ["PodEvicted"], "action": "RestartJob"}],
        "tasks": [main, {"name": "other", "replicas": 2, "template": pod()}],
    }


LAYERS: dict[str, Any] = {
    "env": {"X": "y", "Z": {"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}},
    "volumes": {"data": {"mountPath": "/data", "emptyDir": {}}},
    "image": "busybox:1.36",
    "args": ["b"],
    "resources": {"limits": {"cpu": "1"}},
    "patch": {"spec": {"tasks": [{"name": "main", "template": pod()}]}},
    "vars": {"v": "1"},
    "retry": {"limit": 2, "patch": {"spec": {"queue": "q"}}, "when": "true"},
}
LOOP = {"forEach": {"items": [1, {"a": 2}]}}
STEPS: dict[str, dict[str, Any]] = {
    "jobSpec": {"name": "a", "jobSpec": job_spec(), **LAYERS, **LOOP},
    "container": {"name": "a", "container": CONTAINER, **LOOP},
    "flow": {
        "name": "a",
        "flow": {
            "params": {"x": "$(item)"},
            "flows": [{"name": "b", "jobSpec": job_spec(), "patch": LAYERS["patch"]}],
            "finally": [{"name": "c"}],
            "outputs": {"o": "1"},
        },
        **LOOP,
    },
    "switch": {
        "name": "a",
        "switch": [
            {"when": "true", "jobSpec": job_spec(), "patch": {"spec": {"queue": "q"}}},
            {"when": "true", "flow": {"flows": [{"name": "b", "container": CONTAINER}]}},
        ],
    },
}


def flow_with(step: dict[str, Any]) -> dict[str, Any]:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    defaults = {"labels": {"a": "b"}, "queue": "q", "podSpec": {"tolerations": [{"key": "a"}]}}
    spec = {
        "flows": [step],
        "params": [{"name": "p", "value": "1"}],
        "jobDefaults": defaults,
        "volumeClaims": {"data": claim},
        "outputs": {"o": "1"},
    }
    return {"metadata": {"name": "f", "namespace": "n"}, "spec": spec}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("value", [None, [], {"nope": None}], ids=repr)
@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_faults_have_places_that_exist(step: dict[str, Any], value: Any) -> None:
    """Or that could exist: then the object or list exists that lacks it."""
    whole = flow_with(step)
    for at in places_below(whole["spec"], ("spec",)):
        manifest = with_value(whole, at, value)
        try:
            flow = msgspec.convert(manifest, JobFlow)
        except msgspec.ValidationError:
            continue  # the schema refuses it
        verdict = validate_flow(flow, Known())
        for found in (*verdict.violations, *verdict.field_warnings):
            assert has_place(manifest, found.path), (at, found)


@pytest.mark.parametrize(
    ("template", "place"), [(None, "template"), ({"spec": None}, "template.spec")]
)
def test_a_pod_that_is_null_has_no_containers(template: Any, place: str) -> None:
    step = {"name": "a", "jobSpec": {"tasks": [{"name": "main", "template": template}]}}
    verdict = validate_flow(msgspec.convert(flow_with(step), JobFlow), Known())
    assert [found.path for found in verdict.violations] == [
        f"spec.flows[0].jobSpec.tasks[0].{place}"
    ]
