"""Faults of definitions that an API server may serve."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from jobflow.api.schema.crd import crd
from jobflow.core.manifests.installed_crds import definition_faults

Edit = Callable[[dict[str, Any]], None]


def edited(kind: str, edit: Edit) -> list[str]:
    changed = deepcopy(crd(kind))
    edit(changed["spec"]["versions"][0])
    return definition_faults(kind, changed)


def at(version: dict[str, Any], path: str) -> dict[str, Any]:
    """The schema of a field: `spec.flows[].patch`."""
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    for word in path.split("."):
        schema = schema["properties"][word.removesuffix("[]")]
        if word.endswith("[]"):
            schema = schema["items"]
    return schema


@pytest.mark.parametrize("kind", ["JobFlow", "JobTemplate"])
def test_our_own_fit(kind: str) -> None:
    assert definition_faults(kind, crd(kind)) == []


@pytest.mark.no_cover
@pytest.mark.parametrize("kind", ["JobFlow", "JobTemplate"])
def test_every_single_field_of_ours_is_missed(kind: str) -> None:
    def check(schema: dict[str, Any], path: str) -> None:
        for name in list(schema.get("properties", ())):
            below = f"{path}.{name}" if path else name
            if not path and name in ("apiVersion", "kind", "metadata"):
                continue
            taken = schema["properties"].pop(name)
            assert definition_faults(kind, ours) == [f"{below} is missing"]
            schema["properties"][name] = taken
            check(taken, below)
        for keyword, mark in (("items", "[]"), ("additionalProperties", "{}")):
            if keyword in schema:
                check(schema[keyword], path + mark)

    ours = deepcopy(crd(kind))
    check(ours["spec"]["versions"][0]["schema"]["openAPIV3Schema"], "")


def test_a_newer_definition_fits() -> None:
    def newer(version: dict[str, Any]) -> None:
        for path in ("spec", "spec.flows[]", "spec.flows[].patch", "status"):
            at(version, path)["properties"]["later"] = {"type": "string"}
        at(version, "spec.flows[]")["properties"]["parallel"] = {"type": "integer", "default": 1}
        version["schema"]["openAPIV3Schema"]["properties"]["extra"] = {"type": "object"}

    assert edited("JobFlow", newer) == []


def test_further_versions_of_the_kind_are_no_fault() -> None:
    more = deepcopy(crd("JobFlow"))
    more["spec"]["versions"].insert(0, {"name": "v1", "served": True, "schema": {}})
    assert definition_faults("JobFlow", more) == []


def test_what_keeps_everything_misses_nothing() -> None:
    def open_up(version: dict[str, Any]) -> None:
        spec = at(version, "spec")
        spec["x-kubernetes-preserve-unknown-fields"] = True
        del spec["properties"]["flows"]

    assert edited("JobFlow", open_up) == []


TYPES: dict[str, tuple[str, Edit, str]] = {
    "another type": ("JobFlow",
        lambda v: at(v, "spec.flows[]")["properties"].update(name={"type": "integer"}),
        "spec.flows[].name is of type integer, not string"),
    "no type": ("JobFlow", lambda v: at(v, "spec.flows[]")["properties"].update(name={}),
        "spec.flows[].name is of type nothing, not string"),
    "no such field": ("JobFlow", lambda v: at(v, "spec.flows[]")["properties"].pop("dependsOn"),
        "spec.flows[].dependsOn is missing"),
    "either of two": ("JobTemplate",
        lambda v: at(v, "spec")["properties"].update(maxRetry={"x-kubernetes-int-or-string": True}),
        "spec.maxRetry is of type integer or string, not integer"),
    "items": (
        "JobFlow",
        lambda v: at(v, "spec.flows[].dependsOn")["properties"]["targets"].update(
            items={"type": "object"}
        ),
        "spec.flows[].dependsOn.targets[] is of type object, not string",
    ),
    "a map with fixed keys": (
        "JobTemplate",
        lambda v: at(v, "spec")["properties"].update(
            plugins={"type": "object", "properties": {"ssh": {"type": "array"}}}
        ),
        "spec.plugins{} is of type nothing, not array",
    ),
    "a patch with fixed fields": (
        "JobFlow",
        lambda v: at(v, "spec.flows[].patch")["properties"].update(
            jobSpec={"type": "object", "properties": {"queue": {"type": "string"}}}
        ),
        "spec.flows[].patch.jobSpec drops what it does not name",
    ),
    "a default in a template": ("JobTemplate", lambda v: at(v, "spec.maxRetry").update(default=3),
        "spec.maxRetry has a default"),
    "a default in a field that we do not know": (
        "JobTemplate",
        lambda v: at(v, "spec.tasks[]")["properties"].update(
            later={"type": "array", "items": {"type": "string", "default": "x"}}
        ),
        "spec.tasks[].later[] has a default",
    ),
    "a default in a patch": ("JobFlow", lambda v: at(v, "spec.flows[].patch").update(default={}),
        "spec.flows[].patch has a default"),
    "a default in the patch of a case": ("JobFlow",
        lambda v: at(v, "spec.finally[].switch[].patch.jobSpec").update(default={}),
        "spec.finally[].switch[].patch.jobSpec has a default"),
    "items that lose what they hold": (
        "JobFlow",
        lambda v: at(v, "spec.flows[].forEach")["properties"].update(
            items={"type": "array", "items": {"nullable": True}}
        ),
        "spec.flows[].forEach.items[] drops what it does not name",
    ),
    "items of one type": (
        "JobFlow",
        lambda v: at(v, "spec.flows[].forEach")["properties"].update(
            items={"type": "array", "items": {"type": "string"}}
        ),
        "spec.flows[].forEach.items[] is of type string, not nothing",
    ),
    "values that are never null": ("JobFlow",
        lambda v: at(v, "spec.params[].value").pop("nullable"),
        "spec.params[].value takes no null"),
    "a factor that is whole": ("JobFlow",
        lambda v: at(v, "spec.flows[].retry.backoff.factor").update(type="integer"),
        "spec.flows[].retry.backoff.factor is of type integer, not number"),
    "no status": ("JobFlow", lambda v: v.pop("subresources"), "there is no subresource status"),
    "not served": ("JobFlow", lambda v: v.update(served=False), "version v1alpha1 is not served"),
    "another version": ("JobFlow", lambda v: v.update(name="v1"), "version v1alpha1 is not served"),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "edit", "fault"), TYPES.values(), ids=TYPES)
def test_what_does_not_fit_is_named(kind: str, edit: Edit, fault: str) -> None:
    assert edited(kind, edit) == [fault]


def test_a_default_beside_the_job_spec_is_no_fault() -> None:
    def fill(version: dict[str, Any]) -> None:
        at(version, "spec.flows[].dependsOn.strategy").update(default="all")
        at(version, "spec.flows[]")["properties"]["patches"] = {"type": "string", "default": ""}

    assert edited("JobFlow", fill) == []


@pytest.mark.parametrize("served", [{}, {"spec": {}}, {"spec": {"versions": [{}]}}], ids=str)
def test_half_a_definition_is_none(served: dict[str, Any]) -> None:
    assert definition_faults("JobFlow", served) == ["version v1alpha1 is not served"]
