"""Holds an object against its CRD's schema, offline: every misfit, in an API server's own words.

It judges shapes only; what a valid shape may not say, `core.validate` knows. As an API server
does (k8s.io/apiextensions-apiserver), it takes a null for a field that is not there, except in a
list, and leaves `status` alone, which no user writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache, reduce
from itertools import islice
from typing import Any

import jsonschema_rs
import msgspec

from jobflow.api.job import JobSpec
from jobflow.api.resources import JOBFLOWS, JOBTEMPLATES
from jobflow.api.schema.crd import openapi_schema
from jobflow.core.manifests.job_fields import meant, place_of
from jobflow.core.manifests.schema_hints import of_field, of_type
from jobflow.core.suggest import Suggester, did_you_mean, list_supported, normalize_word
from jobflow.core.violations import MAX_FINDINGS, Reason, Violation, join_path

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
    """The first MAX_FINDINGS misfits of `obj`, plain JSON, with the CRD of `kind`, in the order of
    the object.

    `strict`: a field that the schema does not know is one too, with what was probably meant; else
    it passes, as an API server prunes it. KeyError for a kind that has no CRD of ours.
    """
    try:
        return list(islice(_misfits(_root(kind, strict), obj, ()), MAX_FINDINGS))
    except ValueError as error:  # a key that is no text, a date, 255 levels, half a surrogate pair
        detail = f"cannot be read as JSON: {error}"
        return [Violation("", Reason.TYPE_INVALID, _type_name(obj), detail)]


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


def json_path(path: Path) -> str:
    """A path's parts as one text: `spec.flows[2].name`."""
    return reduce(join_path, path, "")


class _Part:
    """A part of the schema of a kind: what all of a value has to fit, and what the value itself
    has to fit whatever is in it. The library makes every error of a value at once, so a value that
    does not fit is looked at part by part, and no further than somebody wants to know."""

    def __init__(self, kind: str, schema: Schema) -> None:
        self.kind = kind
        self._schema = schema

    @cached_property
    def fits(self) -> Callable[[Any], bool]:
        """Whether a value fits, with all that is in it."""
        return jsonschema_rs.Draft202012Validator(self._schema).is_valid

    @cached_property
    def errors(self) -> Callable[[Any], Iterable[jsonschema_rs.ValidationError]]:
        """The errors of a value without those of what is in it."""
        own = {key: value for key, value in self._schema.items() if key in _OF_THE_VALUE}
        return jsonschema_rs.Draft202012Validator(own).iter_errors

    @cached_property
    def known(self) -> Mapping[str, _Part]:
        """The fields that the schema names."""
        fields = self._schema.get("properties", {}).items()
        return {name: _Part(self.kind, part) for name, part in fields}

    @cached_property
    def others(self) -> _Part | None:
        """What every other field has to fit; None: anything goes, or nothing."""
        return self._below("additionalProperties")

    @cached_property
    def items(self) -> _Part | None:
        """What every item of a list has to fit."""
        return self._below("items")

    @property
    def closed(self) -> bool:
        """Whether a field that the schema does not name is an error."""
        return self._schema.get("additionalProperties") is False

    def _below(self, word: str) -> _Part | None:
        part = self._schema.get(word)
        return _Part(self.kind, part) if isinstance(part, dict) else None


_OF_THE_VALUE = frozenset({"type", "enum", "minimum", "maximum"})


def _misfits(part: _Part, value: Any, path: Path) -> Iterator[Violation]:
    """The misfits of a value that stands at a path."""
    if part.fits(value):
        return
    errors = list(part.errors(value))
    mistyped = [error for error in errors if error.kind.name == "type"]
    for error in mistyped or errors:
        yield _translated(error, path)
    if isinstance(value, dict) and not mistyped:
        yield from _misfits_of_fields(part, value, path)
    elif isinstance(value, list) and part.items is not None and not mistyped:
        for i, item in enumerate(value):
            yield from _misfits(part.items, item, [*path, i])


def _misfits_of_fields(part: _Part, value: Mapping[str, Any], path: Path) -> Iterator[Violation]:
    for name, inner in value.items():
        below_it = part.known.get(name, part.others)
        if below_it is not None:
            yield from _misfits(below_it, inner, [*path, name])
        elif part.closed:
            detail = f"unknown field{_meant(part, path, name)}"
            yield Violation(json_path([*path, name]), Reason.FORBIDDEN, None, detail)


@lru_cache(maxsize=8)
def _root(kind: str, strict: bool) -> _Part:
    return _Part(kind, _json_schema(_whole(kind), strict))


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


def _translated(error: jsonschema_rs.ValidationError, path: Path) -> Violation:
    """An error of the library about the value at a path."""
    said = error.kind.as_dict()
    match error.kind.name:
        case "type":
            expected = ",".join(name for name in said["types"] if name != "null")
            return mistyped(path, expected, error.instance)
        case "enum":
            options = [option for option in said["options"] if option is not None]
            detail = list_supported(error.instance if len(options) > 1 else None, options)
            return Violation(json_path(path), Reason.NOT_SUPPORTED, error.instance, detail)
        case _:  # minimum, maximum: `_json_schema` writes no others
            detail = "must be of type integer with format int32"
            return Violation(json_path(path), Reason.INVALID, error.instance, detail)


def mistyped(path: Path, expected: str, value: Any) -> Violation:
    """A value of the wrong JSON type, in the words of k8s.io/kube-openapi, where the "value" is the
    type that was found."""
    at, found = json_path(path), _type_name(value)
    where = f"{at} in body " if at else ""
    detail = f'{where}must be of type {expected}: "{found}"'
    detail += of_type(path, expected, found, value)
    return Violation(at, Reason.TYPE_INVALID, found, detail)


def _type_name(value: Any) -> str:
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}
    return "null" if value is None else names.get(type(value), "object")


def _meant(part: _Part, path: Path, name: str) -> str:
    """What somebody meant who wrote an unknown field: a field beside it, or one that belongs
    elsewhere."""
    kind = part.kind
    if kind == "JobTemplate" and path[:1] == ["spec"]:
        return meant(place_of(path[1:]), name)
    if kind == "JobFlow" and (word := of_field(json_path(path), name)):
        return word
    guess = Suggester(list(part.known)).nearest(name)
    if guess is None or normalize_word(guess) != normalize_word(name):
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


_METADATA: Schema = {"properties": {}}


def without_nulls(kind: str, obj: Any) -> Any:
    """A copy of a JobFlow or JobTemplate, plain JSON, without the nulls that an API server takes
    for fields that are not there (k8s.io/apiextensions-apiserver, structural schema defaulting).

    Those in lists stay, and those in free-form parts, where a patch removes by them.
    """
    return _without(obj, _schema(kind))


@lru_cache(maxsize=4)
def _schema(kind: str) -> Schema:
    schema = openapi_schema(kind)
    return schema | {"properties": schema["properties"] | {"metadata": _METADATA}}


def _without(value: Any, schema: Schema) -> Any:
    if isinstance(value, list) and "items" in schema:
        return [_without(item, schema["items"]) for item in value]
    properties = schema.get("properties")
    if not isinstance(value, dict) or properties is None:
        return value
    return {
        key: _without(each, properties.get(key, {}))
        for key, each in value.items()
        if each is not None
    }
