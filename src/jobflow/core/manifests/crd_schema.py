"""Validation of an object against its CRD's schema, offline, with the API server's messages.

The messages are those of kube-apiserver 1.36, with the correct spelling added. A null counts as a
missing field, except in a list, and `status` is not checked, because an API server ignores it in
objects of users. In two cases the faults differ: a wrong type at an enum is one fault and not two,
and an integer beyond int32 has its own path and not `<nil>`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any

import jsonschema_rs
import msgspec

from jobflow.api.crd import INT_OR_STRING, PRESERVED, Schema, openapi_schema
from jobflow.api.kinds import KINDS
from jobflow.api.volcano.job import JobSpec
from jobflow.core.manifests import schema_hints
from jobflow.core.manifests.job_fields import meant, place_of
from jobflow.core.suggest import Suggester, did_you_mean, list_supported, normalize_word
from jobflow.core.violations import MAX_FINDINGS, Reason, Violation, quote

_INT32 = 2**31

_STEPS, _FINALLY_STEPS = "spec.flows[]", "spec.finally[]"
_FLOW_TEMPLATE = ["spec", "jobFlowTemplate", "spec"]
"""Place of the spec of a flow in a CronJobFlow."""
_TEXT = {"type": "string"}
_TEXTS = {"type": "object", "additionalProperties": _TEXT}
_ANY_OBJECTS = {"type": "array", "items": {"type": "object", PRESERVED: True}}
_OBJECT_META: Schema = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("name", "generateName", "namespace", "uid", "resourceVersion"), _TEXT),
        **dict.fromkeys(("selfLink", "creationTimestamp", "deletionTimestamp"), _TEXT),
        **dict.fromkeys(("generation", "deletionGracePeriodSeconds"), {"type": "integer"}),
        **dict.fromkeys(("labels", "annotations"), _TEXTS),
        "finalizers": {"type": "array", "items": _TEXT},
        **dict.fromkeys(("ownerReferences", "managedFields"), _ANY_OBJECTS),
    },
}
"""Schema of `metadata`, which no CRD has (k8s.io/apimachinery/pkg/apis/meta/v1 ObjectMeta)."""


def schema_violations(kind: str, obj: Any, *, strict: bool) -> list[Violation]:
    """Return the first MAX_FINDINGS faults of `obj`, plain JSON, in its order. KeyError for a kind
    without a CRD. `strict`: an unknown field, which an API server prunes, is a fault too."""
    try:
        return list(islice(_misfits(_root(kind, strict), obj, ()), MAX_FINDINGS))
    except ValueError as error:  # a key that is no text, a date, 255 levels, half a surrogate pair
        detail = f"cannot be read as JSON: {error}"
        return [Violation("", Reason.TYPE_INVALID, schema_hints.type_name(obj), detail)]


def job_spec_violations(spec: Any, path: str) -> Iterator[Violation]:
    """Yield the values of a wrong type in the vcjob spec at `path`."""
    try:
        # faster than the schema, and nearly all specs are valid
        msgspec.convert(spec, JobSpec)
    except (msgspec.ValidationError, UnicodeEncodeError):
        for violation in schema_violations("JobTemplate", {"spec": spec}, strict=False):
            at = path + violation.path.removeprefix("spec")
            detail = violation.detail.removeprefix(f"{violation.path} in body ")
            yield Violation(at, violation.reason, violation.value, detail)


class _Part:
    """A part of a kind's schema, with validators for the value with and without its content."""

    def __init__(self, kind: str, schema: Schema) -> None:
        self.kind = kind
        self.schema = schema

    @cached_property
    def fits(self) -> Callable[[Any], bool]:
        return jsonschema_rs.Draft202012Validator(self.schema).is_valid

    @cached_property
    def errors(self) -> Callable[[Any], Iterable[jsonschema_rs.ValidationError]]:
        """Return the errors of a value without those of its content."""
        own = {key: value for key, value in self.schema.items() if key in _OF_THE_VALUE}
        return jsonschema_rs.Draft202012Validator(own).iter_errors

    @cached_property
    def known(self) -> Mapping[str, _Part]:
        fields = self.schema.get("properties", {}).items()
        return {name: _Part(self.kind, part) for name, part in fields}

    @cached_property
    def others(self) -> _Part | None:
        """Part of every other field; None: any value is valid, or none."""
        return self._below("additionalProperties")

    @cached_property
    def items(self) -> _Part | None:
        return self._below("items")

    def _below(self, word: str) -> _Part | None:
        part = self.schema.get(word)
        return _Part(self.kind, part) if isinstance(part, dict) else None


_ARTICLES = {
    "array": "a list",
    "object": "a map",
    "string": "a text",
    "integer": "a number",
    "boolean": "true or false",
}
_OF_THE_VALUE = frozenset({"type", "enum", "minimum", "maximum"})


def _misfits(part: _Part, value: Any, path: schema_hints.Path) -> Iterator[Violation]:
    # the usual case takes one call of the library
    if part.fits(value):
        return
    # part by part, because the library finds all errors at once, and the caller may stop reading
    errors = list(part.errors(value))
    mistyped_errors = [error for error in errors if error.kind.name == "type"]
    for error in mistyped_errors or errors:
        details, found = error.kind.as_dict(), error.instance
        if error.kind.name == "type":
            expected = ",".join(name for name in details["types"] if name != "null")
            yield schema_hints.mistyped(path, expected, found)
        elif error.kind.name == "enum":
            options = [option for option in details["options"] if option is not None]
            detail = list_supported(found if len(options) > 1 else None, options)
            yield Violation(schema_hints.json_path(path), Reason.NOT_SUPPORTED, found, detail)
        else:  # minimum, maximum: `_json_schema` writes no others
            detail = "must be of type integer with format int32"
            yield Violation(schema_hints.json_path(path), Reason.INVALID, found, detail)
    if mistyped_errors:
        return  # its content has no schema to compare with
    if isinstance(value, dict):
        for name, inner in value.items():
            below_it = part.known.get(name, part.others)
            if below_it is not None:
                yield from _misfits(below_it, inner, [*path, name])
            elif part.schema.get("additionalProperties") is False:
                detail = f"unknown field{_meant(part, path, name, inner)}"
                at = schema_hints.json_path([*path, name])
                yield Violation(at, Reason.FORBIDDEN, None, detail)
    elif isinstance(value, list) and part.items is not None:
        for i, item in enumerate(value):
            yield from _misfits(part.items, item, [*path, i])


@lru_cache(maxsize=8)
def _root(kind: str, strict: bool) -> _Part:
    schema = openapi_schema(kind)
    properties = schema["properties"]
    version = {"type": "string", "enum": [KINDS[kind].resource.api_version]}
    known = {"apiVersion": version, "kind": _TEXT}
    status = {"status": {PRESERVED: True}} if "status" in properties else {}
    whole = schema | {"properties": properties | known | {"metadata": _OBJECT_META} | status}
    return _Part(kind, _json_schema(whole, strict))


def _json_schema(schema: Schema, strict: bool, *, nullable: bool = False) -> Schema:
    """Return our structural schema (no required fields, no ranges) as JSON Schema 2020-12."""
    nullable = nullable or bool(schema.get("nullable"))
    out: Schema = {}
    types = ["integer", "string"] if schema.get(INT_OR_STRING) else [schema.get("type")]
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
    elif strict and "properties" in schema and not schema.get(PRESERVED):
        out["additionalProperties"] = False
    if "properties" in schema:
        fields = schema["properties"].items()
        # a null counts as a missing field
        out["properties"] = {n: _json_schema(s, strict, nullable=True) for n, s in fields}
    return out


def _meant(part: _Part, path: schema_hints.Path, name: str, value: Any) -> str:
    kind, prefix = part.kind, ""
    if kind == "CronJobFlow" and [*path[:3]] == _FLOW_TEMPLATE:
        kind, path, prefix = "JobFlow", ["spec", *path[3:]], "spec.jobFlowTemplate."
    if kind == "JobTemplate" and path[:1] == ["spec"]:
        return meant(place_of(path[1:]), name)
    at = schema_hints.json_path(path)
    words = schema_hints.fields_of_other_tools(at) if kind == "JobFlow" else {}
    if ours := words.get(name):
        target = _part_at(_root(kind, True) if ours.startswith("spec.") else part, ours)
        if target is None or target.fits(value):
            return f"; here that is {ours}"
        for other in schema_hints.other_forms(ours.rpartition(".")[2], value):
            if target.fits(other):
                return f"; here that is {ours}: {quote(other)}"
        types = target.schema.get("type", [])
        article = next((words for each, words in _ARTICLES.items() if each in types), "a value")
        return f"; here that is {ours}, {article}"
    fitting = [each for each, below in part.known.items() if _is_of_type(below, value)]
    guess = Suggester(fitting).nearest(name)
    # not only a matter of capitals and hyphens
    if guess is None or normalize_word(guess) != normalize_word(name):
        found = _places(kind).get(name, [])
        here = "".join("[]" if isinstance(part, int) else f".{part}" for part in path)[1:]
        if here.startswith(_FINALLY_STEPS):
            found = [place.replace(_STEPS, _FINALLY_STEPS, 1) for place in found]
        # places below this object come first: the field is probably one level too high
        found = [place for place in found if place.startswith(f"{here}.")] or found
        root = _root(kind, True)
        places = [place for place in found if _is_of_type(_part_at(root, place), value)]
        of_jobs = kind == "JobFlow" and path[:1] == ["spec"] and name in _places("JobTemplate")
        if places and not (of_jobs and len(path) > 1):
            return f"; it belongs in {' or '.join(prefix + place for place in places[:2])}"
        if of_jobs and guess is None:
            (place, *_) = _places("JobTemplate")[name]
            inner = place.removeprefix("spec.")
            where = f"{place} of the JobTemplate, or {inner} in jobSpec or patch.jobSpec"
            return f"; it is a job's: {where}"
    return did_you_mean(guess)


def _part_at(part: _Part, place: str) -> _Part | None:
    """Return the part at a place such as `flows[].flow`, or None for a text that is none."""
    found: _Part | None = part
    for key in re.findall(r"\w+|\[\]", place):
        if found is not None:
            found = found.items if key == "[]" else found.known.get(key)
    return found if re.fullmatch(r"[\w.\[\]]+", place) else None


def _is_of_type(part: _Part | None, value: Any) -> bool:
    if part is None or any(part.errors(value)):
        return False
    if not isinstance(value, list) or part.items is None:
        return True
    return not any(error for item in value for error in part.items.errors(item))


@lru_cache(maxsize=4)
def _places(kind: str) -> dict[str, list[str]]:
    """Map field names to their places, outermost first: `spec.flows[].name`, not in finally."""
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


def without_nulls(kind: str, obj: Any) -> Any:
    """Return a copy of plain JSON without the nulls that an API server reads as missing fields: all
    but those in lists and patches (k8s.io/apiextensions-apiserver, structural defaulting)."""
    return _without(obj, _schema(kind))


@lru_cache(maxsize=4)
def _schema(kind: str) -> Schema:
    schema = openapi_schema(kind)
    return schema | {"properties": schema["properties"] | {"metadata": {"properties": {}}}}


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
