"""Laws of the strategic merge, and the faults of patches that cannot be merged."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobflow.core.json_values import copy_json
from jobflow.core.manifests.strategic_merge import merge, overlaid, patch_violations

KEYS = (
    "tasks template spec containers env ports volumes name mountPath containerPort protocol "
    "tolerations key value valueFrom command $patch $retainKeys emptyDir hostPath"
).split()
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "a", "TCP", "replace"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner),
    max_leaves=25,
)
OBJECTS = st.dictionaries(st.sampled_from(KEYS), JSON, max_size=5)


def pod(**spec: Any) -> dict[str, Any]:
    return {"tasks": [{"name": "w", "template": {"spec": spec}}]}


@given(OBJECTS)
def test_an_empty_patch_changes_nothing(spec: dict[str, Any]):
    assert merge(spec, {}) == spec == copy_json(spec)


@given(OBJECTS, OBJECTS)
def test_neither_side_is_changed_and_nothing_is_shared(spec: dict[str, Any], patch: dict[str, Any]):
    before = copy.deepcopy((spec, patch))
    result = merge(spec, patch)
    assert (spec, patch) == before
    assert not _containers_of(result) & (_containers_of(spec) | _containers_of(patch))


@given(OBJECTS, OBJECTS)
def test_an_overlay_equals_a_merge_and_changes_neither(spec: dict[str, Any], patch: dict[str, Any]):
    before = copy.deepcopy((spec, patch))
    assert overlaid(spec, patch) == merge(*before)
    assert (spec, patch) == before


def _containers_of(node: Any) -> set[int]:
    """Return the identity of each map and list."""
    if isinstance(node, dict):
        return {id(node)}.union(*map(_containers_of, node.values()))
    if isinstance(node, list):
        return {id(node)}.union(*map(_containers_of, node))
    return set()


def _with_keys(patch: Any) -> Any:
    """Return the patch without directives, and with the merge keys in each list element."""
    if isinstance(patch, dict):
        return {key: _with_keys(value) for key, value in patch.items() if not key.startswith("$")}
    if isinstance(patch, list):
        keys = {"name": "n", "mountPath": "/m", "containerPort": 1, "key": "k"}
        return [_with_keys(item) | keys if isinstance(item, dict) else {**keys} for item in patch]
    return patch


@given(OBJECTS, OBJECTS.map(_with_keys))
def test_a_patch_with_all_its_keys_is_idempotent(spec: dict[str, Any], patch: dict[str, Any]):
    once = merge(spec, patch)
    assert merge(once, patch) == once


@given(OBJECTS, OBJECTS)
def test_null_in_a_patch_removes_a_field(spec: dict[str, Any], patch: dict[str, Any]):
    result = merge(spec, patch)
    if patch.get("$patch") not in ("replace", "delete"):
        removed = {key for key, value in patch.items() if value is None and key[0] != "$"}
        assert not removed & result.keys()


@given(OBJECTS)
def test_nulls_and_directives_of_a_patch_are_not_in_the_result(patch: dict[str, Any]):
    assert not list(_leftovers(merge({}, patch)))


def _leftovers(node: Any) -> Any:
    if isinstance(node, dict):
        for key, value in node.items():
            if value is None or key in ("$patch", "$retainKeys"):
                yield key
            yield from _leftovers(value)
    elif isinstance(node, list):
        for item in node:
            yield from _leftovers(item)


@given(OBJECTS, st.text(), JSON)
def test_a_field_that_a_patch_does_not_name_is_kept(patch: dict[str, Any], key: str, value: Any):
    key = f"x-{key}"
    if patch.get("$patch") not in ("replace", "delete") and "$retainKeys" not in patch:
        assert merge({key: value}, patch)[key] == value


def deep(depth: int, key: str) -> dict[str, Any]:
    node: dict[str, Any] = {key: 1}
    for _ in range(depth):
        node = {"plugins": node}
    return node


@pytest.mark.long
def test_values_may_be_nested_deep():
    node: Any = merge(deep(3000, "a"), deep(3000, "b"))
    for _ in range(3000):
        node = node["plugins"]
    assert node == {"a": 1, "b": 1}
    lists: list[Any] = []
    for _ in range(3000):
        lists = [lists]
    assert merge({}, {"command": lists}).keys() == {"command"}
    assert list(patch_violations({"tasks": deep(3000, "a")}, "patch")) == []


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ({}, []),
        ({"queue": None, "tasks": [{"name": "w", "replicas": 2}], "brandNewField": 1}, []),
        ({"plugins": {"$retainKeys": ["env"]}, "tasks": [{"$patch": "replace"}]}, []),
        (pod(tolerations=[{"operator": "Exists"}]), []),
        ({"tasks": [{"replicas": 2}]}, []),
        (pod(containers=[{"image": "x"}]), []),
        ({"tasks": [{"replicas": 2}, {"name": "w"}]},
         ["p.tasks[0].name: Required value: this list merges by name; set the name of the element "
          "to change"]),
        ({"volumes": [{"name": "v"}, "x"]},
         ["p.volumes[0].mountPath: Required value: this list merges by mountPath; set the "
          "mountPath of the element to change"]),
        (pod(topologySpreadConstraints=[{"topologyKey": "z"}]),
         ["p.tasks[0].template.spec.topologySpreadConstraints[0].whenUnsatisfiable: Required "
          "value: this list merges by whenUnsatisfiable; set the whenUnsatisfiable of the element "
          "to change"]),
        ({"tasks": [{"name": "w", "$patch": "replace", "replicas": 1}]},
         ["p.tasks[0].$patch: Forbidden: replaces the whole list, so it must be an element of its "
          "own (`- $patch: replace`), beside the elements of the new list"]),
        ({"plugins": {"$patch": "remove"}},
         ['p.plugins.$patch: Unsupported value: "remove": supported values: "replace", "delete", '
          '"merge"']),
        ({"$setElementOrder/tasks": [{"name": "w"}]},
         ["p[$setElementOrder/tasks]: Forbidden: unknown directive; use $patch or $retainKeys"]),
        ({"plugins": {"$retainKeys": ["env", 1]}},
         ['p.plugins.$retainKeys: Invalid value: ["env",1]: must be a list of the field names to '
          "keep"]),
    ],
)  # fmt: skip
def test_faults_of_patches_are_reported(patch: dict[str, Any], words: list[str]):
    assert [str(violation) for violation in patch_violations(patch, "p")] == words


@given(OBJECTS)
def test_no_patch_makes_the_check_raise(patch: dict[str, Any]):
    for violation in patch_violations(patch, "p"):
        assert str(violation).startswith("p.")
