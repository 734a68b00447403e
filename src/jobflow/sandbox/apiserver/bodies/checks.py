"""Checks that a body matches its URL and that its metadata has the right types.

The messages are those of Go's decoder, which users find in search engines.
"""

import re
from typing import Any, TypeVar

import msgspec

from jobflow.api.meta import ObjectMeta
from jobflow.core.violations import Reason, Violation
from jobflow.sandbox.apiserver.kinds import Kind, Object
from jobflow.sandbox.apiserver.requests.failures import RequestFailure, bad_request, invalid_as
from jobflow.sandbox.apiserver.requests.operations import Target

T = TypeVar("T")

_SUMMARY = 30
"""Bytes of the body that an error message repeats."""


class Mistyped(ValueError):
    """A field has the wrong type."""


def unrecognized(kind: Kind, body: bytes, why: str) -> RequestFailure:
    """Return 400 for a body that is not an object."""
    shown = body[:_SUMMARY]
    text = shown.decode(errors="replace") if body.startswith(b"{") else shown.hex()
    summary = (f"{text} ..." if len(body) > _SUMMARY else text) or "<empty>"
    what = f"the object provided is unrecognized (must be of type {kind.kind})"
    return bad_request(f"{what}: {why} ({summary})")


def unhandled(obj: Object, kind: Kind, why: object) -> RequestFailure:
    """Return 400 for an object that cannot be read as its kind."""
    found = str(obj.get("kind") or kind.kind)
    version = str(obj.get("apiVersion") or kind.version).rpartition("/")[2]
    return bad_request(f'{found} in version "{version}" cannot be handled as a {kind.kind}: {why}')


def check_kind(kind: Kind, obj: Object, body: bytes) -> None:
    """Raise RequestFailure if the object has another kind or version; a built-in may omit them."""
    if not obj.get("kind") and kind.custom:
        raise unrecognized(kind, body, f"Object 'Kind' is missing in '{body.decode()}'")
    version = obj.setdefault("apiVersion", "" if kind.custom else kind.api_version)
    if version != kind.api_version:
        found, expected = f"({version})", f"the expected API version ({kind.api_version})"
        raise bad_request(f"the API version in the data {found} does not match {expected}")
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
        where = "the namespace of the provided object"
        raise bad_request(f"{where} does not match the namespace sent on the request")
    if target.namespace:
        metadata["namespace"] = target.namespace
    else:
        metadata.pop("namespace", None)
    if target.name and not metadata.get("name"):
        name = f"the name of the object ({target.name} based on URL)"
        raise bad_request(f"{name} was undeterminable: name must be provided")
    if target.name and metadata["name"] != target.name:
        name = f"the name of the object ({metadata['name']})"
        raise bad_request(f"{name} does not match the name on the URL ({target.name})")


def check_metadata(obj: Object) -> None:
    """Raise Mistyped if metadata has a wrong type; remove nulls in place."""
    metadata = obj.get("metadata")
    # Go reads a null as if the field were missing.
    if isinstance(metadata, dict):
        metadata = {name: value for name, value in metadata.items() if value is not None}
        for name in ("labels", "annotations"):
            if isinstance(entries := metadata.get(name), dict):
                metadata[name] = {k: "" if v is None else v for k, v in entries.items()}
    obj["metadata"] = {} if metadata is None else metadata
    convert(obj["metadata"], ObjectMeta)


def convert(value: Any, kind: type[T]) -> T:
    """Convert a JSON value to a type. Raises Mistyped."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        text = str(error)
    fault = _FAULT.fullmatch(text)
    path = re.sub(r"\[[^]]*\]", "", text.partition(" - at `$.")[2].rstrip("`"))
    if fault is None:
        layout = "2006-01-02T15:04:05Z07:00"
        why = "it is not an RFC 3339 time"
        raise Mistyped(f'parsing time "{value[path]}" as "{layout}": {why}')
    place, wanted = f"struct field {kind.__name__}.{path}", _GO_TYPES[fault[1]]
    if not path:
        place, wanted = "value", f"v1.{kind.__name__}"
    elif path == "ownerReferences":
        wanted = "[]v1.OwnerReference" if fault[1] == "array" else "v1.OwnerReference"
    found = _GO_WORDS.get(fault[2], fault[2])
    raise Mistyped(f"json: cannot unmarshal {found} into Go {place} of type {wanted}")


_FAULT = re.compile(r"Expected `(\w+)(?: \| null)?`, got `(\w+)`.*")
_GO_TYPES = {
    **{"str": "string", "int": "int64", "bool": "bool", "datetime": "string"},
    **{"object": "map[string]string", "array": "[]string"},
}
"""Go's type of a field, by msgspec's word."""
_GO_WORDS = {"int": "number", "float": "number", "dict": "object", "list": "array", "str": "string"}


def go_word(value: Any) -> str:
    """Return Go's word for the type of a JSON value."""
    return "string" if value is None else _GO_WORDS.get(type(value).__name__, "bool")
