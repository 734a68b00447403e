"""JSON merge patch (RFC 7386), JSON patch (RFC 6902) and strategic merge patch.

No function changes its arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jobflow.sandbox.apiserver.bodies.checks import go_word
from jobflow.sandbox.apiserver.requests.failures import RequestFailure, bad_request, failure, status

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
    for operation in operations:
        document = _carry_out(document, operation)
    return document


def _carry_out(document: Any, operation: Mapping[str, Any]) -> Any:
    path = _pointer(operation.get("path"))
    match operation.get("op"):
        case "add":
            return _set(document, path, operation.get("value"), insert=True)
        case "replace":
            return _set(document, path, operation.get("value"), insert=False)
        case "remove":
            return _remove(document, path)
        case "test":
            if _same(_get(document, path), operation.get("value")):
                return document
            raise _failed()
        case "copy":
            value = _get(document, _pointer(operation.get("from")))
            return _set(document, path, value, insert=True)
        case "move":
            source = _pointer(operation.get("from"))
            return _set(_remove(document, source), path, _get(document, source), insert=True)
    raise _failed()


def _failed() -> Exception:
    """Return the only failure that a real API server gives for an operation."""
    message = "the server rejected our request due to an error in our request"
    return RequestFailure(status(422, "Invalid", message, {}))


def _pointer(text: Any) -> list[str]:
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise _failed()
    return [token.replace("~1", "/").replace("~0", "~") for token in text.split("/")[1:]]


def _same(one: Any, other: Any) -> bool:
    """Compare as JSON does: true is not 1."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _index(items: list[Any], token: str, *, end: bool) -> int:
    """Convert a token to a list index; with `end`, also one past the last item."""
    if token == "-" and end:  # noqa: S105 - RFC 6901's word for the end
        return len(items)
    if token.isdecimal() and int(token) < len(items) + end:
        return int(token)
    raise _failed()


def _get(document: Any, path: list[str]) -> Any:
    for token in path:
        if isinstance(document, list):
            document = document[_index(document, token, end=False)]
        elif isinstance(document, dict) and token in document:
            document = document[token]
        else:
            raise _failed()
    return document


def _set(document: Any, path: list[str], value: Any, *, insert: bool) -> Any:
    if not path:
        return value
    token, rest = path[0], path[1:]
    if isinstance(document, list):
        index = _index(document, token, end=insert and not rest)
        inner = value if not rest else _set(document[index], rest, value, insert=insert)
        behind = index if insert and not rest else index + 1
        return [*document[:index], inner, *document[behind:]]
    if not isinstance(document, dict) or (rest and token not in document):
        raise _failed()
    inner = value if not rest else _set(document[token], rest, value, insert=insert)
    return document | {token: inner}


def _remove(document: Any, path: list[str]) -> Any:
    if not path:
        return None
    token, rest = path[0], path[1:]
    if isinstance(document, list):
        index = _index(document, token, end=False)
        kept = [_remove(document[index], rest)] if rest else []
        return [*document[:index], *kept, *document[index + 1 :]]
    if not isinstance(document, dict) or token not in document:
        raise _failed()
    if rest:
        return document | {token: _remove(document[token], rest)}
    return {key: value for key, value in document.items() if key != token}


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
        if key.startswith("$"):
            _directive(merged, key, value)
        elif value is None:
            merged.pop(key, None)
        else:
            merged[key] = _value(key, merged.get(key), value)
    return merged


def _directive(merged: dict[str, Any], key: str, value: Any) -> None:
    if key.startswith(_REMOVED):
        field = key.removeprefix(_REMOVED)
        merged[field] = [item for item in merged.get(field) or () if item not in value]
    elif not key.startswith(_ORDER) and key != _RETAINED:
        raise bad_request(f"unknown directive {key} in a strategic merge patch")


def _value(key: str, current: Any, patch: Any) -> Any:
    if not isinstance(patch, list):
        return strategic_merge(current, patch)
    if key in _SETS:
        kept = list(current or ())
        return kept + [item for item in patch if item not in kept]
    if key in _KEYS and all(isinstance(item, Mapping) for item in patch):
        return _merged_list(_KEYS[key], list(current or ()), patch)
    return patch


def _merged_list(key: str, current: list[Any], patch: list[Any]) -> list[Any]:
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
