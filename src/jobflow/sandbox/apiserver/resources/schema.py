"""Structural schemas of CRDs: pruning, defaulting and validation of objects.

The messages are those of apiextensions (k8s.io/kube-openapi pkg/validation/errors). Formats other
than date-time are not checked, and CEL is not evaluated: `crds` refuses a schema that contains CEL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from datetime import datetime
from typing import Any

import jsonschema_rs

from jobflow.core.violations import Reason, Violation
from jobflow.sandbox.apiserver.kinds import Object, Rules

OBJECT_META = frozenset(
    "name generateName namespace selfLink uid resourceVersion generation creationTimestamp "
    "deletionTimestamp deletionGracePeriodSeconds labels annotations ownerReferences finalizers "
    "managedFields".split()
)
_TYPE_FIELDS = frozenset(("apiVersion", "kind", "metadata"))
_LOGIC = ("allOf", "anyOf", "oneOf", "not")
_ABSENT = object()

Check = Callable[[Any, str], Violation | None]


class SchemaNode:
    """One node of a compiled schema."""

    __slots__ = (
        "additional",
        "checks",
        "default",
        "embedded",
        "items",
        "keeps_unknown",
        "nullable",
        "properties",
        "required",
        "type",
    )

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.type = str(schema.get("type", ""))
        if schema.get("x-kubernetes-int-or-string"):
            self.type = "integer or string"
        self.nullable = bool(schema.get("nullable"))
        self.keeps_unknown = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
        self.embedded = bool(schema.get("x-kubernetes-embedded-resource"))
        self.default = schema.get("default", _ABSENT)
        self.required = tuple(schema.get("required", ()))
        self.properties = {k: SchemaNode(v) for k, v in schema.get("properties", {}).items()}
        self.items = SchemaNode(schema["items"]) if isinstance(schema.get("items"), dict) else None
        additional = schema.get("additionalProperties")
        self.additional = SchemaNode(additional) if isinstance(additional, dict) else None
        self.keeps_unknown |= additional is True
        self.checks = tuple(_checks(schema))

    @property
    def takes_null(self) -> bool:
        """Whether null is allowed: if the node is nullable or untyped."""
        return self.nullable or not self.type

    def complete(self, value: Any, path: str, dropped: list[str]) -> None:
        """Prune unknown fields and forbidden nulls, and set defaults, in place.

        A null in a list stays, so that validation refuses it.
        """
        if isinstance(value, dict):
            self._complete_object(value, path, dropped)
        elif isinstance(value, list) and self.items is not None:
            for index, item in enumerate(value):
                self.items.complete(item, f"{path}[{index}]", dropped)

    def _complete_object(self, value: Object, path: str, dropped: list[str]) -> None:
        for key in list(value):
            node = self.properties.get(key, self.additional)
            if node is not None and value[key] is None and not node.takes_null:
                del value[key]
            elif node is not None:
                node.complete(value[key], f"{path}.{key}" if path else key, dropped)
            elif not self.keeps_unknown and not (self.embedded and key in _TYPE_FIELDS):
                del value[key]
                dropped.append(f"{path}.{key}" if path else key)
        for key, node in self.properties.items():
            if node.default is not _ABSENT and key not in value:
                value[key] = deepcopy(node.default)
                node.complete(value[key], f"{path}.{key}", dropped)

    def violations(self, value: Any, path: str, old: Any = _ABSENT) -> Iterator[Violation]:
        """Yield the violations of a value. A value equal to `old` is not checked."""
        if old is not _ABSENT and value == old:
            return
        if value is None and self.nullable:
            return
        if fault := self._mistyped(value, path):
            yield fault
            return
        for check in self.checks:
            if fault := check(value, path):
                yield fault
        if isinstance(value, dict):
            yield from self._inside_object(value, path, old)
        elif isinstance(value, list) and self.items is not None:
            for index, item in enumerate(value):
                yield from self.items.violations(item, f"{path}[{index}]")

    def _inside_object(self, value: Object, path: str, old: Any) -> Iterator[Violation]:
        before = old if isinstance(old, dict) else {}
        for key in self.required:
            if key not in value:
                yield Violation(f"{path}.{key}" if path else key, Reason.REQUIRED, None, "")
        for key, inner in value.items():
            node = self.properties.get(key, self.additional)
            if node is not None:
                where = f"{path}.{key}" if path else key
                yield from node.violations(inner, where, before.get(key, _ABSENT))

    def _mistyped(self, value: Any, path: str) -> Violation | None:
        found = _type_of(value)
        wanted = self.type
        if (
            not wanted
            or found == wanted
            or (found == "integer" and wanted == "number")
            or (found in ("integer", "string") and wanted == "integer or string")
        ):
            return None
        wanted = wanted.replace(" or ", ",")
        detail = f'{path} in body must be of type {wanted}: "{found}"'
        return Violation(path, Reason.TYPE_INVALID, found, detail)


class SchemaRules(Rules):
    """Rules of a kind that a CRD's schema describes."""

    def __init__(self, schema: Mapping[str, Any], *, status_apart: bool = False) -> None:
        self._status_apart = status_apart
        self._root = SchemaNode(schema)
        for name in _TYPE_FIELDS:
            self._root.properties.pop(name, None)
        self._root.embedded = True

    def complete(self, obj: Object) -> list[str]:
        dropped: list[str] = []
        for key in [key for key in obj["metadata"] if key not in OBJECT_META]:
            del obj["metadata"][key]
            dropped.append(f"metadata.{key}")
        self._root.complete(obj, "", dropped)
        return dropped

    def violations(self, obj: Object, old: Object | None) -> Iterator[Violation]:
        for fault in self._root.violations(obj, "", _ABSENT if old is None else old):
            yield _of_status(fault) if self._status_apart else fault


def _of_status(fault: Violation) -> Violation:
    """Shorten the path in a status fault's message: the status is validated separately."""
    inside = fault.path.removeprefix("status.")
    detail = fault.detail.replace(f"{fault.path} in body", f"{inside} in body")
    return replace(fault, detail=detail)


def _type_of(value: Any) -> str:
    """Return the JSON schema type of a value; a whole float is an integer, as in Go."""
    if isinstance(value, float) and value.is_integer():
        return "integer"
    return _TYPES[type(value)]


_TYPES = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    dict: "object",
    list: "array",
    type(None): "null",
}


def _checks(schema: Mapping[str, Any]) -> Iterator[Check]:
    """Yield the value validations of one node."""
    for word, make in _WORDS.items():
        if word in schema:
            yield make(schema[word])
    if "maximum" in schema:
        yield _bound(schema, "maximum", "less", lambda value, limit: value > limit)
    if "minimum" in schema:
        yield _bound(schema, "minimum", "greater", lambda value, limit: value < limit)
    for word in _LOGIC:
        if word in schema:
            yield _logic(word, schema[word])


def _enum(allowed: list[Any]) -> Check:
    listed = ", ".join(f'"{value}"' if isinstance(value, str) else f"{value}" for value in allowed)

    def check(value: Any, path: str) -> Violation | None:
        if value in allowed:
            return None
        return Violation(path, Reason.NOT_SUPPORTED, value, f"supported values: {listed}")

    return check


def _bound(
    schema: Mapping[str, Any], word: str, than: str, beyond: Callable[[Any, Any], bool]
) -> Check:
    limit, exclusive = schema[word], schema.get(f"exclusive{word.capitalize()}")
    words = f"{than} than {limit}" if exclusive else f"{than} than or equal to {limit}"

    def check(value: Any, path: str) -> Violation | None:
        if not isinstance(value, (int, float)):
            return None
        if not beyond(value, limit) and not (exclusive and value == limit):
            return None
        return Violation(path, Reason.INVALID, value, f"{path} in body should be {words}")

    return check


def _pattern(pattern: str) -> Check:
    found = re.compile(pattern).search

    def check(value: Any, path: str) -> Violation | None:
        if not isinstance(value, str) or found(value):
            return None
        detail = f"{path} in body should match '{pattern}'"
        return Violation(path, Reason.INVALID, value, detail)

    return check


def _at_least(kind: type[Any], shown: Callable[[Any], Any], words: str) -> Callable[[int], Check]:
    def make(limit: int) -> Check:
        def check(value: Any, path: str) -> Violation | None:
            if not isinstance(value, kind) or len(value) >= limit:
                return None
            detail = f"{path} in body should {words.format(limit)}"
            return Violation(path, Reason.INVALID, shown(value), detail)

        return check

    return make


def _at_most(kind: type[Any], reason: Reason, words: str) -> Callable[[int], Check]:
    def make(limit: int) -> Check:
        def check(value: Any, path: str) -> Violation | None:
            if not isinstance(value, kind) or len(value) <= limit:
                return None
            return Violation(path, reason, value, words.format(len(value), limit))

        return check

    return make


def _format(name: str) -> Check:
    def check(value: Any, path: str) -> Violation | None:
        if name != "date-time" or not isinstance(value, str) or _is_date_time(value):
            return None
        detail = f'{path} in body must be of type date-time: "{value}"'
        return Violation(path, Reason.TYPE_INVALID, value, detail)

    return check


def _is_date_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None and "T" in text.upper()
    except ValueError:
        return False


def _logic(word: str, inner: Any) -> Check:
    """Check allOf, anyOf, oneOf or not as a whole, with one message."""
    holds = jsonschema_rs.validator_for({word: inner}).is_valid
    words = {
        "allOf": "must validate all the schemas (allOf)",
        "anyOf": "must validate at least one schema (anyOf)",
        "oneOf": "must validate one and only one schema (oneOf)",
        "not": "must not validate the schema (not)",
    }[word]

    def check(value: Any, path: str) -> Violation | None:
        if holds(value):
            return None
        return Violation(path, Reason.INVALID, "", f'"{path}" {words}')

    return check


_WORDS: dict[str, Callable[[Any], Check]] = {
    "enum": _enum,
    "pattern": _pattern,
    "format": _format,
    "minLength": _at_least(str, lambda value: value, "be at least {} chars long"),
    "minItems": _at_least(list, len, "have at least {} items"),
    "minProperties": _at_least(dict, len, "have at least {} properties"),
    "maxLength": _at_most(str, Reason.TOO_LONG, "may not be more than {1} bytes"),
    "maxItems": _at_most(list, Reason.TOO_MANY, "{}: must have at most {} items"),
    "maxProperties": _at_most(dict, Reason.TOO_MANY, "{}: must have at most {} items"),
}
