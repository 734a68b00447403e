"""The CRDs, generated from the types, and their copies in the chart."""

import re
from collections.abc import Iterator
from itertools import product
from typing import Any

import msgspec
import pytest
import yaml

from jobflow.api.crd import crd, openapi_schema, to_yaml
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.kinds import KINDS
from jobflow.api.resources import FLOW_GROUP
from support.paths import ROOT

REFERENCE = ROOT / "docs" / "reference.md"
CHART = ROOT / "charts" / "jobflow" / "crds"


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    for name in ("items", "additionalProperties"):
        if name in schema:
            yield from nodes(schema[name], f"{path}[]")


@pytest.mark.parametrize("kind", KINDS)
def test_the_chart_has_the_crds_of_the_types(kind: str) -> None:
    file = CHART / f"{FLOW_GROUP}_{KINDS[kind].resource.plural}.yaml"
    stored = file.read_text(encoding="utf-8")
    assert stored == to_yaml(crd(kind)), "run `make crds`"
    assert yaml.safe_load(stored) == crd(kind)
    assert len(stored) < 200 * 1024


OPAQUE = "x-kubernetes-preserve-unknown-fields"
ANY = {OPAQUE: True, "nullable": True}
"""A schema that keeps every JSON value, including null."""
INT_OR_PARAM = {"x-kubernetes-int-or-string": True}
"""A schema of a number, or a reference to a param."""


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_is_described_and_has_a_type_or_keeps_every_value(kind: str) -> None:
    for path, schema in nodes(openapi_schema(kind)):
        if "type" in schema:
            assert schema["type"] in "object array string integer number boolean".split(), path
        else:
            typed = {key: schema[key] for key in schema if key != "description"}
            assert typed in (ANY, INT_OR_PARAM), path
        assert "default" not in schema, path
        if path != ".metadata" and not path.endswith("[]"):
            assert schema["description"], path


@pytest.mark.parametrize("kind", KINDS)
def test_group_version_and_short_names_match_volcano(kind: str) -> None:
    spec = crd(kind)["spec"]
    assert (spec["group"], spec["versions"][0]["name"]) == ("flow.volcano.sh", "v1alpha1")
    assert spec["names"]["shortNames"] == [
        {"JobFlow": "jf", "JobTemplate": "jt", "CronJobFlow": "cjf"}[kind]
    ]
    assert spec["versions"][0]["subresources"] == {"status": {}}


@pytest.mark.parametrize("kind", ["JobFlow", "CronJobFlow"])
def test_the_reference_describes_the_fields_of_a_kind_and_no_others(kind: str) -> None:
    schemas = {path.removeprefix("."): each for path, each in nodes(openapi_schema(kind))}
    opaque = tuple(f"{path}." for path, each in schemas.items() if OPAQUE in each)
    section = REFERENCE.read_text("utf-8").split(f"\n## {kind}\n")[1].split("\n## ")[0]
    described = re.findall(r"^\| `(spec\.[^`]+)`", section, re.MULTILINE)
    assert described
    assert [path for path in described if path not in schemas and not path.startswith(opaque)] == []


def test_steps_of_finally_have_the_fields_of_steps() -> None:
    schema = openapi_schema("JobFlow")
    spec = schema["properties"]["spec"]["properties"]
    assert spec["finally"]["items"]["properties"] == spec["flows"]["items"]["properties"]


def test_patches_have_no_types_and_keep_nulls() -> None:
    step = openapi_schema("JobFlow")["properties"]["spec"]["properties"]["flows"]["items"]
    case = step["properties"]["switch"]["items"]
    for owner, name in product((step, case), ("jobSpec", "spec")):
        patch = owner["properties"]["patch"]["properties"][name]
        assert patch["x-kubernetes-preserve-unknown-fields"] is True
        assert "properties" not in patch


def test_unset_fields_are_omitted() -> None:
    flow = msgspec.json.decode(b'{"metadata": {"name": "x"}, "spec": {"flows": []}}', type=JobFlow)
    assert b"null" not in msgspec.json.encode(flow)
