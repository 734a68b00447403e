"""Checks that a body matches its URL and that its metadata has the right types.

The messages are those of Go's decoder, which users find in search engines.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from jobflow.core.violations import Reason, Violation
from jobflow.sandbox.apiserver.kinds import Kind, Object
from jobflow.sandbox.apiserver.requests.failures import RequestFailure, bad_request, invalid_as
from jobflow.sandbox.apiserver.requests.operations import Target

_SUMMARY = 30
"""Bytes of the body that an error message repeats."""


class Mistyped(ValueError):
    """A metadata field has the wrong type."""


def unrecognized(kind: Kind, body: bytes, why: str) -> RequestFailure:
    """Return 400 for a body that is not an object."""
    return bad_request(
        f"the object provided is unrecognized (must be of type {kind.kind}): {why} "
        f"({_summary(body)})"
    )


def unhandled(obj: Object, kind: Kind, why: object) -> RequestFailure:
    """Return 400 for an object that cannot be read as its kind."""
    found = str(obj.get("kind") or kind.kind)
    version = str(obj.get("apiVersion") or kind.version).rpartition("/")[2]
    return bad_request(f'{found} in version "{version}" cannot be handled as a {kind.kind}: {why}')


def _summary(body: bytes) -> str:
    if not body:
        return "<empty>"
    shown = body[:_SUMMARY]
    text = shown.decode(errors="replace") if body.startswith(b"{") else shown.hex()
    return f"{text} ..." if len(body) > _SUMMARY else text


def check_kind(kind: Kind, obj: Object, body: bytes) -> None:
    """Raise RequestFailure if the object has another kind or version; a built-in may omit them."""
    if not obj.get("kind") and kind.custom:
        raise unrecognized(kind, body, f"Object 'Kind' is missing in '{body.decode()}'")
    version = obj.setdefault("apiVersion", "" if kind.custom else kind.api_version)
    if version != kind.api_version:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version "
            f"({kind.api_version})"
        )
    if obj.setdefault("kind", kind.kind) != kind.kind:
        if not kind.custom:
            raise unhandled(obj, kind, f"no kind {obj['kind']} is registered for this path")
        raise _misnamed(obj, "kind", kind.kind)


def keep_kind(kind: Kind, obj: Object) -> None:
    """Raise RequestFailure if a patch changed the object's kind or version."""
    for field, wanted in (("apiVersion", kind.api_version), ("kind", kind.kind)):
        if obj.get(field) != wanted:
            raise _misnamed(obj, field, wanted)


def _misnamed(obj: Object, field: str, wanted: str) -> RequestFailure:
    fault = Violation(field, Reason.INVALID, obj.get(field), f"must be {wanted}")
    group = str(obj.get("apiVersion")).rpartition("/")[0]
    metadata = obj.get("metadata")
    name = str(metadata.get("name") or "") if isinstance(metadata, dict) else ""
    return invalid_as(group, str(obj.get("kind")), name, [fault])


def check_address(target: Target, obj: Object) -> None:
    """Set the URL's namespace; raise RequestFailure, 400, if the object is not the URL's."""
    metadata = obj["metadata"]
    if metadata.get("namespace") not in (None, "", target.namespace):
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if target.namespace:
        metadata["namespace"] = target.namespace
    else:
        metadata.pop("namespace", None)
    if target.name and not metadata.get("name"):
        raise bad_request(
            f"the name of the object ({target.name} based on URL) was undeterminable: name must be "
            "provided"
        )
    if target.name and metadata["name"] != target.name:
        raise bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL "
            f"({target.name})"
        )


def check_metadata(obj: Object) -> None:
    """Raise Mistyped if metadata has a wrong type; remove nulls in place."""
    if obj.get("metadata") is None:
        obj["metadata"] = {}
    metadata = obj["metadata"]
    if not isinstance(metadata, dict):
        raise Mistyped(
            f"json: cannot unmarshal {go_word(metadata)} into Go value of type v1.ObjectMeta"
        )
    for name in [name for name in _FIELDS if name in metadata and metadata[name] is None]:
        del metadata[name]
    for field, value, go in (*_outer(metadata), *_inner(metadata)):
        raise Mistyped(
            f"json: cannot unmarshal {go_word(value)} into Go struct field {field} of type {go}"
        )
    for name in _TIMES:
        _check_time(metadata.get(name))


Wrong = tuple[str, Any, str]


def _outer(metadata: dict[str, Any]) -> Iterator[Wrong]:
    """Yield mistyped fields of metadata and of its maps; turn null in a map into ""."""
    for name, (wanted, go) in _FIELDS.items():
        if name in metadata and type(metadata[name]) is not wanted:
            yield f"ObjectMeta.{name}", metadata[name], go
            return
    for name in ("labels", "annotations"):
        for key, value in metadata.get(name, {}).items():
            if value is None:
                metadata[name][key] = ""
            elif not isinstance(value, str):
                yield f"ObjectMeta.{name}", value, "string"


def _inner(metadata: dict[str, Any]) -> Iterator[Wrong]:
    if not all(isinstance(metadata.get(name, []), list) for name in _LISTS):
        return
    for finalizer in metadata.get("finalizers", ()):
        if not isinstance(finalizer, str):
            yield "ObjectMeta.finalizers", finalizer, "string"
    for reference in metadata.get("ownerReferences", ()):
        if not isinstance(reference, dict):
            yield "ObjectMeta.ownerReferences", reference, "v1.OwnerReference"
            return
        for name in ("apiVersion", "kind", "name", "uid"):
            if not isinstance(reference.get(name, ""), str):
                yield f"OwnerReference.ownerReferences.{name}", reference[name], "string"


def _check_time(text: str | None) -> None:
    if text is None:
        return
    try:
        moment = datetime.fromisoformat(text)
        if "T" not in text or moment.tzinfo is None:
            raise ValueError(text)
    except ValueError as error:
        raise Mistyped(
            f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": it is not an RFC 3339 time'
        ) from error


_TEXTS = ("name", "generateName", "namespace", "resourceVersion")
_TIMES = ("creationTimestamp", "deletionTimestamp")
_LISTS = {"ownerReferences": "[]v1.OwnerReference", "finalizers": "[]string"}
_FIELDS: dict[str, tuple[type[object], str]] = {
    **dict.fromkeys(_TEXTS, (str, "string")),
    "uid": (str, "types.UID"),
    **dict.fromkeys(("generation", "deletionGracePeriodSeconds"), (int, "int64")),
    **dict.fromkeys(_TIMES, (str, "string")),
    **dict.fromkeys(("labels", "annotations"), (dict, "map[string]string")),
    **{name: (list, go) for name, go in _LISTS.items()},
}


def go_word(value: Any) -> str:
    """Return Go's word for the type of a JSON value."""
    words = {bool: "bool", int: "number", float: "number", dict: "object", list: "array"}
    return words.get(type(value), "string")
