"""Patches: merge (RFC 7386), JSON (RFC 6902), strategic merge, apply. Arguments never change."""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from jobflow.core.json_values import copy_json, is_same_json
from jobflow.sandbox.apiserver.requests.codec import go_word
from jobflow.sandbox.apiserver.requests.failures import RequestFailure, bad_request, failure

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"

MAX_OPERATIONS = 10_000
"""Maximum number of operations in a JSON patch, as in kube-apiserver."""


def merge(target: Any, patch: Any) -> Any:
    """Return the target with a merge patch applied: null removes, a list replaces."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


def without_left_out(
    current: Mapping[str, Any],
    before: Mapping[str, Any],
    wanted: Mapping[str, Any],
    others: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the current object without the fields that a manager applied `before` and leaves out
    of `wanted`. A field stays if its value has changed since, or if `others`, the objects of the
    other managers, have it with this value. A map that becomes empty is removed."""
    kept = dict(current)
    for key in before.keys() & current.keys():
        value, theirs = current[key], [other[key] for other in others if key in other]
        if isinstance(value, Mapping) and isinstance(before[key], Mapping):
            inner = [other for other in theirs if isinstance(other, Mapping)]
            given = wanted.get(key)
            given = given if isinstance(given, Mapping) else {}
            kept[key] = value = without_left_out(value, before[key], given, inner)
            is_left_out = not value
        else:
            is_left_out = is_same_json(value, before[key])
        if is_left_out and key not in wanted and not any(is_same_json(value, o) for o in theirs):
            del kept[key]
    return kept


def json_patch(document: Any, operations: Any) -> Any:
    """Return the document after all operations. Raises RequestFailure, 400, 413 or 422."""
    if not isinstance(operations, list) or not all(isinstance(o, dict) for o in operations):
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {go_word(operations)} into Go value of "
            "type []handlers.jsonPatchOp"
        )
    if len(operations) > MAX_OPERATIONS:
        limit = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}"
        raise failure(413, "RequestEntityTooLarge", f"{limit}, got {len(operations)}")
    # With the document under "", the pointer to the whole is like any other.
    holder = copy_json({"": document})
    for operation in copy_json({"": operations})[""]:
        container, token = _place(holder, operation.get("path"))
        value = operation.get("value")
        match operation.get("op"):
            case "add":
                _add(container, token, value)
            case "replace":
                if isinstance(container, list):
                    _take(container, token)
                _add(container, token, value)
            case "remove":
                _take(container, token)
            case "test":
                if not is_same_json(_child(container, token), value):
                    raise _failed()
            case "copy":
                source = _child(*_place(holder, operation.get("from")))
                _add(container, token, copy_json({"": source})[""])
            case "move":
                # Taken first: its removal may move the place that it goes to.
                value = _take(*_place(holder, operation.get("from")))
                _add(*_place(holder, operation.get("path")), value)
            case _:
                raise _failed()
    return holder.get("")


def _failed() -> Exception:
    """Return the only failure that a real API server gives for an operation."""
    why = "the server rejected our request due to an error in our request"
    failed = failure(422, "Invalid", why)
    return RequestFailure({**failed.status, "details": {}})


def _place(holder: dict[str, Any], pointer: Any) -> tuple[Any, str]:
    """Return the container that a JSON pointer (RFC 6901) leads to, and the token in it."""
    if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")):
        raise _failed()
    *path, last = (token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/"))
    return reduce(_child, path, holder), last


def _index(items: list[Any], token: str, *, end: bool = False) -> int:
    """Convert a token to a list index; with `end`, also one past the last item."""
    if token == "-" and end:  # noqa: S105 - RFC 6901's word for the end
        return len(items)
    if token.isdecimal() and int(token) < len(items) + end:
        return int(token)
    raise _failed()


def _child(container: Any, token: str) -> Any:
    if isinstance(container, list):
        return container[_index(container, token)]
    if isinstance(container, dict) and token in container:
        return container[token]
    raise _failed()


def _add(container: Any, token: str, value: Any) -> None:
    if isinstance(container, list):
        container.insert(_index(container, token, end=True), value)
    elif isinstance(container, dict):
        container[token] = value
    else:
        raise _failed()


def _take(container: Any, token: str) -> Any:
    value = _child(container, token)
    del container[_index(container, token) if isinstance(container, list) else token]
    return value


_KEYS = {
    **dict.fromkeys(("containers", "initContainers", "ephemeralContainers", "env"), "name"),
    **dict.fromkeys(("volumes", "imagePullSecrets", "webhooks"), "name"),
    **dict.fromkeys(("hostAliases", "podIPs"), "ip"),
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "topologySpreadConstraints": "topologyKey",
    "conditions": "type",
    "ownerReferences": "uid",
}
"""Merge key of each list of objects, by field name."""
_SETS = frozenset({"finalizers"})
"""Lists of plain values that a patch extends."""

_DIRECTIVE = "$patch"
_ORDER = "$setElementOrder/"
_REMOVED = "$deleteFromPrimitiveList/"
_RETAINED = "$retainKeys"


def strategic_merge(target: Any, patch: Any) -> Any:
    """Return the target with a strategic merge patch applied. Raises RequestFailure, 400."""
    if not isinstance(patch, Mapping):
        return patch
    if patch.get(_DIRECTIVE) == "replace":
        return {key: value for key, value in patch.items() if key != _DIRECTIVE}
    merged = dict(target) if isinstance(target, Mapping) else {}
    if _RETAINED in patch:
        merged = {key: value for key, value in merged.items() if key in patch[_RETAINED]}
    for key, value in patch.items():
        if key.startswith(_REMOVED):
            field = key.removeprefix(_REMOVED)
            merged[field] = [item for item in merged.get(field) or () if item not in value]
        elif key == _RETAINED or key.startswith(_ORDER):
            continue
        elif key.startswith("$"):
            raise bad_request(f"unknown directive {key} in a strategic merge patch")
        elif value is None:
            merged.pop(key, None)
        elif isinstance(value, list):
            merged[key] = _merged_list(key, list(merged.get(key) or ()), value)
        else:
            merged[key] = strategic_merge(merged.get(key), value)
    return merged


def _merged_list(field: str, current: list[Any], patch: list[Any]) -> list[Any]:
    if field in _SETS:
        return current + [item for item in patch if item not in current]
    key = _KEYS.get(field)
    if key is None or not all(isinstance(item, Mapping) for item in patch):
        return patch
    # The directive replaces the list, and is no element of it.
    if any(item == {_DIRECTIVE: "replace"} for item in patch):
        return [item for item in patch if _DIRECTIVE not in item]
    for item in patch:
        if key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {key}")
        at = next((i for i, old in enumerate(current) if old.get(key) == item[key]), None)
        if item.get(_DIRECTIVE) == "delete":
            current = [old for old in current if old.get(key) != item[key]]
        elif at is None:
            current = [*current, strategic_merge({}, item)]
        else:
            current = [*current[:at], strategic_merge(current[at], item), *current[at + 1 :]]
    return current
