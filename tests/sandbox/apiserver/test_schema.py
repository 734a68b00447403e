"""Schemas of CRDs: pruning, defaults and refusals, with the messages of a real API server."""

from typing import Any

import pytest

from jobflow.sandbox.apiserver.resources.crds import SchemaNode, SchemaRules
from support.sandbox.rest_client import FLOWS, Rest, flow


def violations_of(schema: dict[str, Any], value: Any) -> list[str]:
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
def test_an_invalid_value_has_one_violation(schema: dict[str, Any], value: Any, words: str) -> None:
    (violation,) = violations_of(schema, value)
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
def test_a_valid_value_has_no_violation(schema: dict[str, Any], value: Any) -> None:
    assert violations_of(schema, value) == []


def test_paths_include_list_indexes_and_map_keys() -> None:
    item = {"type": "object", "properties": {"n": {"type": "integer"}}}
    lists = {"type": "array", "items": item}
    schema = {"type": "object", "additionalProperties": lists}
    (violation,) = SchemaNode(schema).violations({"k": [{"n": 1}, {"n": "x"}]}, "spec")
    assert violation.path == "spec.k[1].n"


def rules(spec: dict[str, Any]) -> SchemaRules:
    return SchemaRules({"type": "object", "properties": {"spec": {"type": "object", **spec}}})


def complete(spec: dict[str, Any], value: dict[str, Any]) -> tuple[Any, list[str]]:
    """Return a spec after pruning and defaulting, and the dropped paths."""
    obj = {"apiVersion": "v", "kind": "k", "metadata": {"name": "n"}, "spec": value}
    dropped = rules(spec).complete(obj)
    return obj["spec"], dropped


def test_unknown_fields_are_pruned_at_any_depth() -> None:
    inner = {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}}
    spec, dropped = complete(
        {"properties": {"list": inner}}, {"list": [{"a": "1", "b": 2}], "more": {"x": 1}}
    )
    assert spec == {"list": [{"a": "1"}]}
    assert sorted(dropped) == ["spec.list[0].b", "spec.more"]


def test_known_parts_of_preserved_fields_are_pruned() -> None:
    known = {"type": "object", "properties": {"a": {"type": "string"}}}
    schema = {"x-kubernetes-preserve-unknown-fields": True, "properties": {"known": known}}
    spec, dropped = complete(schema, {"known": {"a": "1", "b": 2}, "more": {"x": {"y": 1}}})
    assert spec == {"known": {"a": "1"}, "more": {"x": {"y": 1}}}
    assert dropped == ["spec.known.b"]


def test_an_embedded_resource_keeps_its_type_and_metadata() -> None:
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True}
    spec, dropped = complete(
        {"properties": {"pod": embedded}},
        {"pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "x": 1}},
    )
    assert sorted(spec["pod"]) == ["apiVersion", "kind", "metadata"] and dropped == ["spec.pod.x"]


def test_defaults_replace_missing_fields_and_nulls() -> None:
    inner = {
        "type": "object",
        "default": {},
        "properties": {"b": {"type": "string", "default": "x"}},
    }
    schema = {"properties": {"a": inner, "n": {"type": "integer", "default": 3}}}
    assert complete(schema, {}) == ({"a": {"b": "x"}, "n": 3}, [])
    assert complete(schema, {"n": None})[0]["n"] == 3
    first, second = complete(schema, {})[0], complete(schema, {})[0]
    assert first["a"] is not second["a"]


def test_invalid_values_that_do_not_change_are_allowed() -> None:
    schema = rules({"properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}})
    old = {"spec": {"a": "wrong", "b": 1}}
    unchanged = {"spec": {"a": "wrong", "b": 2}}
    changed = {"spec": {"a": "wrong too", "b": 2}}
    assert list(schema.violations(unchanged, old)) == []
    assert [violation.path for violation in schema.violations(changed, old)] == ["spec.a"]


@pytest.mark.long
async def test_an_unknown_field_of_metadata_gives_a_warning(api: Rest) -> None:
    await api.create(FLOWS, flow())
    answer = await api.patch(f"{FLOWS}/f", {"metadata": {"x": 1}})
    assert answer.warnings == [r'299 - "unknown field \"metadata.x\""']


COMMANDS = "/apis/bus.volcano.sh/v1alpha1/namespaces/default/commands"


@pytest.mark.parametrize(
    ("uid", "words"),
    [
        ({"uid": 1234}, 'target.uid in body must be of type string: "integer"'),
        ({}, "target.uid: Required value"),
    ],
)
async def test_the_target_of_a_command_is_validated_as_in_volcano(
    api: Rest, uid: dict[str, Any], words: str
) -> None:
    """YAML can read an unquoted uid as a number. No controller can decode such a Command."""
    target = {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow", "name": "f"}
    head = {"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "metadata": {"name": "c"}}
    body = {**head, "action": "ResumeJob", "target": target | uid}
    answer = await api.post(COMMANDS, body)
    assert answer.code == 422
    assert words in answer.message
