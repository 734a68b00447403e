"""Schemas of CRDs: pruning, defaults and refusals, in the words of a real API server."""

from typing import Any

import pytest

from jobflow.sandbox.apiserver.resources.schema import SchemaNode, SchemaRules
from support.sandbox.rest_client import FLOWS, Rest, flow


def said(schema: dict[str, Any], value: Any) -> list[str]:
    """Return the violations of a value at `spec`."""
    return [str(violation) for violation in SchemaNode(schema).violations(value, "spec")]


@pytest.mark.parametrize(
    ("schema", "value", "words"),
    [
        ({"type": "string"}, 1, 'spec in body must be of type string: "integer"'),
        ({"type": "string"}, None, 'spec in body must be of type string: "null"'),
        ({"type": "integer"}, 1.5, 'spec in body must be of type integer: "number"'),
        ({"type": "boolean"}, "x", 'spec in body must be of type boolean: "string"'),
        ({"type": "array"}, {}, 'spec in body must be of type array: "object"'),
        ({"type": "object"}, [], 'spec in body must be of type object: "array"'),
        ({"x-kubernetes-int-or-string": True}, [], "must be of type integer,string"),
        (
            {"type": "string", "enum": ["a", "b"]},
            "c",
            'spec: Unsupported value: "c": supported values: "a", "b"',
        ),
        ({"type": "integer", "enum": [1, 2]}, 3, "supported values: 1, 2"),
        ({"type": "integer", "minimum": 0}, -1, "should be greater than or equal to 0"),
        (
            {"type": "integer", "minimum": 0, "exclusiveMinimum": True},
            0,
            "should be greater than 0",
        ),
        ({"type": "integer", "maximum": 5}, 6, "spec in body should be less than or equal to 5"),
        ({"type": "string", "pattern": "^a"}, "b", "spec in body should match '^a'"),
        ({"type": "string", "minLength": 1}, "", "should be at least 1 chars long"),
        ({"type": "string", "maxLength": 1}, "ab", "Too long: may not be more than 1 bytes"),
        (
            {"type": "array", "minItems": 1},
            [],
            "spec: Invalid value: 0: spec in body should have at least 1 items",
        ),
        ({"type": "array", "maxItems": 1}, [1, 2], "Too many: 2: must have at most 1 items"),
        ({"type": "object", "minProperties": 1}, {}, "should have at least 1 properties"),
        ({"type": "object", "maxProperties": 0}, {"a": 1}, "Too many: 1: must have at most 0"),
        ({"type": "string", "format": "date-time"}, "now", "must be of type date-time"),
        ({"type": "object", "required": ["a"]}, {}, "spec.a: Required value"),
        ({"anyOf": [{"type": "string"}, {"minimum": 3}]}, 1, "at least one schema (anyOf)"),
        ({"oneOf": [{"minimum": 0}, {"minimum": 1}]}, 2, "one and only one schema (oneOf)"),
        ({"allOf": [{"minimum": 0}, {"minimum": 5}]}, 2, "all the schemas (allOf)"),
        ({"not": {"required": ["a"]}, "type": "object"}, {"a": 1}, "must not validate"),
    ],
)
def test_one_violation(schema: dict[str, Any], value: Any, words: str) -> None:
    (violation,) = said(schema, value)
    assert words in violation


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "number"}, 1),
        ({"type": "integer"}, 3.0),
        ({"type": "string", "nullable": True}, None),
        ({"x-kubernetes-int-or-string": True}, "25%"),
        ({"x-kubernetes-preserve-unknown-fields": True}, [1, "a", {}]),
        ({"type": "string", "format": "date-time"}, "2026-01-01T00:00:00Z"),
        ({"type": "string", "format": "something"}, "x"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, {"a": "b"}),
    ],
)
def test_no_violation(schema: dict[str, Any], value: Any) -> None:
    assert said(schema, value) == []


def test_paths_go_through_lists_and_maps() -> None:
    item = {"type": "object", "properties": {"n": {"type": "integer"}}}
    lists = {"type": "array", "items": item}
    schema = {"type": "object", "additionalProperties": lists}
    (violation,) = SchemaNode(schema).violations({"k": [{"n": 1}, {"n": "x"}]}, "spec")
    assert violation.path == "spec.k[1].n"


def rules(spec: dict[str, Any]) -> SchemaRules:
    return SchemaRules({"type": "object", "properties": {"spec": {"type": "object", **spec}}})


def completed(spec: dict[str, Any], value: dict[str, Any]) -> tuple[Any, list[str]]:
    """Return a spec after pruning and defaulting, and the dropped paths."""
    obj = {"apiVersion": "v", "kind": "k", "metadata": {"name": "n"}, "spec": value}
    dropped = rules(spec).complete(obj)
    return obj["spec"], dropped


def test_unknown_fields_are_dropped_however_deep() -> None:
    inner = {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}}
    spec, dropped = completed(
        {"properties": {"list": inner}}, {"list": [{"a": "1", "b": 2}], "more": {"x": 1}}
    )
    assert spec == {"list": [{"a": "1"}]}
    assert sorted(dropped) == ["spec.list[0].b", "spec.more"]


def test_what_is_preserved_stays_but_known_parts_are_pruned() -> None:
    known = {"type": "object", "properties": {"a": {"type": "string"}}}
    schema = {"x-kubernetes-preserve-unknown-fields": True, "properties": {"known": known}}
    spec, dropped = completed(schema, {"known": {"a": "1", "b": 2}, "more": {"x": {"y": 1}}})
    assert spec == {"known": {"a": "1"}, "more": {"x": {"y": 1}}}
    assert dropped == ["spec.known.b"]


def test_an_embedded_resource_keeps_its_type_and_metadata() -> None:
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True}
    spec, dropped = completed(
        {"properties": {"pod": embedded}},
        {"pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "x": 1}},
    )
    assert sorted(spec["pod"]) == ["apiVersion", "kind", "metadata"] and dropped == ["spec.pod.x"]


def test_defaults_fill_in_what_is_missing_or_null() -> None:
    inner = {
        "type": "object",
        "default": {},
        "properties": {"b": {"type": "string", "default": "x"}},
    }
    schema = {"properties": {"a": inner, "n": {"type": "integer", "default": 3}}}
    assert completed(schema, {}) == ({"a": {"b": "x"}, "n": 3}, [])
    assert completed(schema, {"n": None})[0]["n"] == 3
    first, second = completed(schema, {})[0], completed(schema, {})[0]
    assert first["a"] is not second["a"]


def test_what_was_wrong_before_may_stay_wrong() -> None:
    checked = rules({"properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}})
    old = {"spec": {"a": "wrong", "b": 1}}
    unchanged = {"spec": {"a": "wrong", "b": 2}}
    worse = {"spec": {"a": "wrong too", "b": 2}}
    assert list(checked.violations(unchanged, old)) == []
    assert [violation.path for violation in checked.violations(worse, old)] == ["spec.a"]


async def test_an_unknown_field_of_metadata_gives_a_warning(api: Rest) -> None:
    await api.made(FLOWS, flow())
    warned = await api.patch(f"{FLOWS}/f", {"metadata": {"x": 1}})
    assert warned.warnings == [r'299 - "unknown field \"metadata.x\""']


COMMANDS = "/apis/bus.volcano.sh/v1alpha1/namespaces/default/commands"


@pytest.mark.parametrize(
    ("uid", "words"),
    [
        ({"uid": 1234}, 'target.uid in body must be of type string: "integer"'),
        ({}, "target.uid: Required value"),
    ],
)
async def test_a_command_has_a_target_as_volcano_has_it(
    api: Rest, uid: dict[str, Any], words: str
) -> None:
    """A uid that YAML reads as a number would make a Command that no controller can decode."""
    target = {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow", "name": "f"}
    head = {"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "metadata": {"name": "c"}}
    body = {**head, "action": "ResumeJob", "target": target | uid}
    refused = await api.post(COMMANDS, body)
    assert refused.code == 422
    assert words in refused.message
