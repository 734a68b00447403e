"""Hints for values and fields that the schema does not have."""

from typing import Any

import pytest

from jobflow.core.manifests.crd_schema import schema_violations


def hints(spec: dict[str, Any], kind: str = "JobFlow") -> list[str]:
    """Return the text after the first `; ` of each violation, or an empty text."""
    found = schema_violations(kind, {"metadata": {"name": "f"}, "spec": spec}, strict=True)
    return [each.detail.partition("; ")[2] for each in found]


def of_step(**step: Any) -> list[str]:
    return hints({"flows": [step]})


@pytest.mark.parametrize(
    ("step", "reported"),
    [
        ({"timeout": 10}, 'write it with its unit: "10s"'),
        ({"retry": {"backoff": {"duration": 5}}}, 'write it with its unit: "5s"'),
        ({"retry": {"backoff": {"max": 1.5}}}, 'write it with its unit: "1.5s"'),
        ({"name": False}, "put it in quotes: YAML reads n, no and off as false"),
        ({"name": True}, "put it in quotes: YAML reads y, yes and on as true"),
        ({"when": True}, 'write "true", in quotes'),
        ({"dependsOn": ["a"]}, "write dependsOn: {targets: […]}"),
        ({"forEach": [1, 2]}, "write forEach: {items: […]}"),
        ({"forEach": "params.l"}, "write forEach: {from: …}"),
        ({"retry": 3}, "write retry: {limit: …}"),
        ({"repeat": 3}, "write repeat: {until: …, max: …}"),
        ({"retry": {"backoff": "5s"}}, "write backoff: {duration: …}"),
        ({"env": [{"name": "A", "value": "x"}]}, "write env: {NAME: …}"),
        ({"container": "busybox"}, "write container: {image: …}"),
        ({"forEach": {"items": "$(params.l)"}}, "references $(…) have no meaning here"),
        ({"template": True}, "put it in quotes: YAML reads y, yes and on as true"),
        ({"daemon": "yes"}, "write true, without quotes"),
        ({"daemon": "Off"}, "write false, without quotes"),
        ({"daemon": "maybe"}, ""),
        ({"forEach": {"items": {"a": 1}}}, ""),
    ],
)
def test_a_value_of_another_type_has_a_hint(step: dict[str, Any], reported: str) -> None:
    assert of_step(**step) == [reported]


@pytest.mark.parametrize(
    ("spec", "reported"),
    [
        ({"params": {"x": 1}}, "write a list: [{name: …, value: …}]"),
        ({"ttlSecondsAfterFinished": "1h"}, "write it in seconds: 3600"),
        ({"ttlSecondsAfterFailed": "1h"}, "write it in seconds: 3600"),
        ({"ttlSecondsAfterFinished": "60"}, "write 60, without quotes"),
        ({"ttlSecondsAfterFinished": "soon"}, ""),
        ({"timeout": 3600}, 'write it with its unit: "3600s"'),
        ({"onExit": "a"}, "here that is spec.finally, a list"),
        ({"synchronization": {"mutex": {"name": "x"}}}, "here that is spec.concurrency, a map"),
        ({"volumeClaimTemplates": []}, "here that is spec.volumeClaims, a map"),
        ({"entry": "a"}, ""),
    ],
)
def test_fields_of_the_flow_spec_have_hints(spec: dict[str, Any], reported: str) -> None:
    assert hints(spec) == [reported]


@pytest.mark.parametrize(
    ("step", "reported"),
    [
        ({"withItems": [1]}, "here that is forEach.items"),
        ({"retryStrategy": {}}, "here that is retry"),
        ({"runAfter": ["a"]}, "here that is dependsOn.targets"),
        ({"if": "true"}, "here that is when"),
        ({"dependsOn": {"steps": ["a"]}}, "here that is targets"),
        ({"retry": {"maxAttempts": 2}}, "here that is limit"),
        ({"switch": [{"case": "true"}]}, "here that is when"),
        ({"withitems": [1]}, ""),
    ],
)
def test_a_field_of_another_tool_has_a_hint(step: dict[str, Any], reported: str) -> None:
    assert of_step(**step) == [reported]
    assert hints({"finally": [step]}) == [reported]


def test_templates_have_no_hints_of_flows() -> None:
    assert hints({"retries": 3}, "JobTemplate") == [""]
