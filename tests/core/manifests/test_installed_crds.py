"""Faults of definitions that an API server may serve."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from jobflow.api.crd import crd
from jobflow.core.manifests.installed_crds import definition_faults

Edit = Callable[[dict[str, Any]], None]


def edited(kind: str, edit: Edit) -> list[str]:
    changed = deepcopy(crd(kind))
    edit(changed["spec"]["versions"][0])
    return definition_faults(kind, changed)


def at(version: dict[str, Any], path: str) -> dict[str, Any]:
    """Return the schema of a field, such as `spec.flows[].patch`."""
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    for word in path.split("."):
        schema = schema["properties"][word.removesuffix("[]")]
        if word.endswith("[]"):
            schema = schema["items"]
    return schema


@pytest.mark.parametrize("kind", ["JobFlow", "JobTemplate"])
def test_our_definitions_have_no_faults(kind: str) -> None:
    assert definition_faults(kind, crd(kind)) == []


@pytest.mark.long
@pytest.mark.no_cover
@pytest.mark.parametrize("kind", ["JobFlow", "JobTemplate"])
def test_a_missing_field_is_a_fault(kind: str) -> None:
    def check(schema: dict[str, Any], path: str) -> None:
        for name in list(schema.get("properties", ())):
            below = f"{path}.{name}" if path else name
            if not path and name in ("apiVersion", "kind", "metadata"):
                continue
            field = schema["properties"].pop(name)
            assert definition_faults(kind, definition) == [f"{below} is missing"]
            schema["properties"][name] = field
            check(field, below)
        for keyword, mark in (("items", "[]"), ("additionalProperties", "{}")):
            if keyword in schema:
                check(schema[keyword], path + mark)

    definition = deepcopy(crd(kind))
    check(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"], "")


def test_a_newer_definition_has_no_faults() -> None:
    def newer(version: dict[str, Any]) -> None:
        for path in ("spec", "spec.flows[]", "spec.flows[].patch", "status"):
            at(version, path)["properties"]["later"] = {"type": "string"}
        at(version, "spec.flows[]")["properties"]["parallel"] = {"type": "integer", "default": 1}
        at(version, "spec.flows[].dependsOn.strategy")["enum"] = ["all", "any", "some"]
        version["schema"]["openAPIV3Schema"]["properties"]["extra"] = {"type": "object"}

    assert edited("JobFlow", newer) == []


def test_further_versions_of_the_kind_are_no_fault() -> None:
    more = deepcopy(crd("JobFlow"))
    more["spec"]["versions"].insert(0, {"name": "v1", "served": True, "schema": {}})
    assert definition_faults("JobFlow", more) == []


def test_a_schema_that_preserves_fields_has_no_missing_fields() -> None:
    def open_up(version: dict[str, Any]) -> None:
        spec = at(version, "spec")
        spec["x-kubernetes-preserve-unknown-fields"] = True
        del spec["properties"]["flows"]

    assert edited("JobFlow", open_up) == []


@pytest.mark.parametrize(
    ("kind", "path", "schema", "fault"),
    [
        ("JobFlow", "spec.flows[].name", {"type": "integer"}, " is of type integer, not string"),
        ("JobFlow", "spec.flows[].name", {}, " is of type nothing, not string"),
        ("JobFlow", "spec.flows[].dependsOn.targets",
         {"type": "array", "items": {"type": "object"}}, "[] is of type object, not string"),
        ("JobTemplate", "spec.plugins",
         {"type": "object", "properties": {"ssh": {"type": "array"}}},
         "{} is of type nothing, not array"),
        ("JobFlow", "spec.flows[].patch.jobSpec",
         {"type": "object", "properties": {"queue": {"type": "string"}}},
         " drops what it does not name"),
        ("JobTemplate", "spec.maxRetry", {"type": "integer", "default": 3}, " has a default"),
        ("JobTemplate", "spec.tasks[].later",
         {"type": "array", "items": {"type": "string", "default": "x"}}, "[] has a default"),
        ("JobFlow", "spec.flows[].forEach.items", {"type": "array", "items": {"nullable": True}},
         "[] is of type nothing, not anything"),
        ("JobFlow", "spec.flows[].forEach.items", {"type": "array", "items": {"type": "string"}},
         "[] is of type string, not anything"),
        ("JobFlow", "spec.params[].value", {"x-kubernetes-preserve-unknown-fields": True},
         " takes no null"),
        ("JobFlow", "spec.flows[].retry.backoff.factor", {"type": "integer"},
         " is of type integer, not number"),
    ],
)  # fmt: skip
def test_a_schema_of_a_field_that_loses_or_narrows_is_a_fault(
    kind: str, path: str, schema: dict[str, Any], fault: str
) -> None:
    parent, _, name = path.rpartition(".")
    changed = edited(kind, lambda version: at(version, parent)["properties"].update({name: schema}))
    assert changed == [path + fault]


@pytest.mark.parametrize(
    ("path", "schema"),
    [
        ("spec.ttlSecondsAfterFinished", {"x-kubernetes-int-or-string": True}),
        ("spec.ttlSecondsAfterFinished", {"type": "number"}),
        ("spec.flows[].name", {"x-kubernetes-int-or-string": True}),
        ("spec.flows[].timeout", {"type": "string", "maxLength": 500, "nullable": True}),
        ("spec.flows[].retry", {"x-kubernetes-preserve-unknown-fields": True}),
        ("spec.flows[].dependsOn.targets", {"x-kubernetes-preserve-unknown-fields": True}),
        ("status.conditions", {"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
    ],
)
def test_a_schema_of_a_field_that_admits_more_is_no_fault(
    path: str, schema: dict[str, Any]
) -> None:
    parent, _, name = path.rpartition(".")

    def widen(version: dict[str, Any]) -> None:
        fields = at(version, parent)["properties"]
        assert name in fields
        fields[name] = schema

    assert edited("JobFlow", widen) == []


@pytest.mark.parametrize("path", ["flows[].patch", "finally[].switch[].patch.jobSpec"])
def test_a_default_in_a_patch_is_a_fault(path: str) -> None:
    found = edited("JobFlow", lambda version: at(version, f"spec.{path}").update(default={}))
    assert found == [f"spec.{path} has a default"]


@pytest.mark.parametrize(
    ("edit", "fault"),
    [
        (lambda version: version.pop("subresources"), "there is no subresource status"),
        (lambda version: version.update(served=False), "version v1alpha1 is not served"),
        (lambda version: version.update(name="v1"), "version v1alpha1 is not served"),
    ],
)
def test_another_version_is_a_fault(edit: Edit, fault: str) -> None:
    assert edited("JobFlow", edit) == [fault]


def test_a_default_beside_the_job_spec_is_no_fault() -> None:
    def fill(version: dict[str, Any]) -> None:
        at(version, "spec.flows[].dependsOn.strategy").update(default="all")
        at(version, "spec.flows[]")["properties"]["patches"] = {"type": "string", "default": ""}

    assert edited("JobFlow", fill) == []


@pytest.mark.parametrize("served", [{}, {"spec": {}}, {"spec": {"versions": [{}]}}], ids=str)
def test_an_incomplete_definition_serves_no_version(served: dict[str, Any]) -> None:
    assert definition_faults("JobFlow", served) == ["version v1alpha1 is not served"]
