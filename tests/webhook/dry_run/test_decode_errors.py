"""Decode errors of an API server, with recorded messages, located in the template."""

from typing import Any

import pytest

from jobflow.webhook.cluster import decode_error_paths

QUANTITIES = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


def mistyped(kind: str, field: str, expected: str) -> str:
    return f"json: cannot unmarshal {kind} into Go struct field {field} of type {expected}"


def spec(*containers: Any, **more: Any) -> dict[str, Any]:
    return {"spec": {"containers": list(containers)} | more}


@pytest.mark.parametrize(
    ("template", "words", "places"),
    [
        (
            spec({"env": [{"value": "1"}, {"value": 2}]}, {"env": [{"value": 3}, {"name": 4}]}),
            mistyped("number", "EnvVar.template.spec.containers.env.value", "string"),
            ["spec.containers[0].env[1].value", "spec.containers[1].env[0].value"],
        ),
        (
            spec({"ports": [{"hostPort": 80}, {"hostPort": 1.5}, {"hostPort": "80"}]}),
            mistyped(
                "number 1.5", "ContainerPort.template.spec.containers.ports.hostPort", "int32"
            ),
            ["spec.containers[0].ports[1].hostPort"],
        ),
        (
            {"metadata": {"labels": {"a": "b", "x.io/n": 1}}},
            mistyped("number", "ObjectMeta.template.metadata.labels", "string"),
            ["metadata.labels[x.io/n]"],
        ),
        (
            spec({"command": ["sh", True]}),
            mistyped("bool", "Container.template.spec.containers.command", "string"),
            ["spec.containers[0].command[1]"],
        ),
        (
            {"spec": {"containers": {}}},
            mistyped("object", "PodSpec.template.spec.containers", "[]v1.Container"),
            ["spec.containers"],
        ),
        (
            "x",
            mistyped("string", "PodTemplate.template", "v1.PodTemplateSpec"),
            [""],
        ),
        (spec({}), mistyped("string", "Container.image", "int"), [""]),
        (
            spec(
                {"resources": {"limits": {"cpu": "1 core", "memory": "1Gi"}}},
                {"resources": {"requests": {"memory": "1GB", "nvidia.com/gpu": True}}},
                volumes=[{"emptyDir": {"sizeLimit": "lots"}}, {"emptyDir": {"sizeLimit": "1Gi"}}],
            ),
            QUANTITIES,
            [
                "spec.containers[0].resources.limits.cpu",
                "spec.containers[1].resources.requests.memory",
                "spec.containers[1].resources.requests[nvidia.com/gpu]",
                "spec.volumes[0].emptyDir.sizeLimit",
            ],
        ),
        (spec({"resources": {"limits": {"cpu": 1}}}), QUANTITIES, [""]),
        (spec({"resources": "x"}), "unable to parse quantity's suffix", [""]),
        (spec({"lifecycle": 1}), "something else entirely", [""]),
        (None, QUANTITIES, [""]),
    ],
)  # fmt: skip
def test_all_places_of_a_fault_are_found(template: Any, words: str, places: list[str]):
    expected = [f"template.{place}" if place else "template" for place in places]
    assert sorted(decode_error_paths(template, words)) == expected
