"""Strategic merge patch of built-in kinds: lists whose elements have a key are merged by it.

Source: k8s.io/apimachinery pkg/util/strategicpatch; the keys are the patchMergeKey tags of the
types that this server holds. A list that is not named here is replaced.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jobflow.sandbox.apiserver.failures import bad_request

_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "env": "name",
    "volumes": "name",
    "imagePullSecrets": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
    "conditions": "type",
    "podIPs": "ip",
    "ownerReferences": "uid",
    "webhooks": "name",
}
"""Lists of objects, by the name of their field."""
_SETS = frozenset({"finalizers"})
"""Lists of plain values to which a patch adds."""

_DIRECTIVE = "$patch"
_ORDER = "$setElementOrder/"
_REMOVED = "$deleteFromPrimitiveList/"
_RETAINED = "$retainKeys"


def strategic_merge(target: Any, patch: Any) -> Any:
    """The target with the patch merged in. Neither is changed. Raises Failure, 400."""
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
    """Carry out what a key that begins with a dollar asks for."""
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
