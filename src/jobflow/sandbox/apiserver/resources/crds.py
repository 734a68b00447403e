"""CustomResourceDefinitions: their rules, and the kinds that they define."""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

import jsonschema_rs

from jobflow.api.resources import ObjectMeta
from jobflow.core.violations import Reason, Violation
from jobflow.sandbox.apiserver.kinds import Kind, Object, Registry, Rules, require
from jobflow.sandbox.apiserver.resources.metadata import now
from jobflow.sandbox.apiserver.resources.table import AGE, NAME, crd_column
from jobflow.sandbox.apiserver.storage import ObjectChange

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""Finalizer that keeps a CRD until its objects are deleted."""


class DefinitionRules(Rules):
    """Rules of a CustomResourceDefinition. Its objects are served as soon as it is stored."""

    def complete(self, obj: Object, old: Object | None = None) -> list[str]:
        spec = obj.get("spec")
        if isinstance(spec, dict):
            spec.setdefault("conversion", {"strategy": "None"})
            names = spec.get("names")
            if isinstance(names, dict) and names.get("kind"):
                names.setdefault("listKind", f"{names['kind']}List")
                names.setdefault("singular", str(names["kind"]).lower())
        return []

    def begin(self, obj: Object) -> None:
        spec = obj.get("spec") or {}
        stored = (version for version in spec.get("versions") or () if version.get("storage"))
        accepted = {"reason": "NoConflicts", "message": "no conflicts found"}
        why = "the initial names have been accepted"
        established = {"reason": "InitialNamesAccepted", "message": why}
        holds = {"status": "True", "lastTransitionTime": now()}
        obj["status"] = {
            "conditions": [
                {"type": "NamesAccepted", **holds, **accepted},
                {"type": "Established", **holds, **established},
            ],
            "acceptedNames": spec.get("names") or {},
            "storedVersions": [version.get("name") for version in stored],
        }

    def mark(self, obj: Object) -> None:
        finalizers = obj["metadata"].setdefault("finalizers", [])
        if CLEANUP not in finalizers:
            # Its objects are deleted first, while they can still be named.
            obj["metadata"]["finalizers"] = [*finalizers, CLEANUP]

    def violations(self, obj: Object, old: Object | None) -> Iterator[Violation]:
        spec = obj.get("spec") or {}
        names = spec.get("names") or {}
        yield from require(spec, "spec", "group", "scope", "names", "versions")
        yield from require(names, "spec.names", "plural", "kind")
        if obj["metadata"]["name"] != f"{names.get('plural')}.{spec.get('group')}":
            detail = 'must be spec.names.plural+"."+spec.group'
            yield Violation("metadata.name", Reason.INVALID, obj["metadata"]["name"], detail)
        if spec.get("scope") not in ("Cluster", "Namespaced", None):
            detail = 'supported values: "Cluster", "Namespaced"'
            yield Violation("spec.scope", Reason.NOT_SUPPORTED, spec["scope"], detail)
        versions = spec.get("versions") or []
        if sum(bool(version.get("storage")) for version in versions) != 1:
            detail = "must have exactly one version marked as storage version"
            names_of_versions = [version.get("name") for version in versions]
            yield Violation("spec.versions", Reason.INVALID, names_of_versions, detail)
        for index, version in enumerate(versions):
            schema = (version.get("schema") or {}).get("openAPIV3Schema")
            where = f"spec.versions[{index}].schema.openAPIV3Schema"
            if not schema:
                yield Violation(where, Reason.REQUIRED, None, "schemas are required")
                continue
            if schema.get("type") != "object":
                detail = "must be object at the root"
                yield Violation(f"{where}.type", Reason.INVALID, schema.get("type"), detail)
            yield from _structural(schema, where)
        if spec.get("conversion", {}).get("strategy") != "None":
            detail = "this server converts by changing apiVersion alone"
            yield Violation("spec.conversion.strategy", Reason.NOT_SUPPORTED, "Webhook", detail)


def _structural(schema: Any, path: str) -> Iterator[Violation]:
    """Yield violations of schemas that this server does not support: untyped places, and CEL."""
    if not isinstance(schema, dict):
        yield Violation(path, Reason.TYPE_INVALID, type(schema).__name__, "must be a schema")
        return
    # Accepted but not evaluated, rules would seem to hold.
    if "x-kubernetes-validations" in schema:
        detail = "this server does not evaluate CEL"
        yield Violation(f"{path}.x-kubernetes-validations", Reason.FORBIDDEN, None, detail)
    typed = ("type", "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields")
    if not any(schema.get(word) for word in typed):
        detail = "must not be empty for specified object fields"
        yield Violation(f"{path}.type", Reason.REQUIRED, None, detail)
    for name, inner in (schema.get("properties") or {}).items():
        yield from _structural(inner, f"{path}.properties[{name}]")
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            yield from _structural(schema[word], f"{path}.{word}")


def kinds_of(definition: Mapping[str, Any]) -> Iterator[Kind]:
    spec = definition["spec"]
    names, group = spec["names"], spec["group"]
    stored = next(version["name"] for version in spec["versions"] if version["storage"])
    for version in spec["versions"]:
        if not version.get("served"):
            continue
        name, schema = version["name"], version["schema"]["openAPIV3Schema"]
        subresources = frozenset({"status"} & set(version.get("subresources") or ()))
        columns = [*map(crd_column, version.get("additionalPrinterColumns") or ())]
        kind = Kind(
            group=group,
            version=name,
            plural=names["plural"],
            kind=names["kind"],
            singular=names.get("singular", ""),
            list_kind=names.get("listKind", ""),
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            namespaced=spec["scope"] == "Namespaced",
            subresources=subresources,
            custom=True,
            generation=True,
            columns=(NAME, *(columns or [AGE])),
            rules=SchemaRules(schema, status_apart=bool(subresources)),
            openapi=schema,
        )
        if name != stored:
            shown, kept = f"{group}/{name}", f"{group}/{stored}"
            show, take = _with_version(shown), _with_version(kept)
            kind = replace(kind, stored_as=kind.qualified, show=show, take=take)
        yield kind


def _with_version(api_version: str) -> Callable[[Object], Object]:
    return lambda obj: obj | {"apiVersion": api_version}


def update_registry(registry: Registry, crd_bucket: str, bucket: str, change: ObjectChange) -> None:
    """Serve the kinds of a definition that was written, or withdraw them if it was deleted."""
    if bucket != crd_bucket:
        return
    spec, is_gone = change.new.obj["spec"], change.type == "DELETED"
    if change.old is not None and change.old.obj["spec"] == spec and not is_gone:
        return
    # A version that is no longer served must not stay.
    registry.withdraw(spec["group"], spec["names"]["plural"])
    for kind in () if is_gone else kinds_of(change.new.obj):
        registry.serve(kind)


_OBJECT_META = {
    *ObjectMeta.__struct_encode_fields__,
    *("selfLink", "deletionGracePeriodSeconds", "managedFields"),
}
_TYPE_FIELDS = frozenset(("apiVersion", "kind", "metadata"))
_ABSENT = object()


class SchemaNode:
    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.type = str(schema.get("type", ""))
        if schema.get("x-kubernetes-int-or-string"):
            self.type = "integer,string"
        additional, items = schema.get("additionalProperties"), schema.get("items")
        self.nullable = bool(schema.get("nullable"))
        keeps = schema.get("x-kubernetes-preserve-unknown-fields")
        self.keeps_unknown = bool(keeps) or additional is True
        self.embedded = bool(schema.get("x-kubernetes-embedded-resource"))
        self.default = schema.get("default", _ABSENT)
        self.required = tuple(schema.get("required", ()))
        self.properties = {k: SchemaNode(v) for k, v in schema.get("properties", {}).items()}
        self.items = SchemaNode(items) if isinstance(items, dict) else None
        self.additional = SchemaNode(additional) if isinstance(additional, dict) else None
        own = {word: schema[word] for word in _MESSAGES if word in schema and word != "format"}
        if schema.get("format") == "date-time":
            own["format"] = "date-time"
        validator = jsonschema_rs.Draft4Validator(own, validate_formats=True) if own else None
        self._errors = validator.iter_errors if validator else lambda value: ()
        self._logic = [
            (jsonschema_rs.Draft4Validator({word: schema[word]}).is_valid, words)
            for word, words in _LOGIC.items()
            if word in schema
        ]

    def complete(self, value: Any, path: str, dropped: list[str], old: Any = _ABSENT) -> None:
        """Prune unknown fields and forbidden nulls, and set defaults, in place. Parts that are
        those of `old`, which was completed before, stay as they are."""
        if value is old:
            return
        if isinstance(value, list) and self.items is not None:
            for index, item in enumerate(value):
                self.items.complete(item, f"{path}[{index}]", dropped)
        if not isinstance(value, dict):
            return
        before = old if isinstance(old, dict) else {}
        for key in list(value):
            where = f"{path}.{key}" if path else key
            node = self.properties.get(key, self.additional)
            # A null of a field that is not nullable means that a default applies.
            if node is not None and value[key] is None and node.type and not node.nullable:
                del value[key]
            elif node is not None:
                node.complete(value[key], where, dropped, before.get(key, _ABSENT))
            elif not self.keeps_unknown and not (self.embedded and key in _TYPE_FIELDS):
                del value[key]
                dropped.append(where)
        for key, node in self.properties.items():
            if node.default is not _ABSENT and key not in value:
                value[key] = deepcopy(node.default)
                node.complete(value[key], f"{path}.{key}", dropped)

    def violations(self, value: Any, path: str, old: Any = _ABSENT) -> Iterator[Violation]:
        # Ratcheting, as in kube-apiserver: what was stored before a schema changed may stay.
        if (old is not _ABSENT and value == old) or (value is None and self.nullable):
            return
        found = _TYPES[type(value)]
        if found == "number" and value.is_integer():
            found = "integer"  # as in Go
        is_number = found == "integer" and self.type == "number"
        if self.type and found not in self.type.split(",") and not is_number:
            detail = f'{path} in body must be of type {self.type}: "{found}"'
            yield Violation(path, Reason.TYPE_INVALID, found, detail)
            return
        for error in self._errors(value):
            word, shown, params = error.kind.name, error.instance, error.kind.as_dict()
            if word == "enum":
                options = params["options"]
                texts = (f'"{each}"' if isinstance(each, str) else f"{each}" for each in options)
                params["options"] = ", ".join(texts)
            reason, words = _MESSAGES[word]
            size = len(shown) if isinstance(shown, list | dict) else 0
            detail = words.format(path=f"{path} in body", size=size, value=shown, **params)
            yield Violation(path, reason, size if word in _SIZES else shown, detail)
        for holds, words in self._logic:
            if not holds(value):
                yield Violation(path, Reason.INVALID, "", f'"{path}" {words}')
        if isinstance(value, list) and self.items is not None:
            for index, item in enumerate(value):
                yield from self.items.violations(item, f"{path}[{index}]")
        if not isinstance(value, dict):
            return
        before = old if isinstance(old, dict) else {}
        for key in self.required:
            if key not in value:
                yield Violation(f"{path}.{key}" if path else key, Reason.REQUIRED, None, "")
        for key, inner in value.items():
            node = self.properties.get(key, self.additional)
            if node is not None:
                where = f"{path}.{key}" if path else key
                yield from node.violations(inner, where, before.get(key, _ABSENT))


class SchemaRules(Rules):
    def __init__(self, schema: Mapping[str, Any], *, status_apart: bool = False) -> None:
        self._status_apart = status_apart
        self._root = SchemaNode(schema)
        for name in _TYPE_FIELDS:
            self._root.properties.pop(name, None)
        self._root.embedded = True

    def complete(self, obj: Object, old: Object | None = None) -> list[str]:
        dropped: list[str] = []
        for key in [key for key in obj["metadata"] if key not in _OBJECT_META]:
            del obj["metadata"][key]
            dropped.append(f"metadata.{key}")
        self._root.complete(obj, "", dropped, _ABSENT if old is None else old)
        return dropped

    def violations(self, obj: Object, old: Object | None) -> Iterator[Violation]:
        for fault in self._root.violations(obj, "", _ABSENT if old is None else old):
            if self._status_apart:  # a real server validates the status separately
                fault = replace(fault, detail=fault.detail.removeprefix("status."))
            yield fault


_TYPES: dict[type[Any], str] = {
    **{str: "string", bool: "boolean", int: "integer", float: "number"},
    **{dict: "object", list: "array", type(None): "null"},
}

_LOGIC = {
    "allOf": "must validate all the schemas (allOf)",
    "anyOf": "must validate at least one schema (anyOf)",
    "oneOf": "must validate one and only one schema (oneOf)",
    "not": "must not validate the schema (not)",
}
_MESSAGES = {
    "enum": (Reason.NOT_SUPPORTED, "supported values: {options}"),
    "pattern": (Reason.INVALID, "{path} should match '{pattern}'"),
    "format": (Reason.TYPE_INVALID, '{path} must be of type date-time: "{value}"'),
    "minimum": (Reason.INVALID, "{path} should be greater than or equal to {limit}"),
    "exclusiveMinimum": (Reason.INVALID, "{path} should be greater than {limit}"),
    "maximum": (Reason.INVALID, "{path} should be less than or equal to {limit}"),
    "exclusiveMaximum": (Reason.INVALID, "{path} should be less than {limit}"),
    "minLength": (Reason.INVALID, "{path} should be at least {limit} chars long"),
    "minItems": (Reason.INVALID, "{path} should have at least {limit} items"),
    "minProperties": (Reason.INVALID, "{path} should have at least {limit} properties"),
    "maxLength": (Reason.TOO_LONG, "may not be more than {limit} bytes"),
    "maxItems": (Reason.TOO_MANY, "{size}: must have at most {limit} items"),
    "maxProperties": (Reason.TOO_MANY, "{size}: must have at most {limit} items"),
}
"""Reason and message of the library's errors, whose parameters fill the gaps."""
_SIZES = ("minItems", "minProperties")
