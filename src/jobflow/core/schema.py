"""Holds an object against its CRD's schema, offline: every misfit, in an API server's own words.

It judges shapes only; what a valid shape may not say, `core.validate` knows. As an API server
does (k8s.io/apiextensions-apiserver), it takes a null for a field that is not there, except in a
list, and leaves `status` alone, which no user writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, reduce
from typing import Any

import jsonschema_rs
import msgspec

from jobflow.api.crd import openapi_schema
from jobflow.api.job import JobSpec
from jobflow.api.resources import JOBFLOWS, JOBTEMPLATES
from jobflow.core.remedies import of_field, of_type
from jobflow.core.suggest import Suggester, did_you_mean, plain, supported
from jobflow.core.violations import Reason, Violation, below

Schema = dict[str, Any]
Path = Sequence[str | int]

_PRESERVED = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_INT32 = 2**31
_RESOURCES = {"JobFlow": JOBFLOWS, "JobTemplate": JOBTEMPLATES}

_STEPS, _LAST = "spec.flows[]", "spec.finally[]"
_TEXT = {"type": "string"}
_TEXTS = {"type": "object", "additionalProperties": _TEXT}
_OBJECT_META: Schema = {
    "type": "object",
    "properties": {
        "name": _TEXT,
        "generateName": _TEXT,
        "namespace": _TEXT,
        "uid": _TEXT,
        "resourceVersion": _TEXT,
        "selfLink": _TEXT,
        "generation": {"type": "integer"},
        "creationTimestamp": _TEXT,
        "deletionTimestamp": _TEXT,
        "deletionGracePeriodSeconds": {"type": "integer"},
        "labels": _TEXTS,
        "annotations": _TEXTS,
        "finalizers": {"type": "array", "items": _TEXT},
        "ownerReferences": {"type": "array", "items": {"type": "object", _PRESERVED: True}},
        "managedFields": {"type": "array", "items": {"type": "object", _PRESERVED: True}},
    },
}
"""What every CRD leaves to the API server (k8s.io/apimachinery/pkg/apis/meta/v1 ObjectMeta)."""


def schema_violations(kind: str, obj: Any, *, strict: bool) -> list[Violation]:
    """All misfits of `obj`, plain JSON, with the CRD of `kind`, in the order of the object.

    `strict`: a field that the schema does not know is one too, with what was probably meant; else
    it passes, as an API server prunes it. KeyError for a kind that has no CRD of ours.
    """
    validator = _validator(kind, strict)
    try:
        errors = list(validator.iter_errors(obj))
    except ValueError as error:  # a key that is no text, a date, 255 levels, half a surrogate pair
        detail = f"cannot be read as JSON: {error}"
        return [Violation("", Reason.TYPE_INVALID, _type_name(obj), detail)]
    mistyped = {tuple(error.instance_path) for error in errors if error.kind.name == "type"}
    found = [
        (path, violation)
        for error in errors
        if error.kind.name == "type" or tuple(error.instance_path) not in mistyped
        for path, violation in _translated(kind, error)
    ]
    order = _Order(obj)
    found.sort(key=lambda pair: order.of(pair[0]))
    return [violation for _, violation in found]


def job_spec_violations(spec: Any, path: str) -> Iterator[Violation]:
    """All that has the wrong type in a vcjob spec that stands at `path`. A good one costs two
    microseconds: it is read as the type first."""
    try:
        msgspec.convert(spec, JobSpec)
    except (msgspec.ValidationError, UnicodeEncodeError):
        for violation in schema_violations("JobTemplate", {"spec": spec}, strict=False):
            at = path + violation.path.removeprefix("spec")
            detail = violation.detail.removeprefix(f"{violation.path} in body ")
            yield Violation(at, violation.reason, violation.value, detail)


def misspelt_fields(spec: Mapping[str, Any], path: str) -> Iterator[Violation]:
    """Fields of a vcjob spec, or of a patch of one, that are nearly known ones. Others that are
    not known pass: a newer Volcano may know them. Pod templates are not looked into."""
    work: list[tuple[Any, Schema, str]] = [(spec, _job_spec_schema(), path)]
    for node, schema, at in work:  # grows as it goes, level by level
        if isinstance(node, list):
            items = schema.get("items")
            work += [(item, items, f"{at}[{i}]") for i, item in enumerate(node) if items]
        elif isinstance(node, dict) and (fields := schema.get("properties")):
            for name, value in node.items():
                if (inner := fields.get(name)) is not None:
                    work.append((value, inner, below(at, name)))
                elif guess := Suggester(list(fields)).nearest(name):
                    detail = f"unknown field{did_you_mean(guess)}"
                    yield Violation(below(at, name), Reason.FORBIDDEN, None, detail)


@lru_cache(maxsize=1)
def _job_spec_schema() -> Schema:
    schema: Schema = openapi_schema("JobTemplate")["properties"]["spec"]
    return schema


def json_path(path: Path) -> str:
    """A path's parts as one text: `spec.flows[2].name`."""
    return reduce(below, path, "")


@lru_cache(maxsize=8)
def _validator(kind: str, strict: bool) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(_json_schema(_whole(kind), strict))


@lru_cache(maxsize=4)
def _whole(kind: str) -> Schema:
    """The CRD's schema with what an API server adds to it: metadata, and the group's version."""
    schema = openapi_schema(kind)
    properties = schema["properties"]
    known = {
        "apiVersion": {"type": "string", "enum": [_RESOURCES[kind].api_version]},
        "kind": _TEXT,
    }
    status = {"status": {_PRESERVED: True}} if "status" in properties else {}
    return schema | {"properties": properties | known | {"metadata": _OBJECT_META} | status}


def _json_schema(schema: Schema, strict: bool, *, nullable: bool = False) -> Schema:
    """A structural schema of ours (no required fields, no ranges) as JSON Schema 2020-12."""
    nullable = nullable or bool(schema.get("nullable"))
    out: Schema = {}
    types = ["integer", "string"] if schema.get(_INT_OR_STRING) else [schema.get("type")]
    if types != [None]:
        out["type"] = [*types, "null"] if nullable else types
    if "enum" in schema:
        out["enum"] = [*schema["enum"], None] if nullable else schema["enum"]
    if schema.get("format") == "int32":
        out |= {"minimum": -_INT32, "maximum": _INT32 - 1}
    if "items" in schema:
        out["items"] = _json_schema(schema["items"], strict)
    if isinstance(values := schema.get("additionalProperties"), dict):
        out["additionalProperties"] = _json_schema(values, strict, nullable=True)
    elif strict and "properties" in schema and not schema.get(_PRESERVED):
        out["additionalProperties"] = False
    if "properties" in schema:
        fields = schema["properties"].items()
        out["properties"] = {n: _json_schema(s, strict, nullable=True) for n, s in fields}
    return out


Found = Iterator[tuple[Path, Violation]]


def _translated(kind: str, error: jsonschema_rs.ValidationError) -> Found:
    """One error of the validator as violations; of unknown fields there may be several."""
    path: Path = error.instance_path
    said = error.kind.as_dict()
    match error.kind.name:
        case "type":
            expected = ",".join(name for name in said["types"] if name != "null")
            yield path, _mistyped(path, expected, error.instance)
        case "enum":
            options = [option for option in said["options"] if option is not None]
            detail = supported(error.instance if len(options) > 1 else None, options)
            yield path, Violation(json_path(path), Reason.NOT_SUPPORTED, error.instance, detail)
        case "additionalProperties":
            for name in said["unexpected"]:
                detail = f"unknown field{_meant(kind, error.schema_path[:-1], path, name)}"
                at = [*path, name]
                yield at, Violation(json_path(at), Reason.FORBIDDEN, None, detail)
        case _:  # minimum, maximum: `_json_schema` writes no others
            detail = "must be of type integer with format int32"
            yield path, Violation(json_path(path), Reason.INVALID, error.instance, detail)


def _mistyped(path: Path, expected: str, value: Any) -> Violation:
    """In the words of k8s.io/kube-openapi, where the "value" is the type that was found."""
    at, found = json_path(path), _type_name(value)
    where = f"{at} in body " if at else ""
    detail = f'{where}must be of type {expected}: "{found}"'
    detail += of_type(path, expected, found, value)
    return Violation(at, Reason.TYPE_INVALID, found, detail)


def _type_name(value: Any) -> str:
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}
    return "null" if value is None else names.get(type(value), "object")


def _meant(kind: str, schema_path: Path, path: Path, name: str) -> str:
    """What somebody meant who wrote an unknown field: a field beside it, or one that belongs
    elsewhere."""
    if kind == "JobFlow" and (word := of_field(json_path(path), name)):
        return word
    beside = list(_at(_whole(kind), schema_path)["properties"])
    guess = Suggester(beside).nearest(name)
    if guess is None or plain(guess) != plain(name):
        places = _places_from(kind, path, name)
        of_jobs = kind == "JobFlow" and path[:1] == ["spec"] and name in _places("JobTemplate")
        if places and not (of_jobs and len(path) > 1):
            return f"; it belongs in {' or '.join(places[:2])}"
        if of_jobs:
            (place, *_) = _places("JobTemplate")[name]
            inner = place.removeprefix("spec.")
            return f"; it is a job's: {place} of the JobTemplate, or {inner} in patch.jobSpec"
    return did_you_mean(guess)


def _places_from(kind: str, path: Path, name: str) -> list[str]:
    """Where a field has its place, as seen from a path: below it, or else anywhere."""
    places = _places(kind).get(name, [])
    here = "".join("[]" if isinstance(part, int) else f".{part}" for part in path)[1:]
    if here.startswith(_LAST):
        places = [place.replace(_STEPS, _LAST, 1) for place in places]
    return [place for place in places if place.startswith(f"{here}.")] or places


def _at(schema: Schema, schema_path: Path) -> Schema:
    """What stands at a place of the schema that an error names."""
    for part in schema_path:
        schema = schema[str(part)]
    return schema


@lru_cache(maxsize=4)
def _places(kind: str) -> dict[str, list[str]]:
    """Where in a spec each field name has its place, outermost first: `spec.flows[].name`. The
    steps of `finally` have those of the others."""
    places: dict[str, list[str]] = {}
    work: list[tuple[str, Schema]] = [("spec", openapi_schema(kind)["properties"]["spec"])]
    for at, schema in work:  # grows as it goes, level by level
        if "items" in schema:
            work.append((f"{at}[]", schema["items"]))
        for name, inner in schema.get("properties", {}).items():
            places.setdefault(name, []).append(f"{at}.{name}")
            if f"{at}.{name}" != "spec.finally":
                work.append((f"{at}.{name}", inner))
    return places


class _Order:
    """Where in an object each path stands, so that faults come in the order of reading."""

    def __init__(self, obj: Any) -> None:
        self._obj = obj
        self._indices: dict[int, dict[Any, int]] = {}

    def of(self, path: Path) -> tuple[int, ...]:
        """Positions from the outermost map or list inwards; a missing field comes last."""
        node = self._obj
        places = []
        for part in path:
            if isinstance(node, dict):
                if id(node) not in self._indices:
                    self._indices[id(node)] = {key: i for i, key in enumerate(node)}
                places.append(self._indices[id(node)].get(part, len(node)))
                node = node.get(part)
            else:
                places.append(int(part))
                node = node[part]
        return tuple(places)
