"""Patches: the effect of each type on a document, and the types that each kind accepts."""

from typing import Any

import pytest

from jobflow.sandbox.apiserver.requests.failures import RequestFailure
from jobflow.sandbox.apiserver.requests.patches import json_patch, merge, strategic_merge
from support.sandbox.rest_client import APPLY, FLOWS, Rest, flow


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c", "d": "e"}}, {"a": {"b": "x", "d": None}}, {"a": {"b": "x"}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"a": "foo"}, {"a": {"b": 1}}, {"a": {"b": 1}}),
    ],
)
def test_a_merge_patch_is_applied(target: Any, patch: Any, result: Any) -> None:
    assert merge(target, patch) == result


DOCUMENT = {"a": [1, 2], "b": {"c": "d"}, "x/y": 0, "m~n": 1}


@pytest.mark.parametrize(
    ("operation", "result"),
    [
        ({"op": "add", "path": "/a/1", "value": 9}, {**DOCUMENT, "a": [1, 9, 2]}),
        ({"op": "add", "path": "/a/-", "value": 9}, {**DOCUMENT, "a": [1, 2, 9]}),
        ({"op": "add", "path": "/b/e", "value": 9}, {**DOCUMENT, "b": {"c": "d", "e": 9}}),
        ({"op": "add", "path": "/b", "value": None}, {**DOCUMENT, "b": None}),
        ({"op": "add", "path": "", "value": {"z": 1}}, {"z": 1}),
        ({"op": "remove", "path": "/a/0"}, {**DOCUMENT, "a": [2]}),
        ({"op": "remove", "path": "/b/c"}, {**DOCUMENT, "b": {}}),
        ({"op": "replace", "path": "/a/0", "value": 9}, {**DOCUMENT, "a": [9, 2]}),
        ({"op": "replace", "path": "/b/e", "value": 9}, {**DOCUMENT, "b": {"c": "d", "e": 9}}),
        ({"op": "replace", "path": "/x~1y", "value": 9}, {**DOCUMENT, "x/y": 9}),
        ({"op": "replace", "path": "/m~0n", "value": 9}, {**DOCUMENT, "m~n": 9}),
        ({"op": "test", "path": "/b/c", "value": "d"}, DOCUMENT),
        ({"op": "copy", "from": "/a", "path": "/b/c"}, {**DOCUMENT, "b": {"c": [1, 2]}}),
        ({"op": "move", "from": "/a/0", "path": "/a/1"}, {**DOCUMENT, "a": [2, 1]}),
    ],
)
def test_a_json_patch_is_applied_to_a_copy(operation: dict[str, Any], result: Any) -> None:
    before = repr(DOCUMENT)
    assert json_patch(DOCUMENT, [operation]) == result
    assert repr(DOCUMENT) == before


@pytest.mark.parametrize(
    ("operations", "code"),
    [
        ([{"op": "remove", "path": "/nothing"}], 422),
        ([{"op": "replace", "path": "/a/7", "value": 1}], 422),
        ([{"op": "add", "path": "/nothing/x", "value": 1}], 422),
        ([{"op": "add", "path": "/a/3", "value": 1}], 422),
        ([{"op": "add", "path": "/a/x", "value": 1}], 422),
        ([{"op": "test", "path": "/x~1y", "value": False}], 422),
        ([{"op": "test", "path": "/a/0/deep", "value": 1}], 422),
        ([{"op": "move", "from": "/a/7", "path": "/b"}], 422),
        ([{"op": "add", "path": "b", "value": 1}], 422),
        ([{"op": "add", "value": 1}], 422),
        ([{"op": "turn", "path": "/a"}], 422),
        ({"op": "remove", "path": "/a"}, 400),
        (["x"], 400),
        ([{"op": "test", "path": "/b/c", "value": "d"}] * 10_001, 413),
    ],
)
def test_invalid_json_patches_are_refused(operations: Any, code: int) -> None:
    with pytest.raises(RequestFailure) as caught:
        json_patch(DOCUMENT, operations)
    assert caught.value.code == code


def containers(*items: Any) -> dict[str, Any]:
    return {"spec": {"containers": list(items)}}


@pytest.mark.parametrize(
    ("patch", "result"),
    [
        ({"name": "a", "image": "2"}, [{"name": "a", "image": "2"}, {"name": "b"}]),
        ({"name": "c"}, [{"name": "a", "image": "1"}, {"name": "b"}, {"name": "c"}]),
        ({"name": "a", "$patch": "delete"}, [{"name": "b"}]),
        ({"name": "a", "image": None}, [{"name": "a"}, {"name": "b"}]),
        ({"$patch": "replace"}, []),
    ],
)
def test_strategic_merge_patches_merge_lists_by_key(patch: dict[str, Any], result: Any) -> None:
    pod = containers({"name": "a", "image": "1"}, {"name": "b"})
    assert strategic_merge(pod, containers(patch)) == {"spec": {"containers": result}}


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"args": ["a"]}, {"args": ["b"]}, {"args": ["b"]}),
        ({"finalizers": ["a"]}, {"finalizers": ["b"]}, {"finalizers": ["a", "b"]}),
        (
            {"finalizers": ["a", "b"]},
            {"$deleteFromPrimitiveList/finalizers": ["a"]},
            {"finalizers": ["b"]},
        ),
        ({"a": {"b": 1}}, {"a": {"$patch": "replace", "c": 2}}, {"a": {"c": 2}}),
        ({"a": 1, "b": 2}, {"$retainKeys": ["b"], "b": 3}, {"b": 3}),
        ({}, {"$setElementOrder/env": [{"name": "x"}]}, {}),
    ],
)
def test_a_strategic_merge_patch_is_applied(target: Any, patch: Any, result: Any) -> None:
    assert strategic_merge(target, patch) == result


@pytest.mark.parametrize("patch", [{"$what": 1}, containers({"image": "x"})])
def test_invalid_strategic_merge_patches_are_refused(patch: Any) -> None:
    with pytest.raises(RequestFailure) as caught:
        strategic_merge({}, patch)
    assert caught.value.code == 400


async def test_apply_creates_a_new_object_and_merges_an_existing_one(api: Rest) -> None:
    body = b"apiVersion: flow.volcano.sh/v1alpha1\nkind: JobFlow\nmetadata: {name: f}\nspec: {}"
    created = await api.patch(f"{FLOWS}/f", body, APPLY, fieldManager="kubectl")
    assert created.code == 201 and created.meta["name"] == "f"
    policy = {**flow(), "spec": {"jobRetainPolicy": "delete"}}
    merged = await api.patch(f"{FLOWS}/f", policy, APPLY, fieldManager="kubectl", force="true")
    assert merged.code == 200
    assert merged.json["spec"] == {"jobRetainPolicy": "delete"}
    steps = {**flow(), "spec": {"flows": [{"name": "a"}]}}
    merged = await api.patch(f"{FLOWS}/f", steps, APPLY, fieldManager="kubectl")
    assert merged.json["spec"] == {"flows": [{"name": "a"}]}
    status = await api.patch(f"{FLOWS}/nobody/status", flow("nobody"), APPLY, fieldManager="x")
    assert status.code == 404


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        (flow("g"), 400, "does not match the name on the URL"),
        ({**flow(), "spec": {"x": 1}}, 500, ".spec.x: field not declared"),
        (flow(labels=[]), 400, "of type map[string]string"),
        (b"a: b: c", 400, "mapping values are not allowed"),
    ],
)
async def test_invalid_applies_are_refused(api: Rest, body: Any, code: int, words: str) -> None:
    answer = await api.patch(f"{FLOWS}/f", body, APPLY, fieldManager="x")
    assert answer.code == code and words in answer.message


@pytest.mark.parametrize(
    ("patch", "code", "words"),
    [
        ({"kind": "X"}, 422, 'X.flow.volcano.sh "f" is invalid: kind: Invalid value: "X": must be'),
        ({"apiVersion": "v1"}, 422, 'JobFlow "f" is invalid: apiVersion: Invalid value: "v1"'),
        ({"metadata": {"labels": {"a": 1}}}, 422, "Go struct field ObjectMeta.labels of type"),
        ({"metadata": None}, 400, "name must be provided"),
        ({"metadata": {"deletionTimestamp": "2001-01-01T00:00:00Z"}}, 422, "field is immutable"),
        ({"metadata": {"resourceVersion": "x"}}, 500, 'strconv.ParseUint: parsing "x"'),
        (b"{", 400, "error decoding patch: unexpected end of JSON input"),
    ],
)
async def test_invalid_merge_patches_are_refused(
    api: Rest, patch: Any, code: int, words: str
) -> None:
    await api.create(FLOWS, flow())
    answer = await api.patch(f"{FLOWS}/f", patch)
    assert answer.code == code and words in answer.message
