"""Objects and changes that request bodies ask for. Unknown and duplicate fields are an error
(Strict), a warning (Warn) or dropped (Ignore)."""

import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from jobflow.api.resources import ObjectMeta
from jobflow.core.json_values import copy_json
from jobflow.core.violations import Reason, Violation
from jobflow.sandbox.apiserver.kinds import Kind, Object
from jobflow.sandbox.apiserver.requests import codec, failures, patches
from jobflow.sandbox.apiserver.requests.failures import RequestFailure, bad_request, invalid_as
from jobflow.sandbox.apiserver.requests.http import JSON, Request, encode
from jobflow.sandbox.apiserver.requests.targets import Target, WriteOptions
from jobflow.sandbox.apiserver.storage import Manager, Stored

Change = Callable[[Stored], Object]
"""Returns the wanted state for the current one; the caller may change the result."""

_NOT_PARSED = "couldn't get version/kind; json parse error: "


def new_object(target: Target, request: Request, write: WriteOptions) -> Object:
    """Return the object in a POST or PUT. Raises RequestFailure, 400, 415 or 422."""
    kind, body = target.kind, request.body
    decode = codec.decoder(request.content_type)
    try:
        obj = decode(body)
    except codec.UnreadableBody as error:
        prefix = "" if request.content_type == codec.YAML else _NOT_PARSED
        raise unrecognized(kind, body, f"{prefix}{error}") from error
    if not isinstance(obj, dict):
        found = codec.go_word(obj)
        why = f"{_NOT_PARSED}json: cannot unmarshal {found} into Go value of type struct"
        raise unrecognized(kind, body, why)
    check_kind(kind, obj, body)
    try:
        check_metadata(obj)
    except Mistyped as error:
        raise unhandled(obj, kind, error) from error
    check_address(target, obj)
    obj = kind.take(obj)
    if faults := _strict_faults(request, write, kind.rules.complete(obj)):
        raise unhandled(obj, kind, f"strict decoding error: {', '.join(faults)}")
    return obj


def change_by_put(target: Target, request: Request, write: WriteOptions) -> Change:
    """Return the change that a PUT asks for. It and the change raise RequestFailure."""
    obj = new_object(target, request, write)

    def change(current: Stored) -> Object:
        metadata = dict(obj["metadata"])
        uid = metadata.get("uid")
        if uid and uid != current.uid:
            kind = target.kind
            parts = ("/registry", kind.group, kind.plural, target.namespace, target.name)
            raise failures.conflict(
                kind,
                target.name,
                f"StorageError: invalid object, Code: 4, Key: {'/'.join(filter(None, parts))}, "
                "ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: "
                f"{uid}, UID in object meta: {current.uid}",
            )
        # Built-in kinds allow an unconditional update, custom ones do not.
        if not metadata.get("resourceVersion") and target.kind.custom:
            detail = "must be specified for an update"
            fault = Violation("metadata.resourceVersion", Reason.INVALID, 0, detail)
            raise failures.invalid_as(target.kind.group, target.kind.plural, target.name, [fault])
        return {**obj, "metadata": metadata}

    return change


def read_applied(target: Target, request: Request, *, exists: bool) -> Object:
    """Return the configuration of a server-side apply. Raises RequestFailure. If the object exists,
    the body need not name it."""
    kind = target.kind
    if not request.query.get("fieldManager"):
        fault = "is required for apply patch"
        raise failures.invalid_option("PatchOptions", "fieldManager", Reason.REQUIRED, None, fault)
    try:
        obj = _mapping(codec.load_yaml(request.body))
        check_metadata(obj)
    except (codec.UnreadableBody, Mistyped) as error:
        raise failures.bad_request(f"error decoding YAML: {error}") from error
    declared = (obj.get("apiVersion") or "", obj.get("kind") or "")
    if declared != (kind.api_version, kind.kind):
        group, _, version = str(declared[0]).rpartition("/")
        raise failures.bad_request(f"invalid object type: {group}/{version}, Kind={declared[1]}")
    namespace = obj["metadata"].get("namespace") or ""
    if exists:
        obj["metadata"].setdefault("name", target.name)
    check_address(target, obj)
    # A client that edits what it has read sends them back.
    obj["metadata"].pop("managedFields", None)
    obj = kind.take(obj)
    if dropped := kind.rules.complete(obj):
        whose = f"{namespace}/{target.name}; {kind.api_version}, Kind={kind.kind}"
        why = f".{dropped[0]}: field not declared in schema"
        raise failures.failure(500, "", f"failed to create typed patch object ({whose}): {why}")
    return obj


def change_by_patch(target: Target, request: Request, write: WriteOptions) -> Change:
    """Return the change that a PATCH asks for. Raises RequestFailure."""
    try:
        patch = codec.load(request.body)
    except codec.UnreadableBody as error:
        raise failures.bad_request(f"error decoding patch: {error}") from error
    if request.content_type == patches.JSON_PATCH:
        apply: Callable[[Any, Any], Any] = patches.json_patch
    else:
        patch = _mapping(patch)
        is_strategic = request.content_type == patches.STRATEGIC
        apply = patches.strategic_merge if is_strategic else patches.merge

    def change(current: Stored) -> Object:
        if request.content_type == patches.MERGE and target.kind.custom:
            # All that it leaves alone is shared with the stored object, whose status may be large.
            obj = {**current.obj, "metadata": copy_json(current.metadata)}
        else:
            obj = codec.load(current.body)
        obj = apply(target.kind.show(obj), patch)
        return _revision(target, request, write, obj, current)

    return change


def change_by_apply(
    target: Target, request: Request, write: WriteOptions, applied: Object
) -> Change:
    """Return the change that a server-side apply asks for. Raises RequestFailure."""
    show, manager = target.kind.show, manager_of(target, request)
    wanted = show(applied)

    def change(current: Stored) -> Object:
        obj = show(codec.load(current.body))
        before = {each: show(codec.load(body)) for each, body in current.applied.items()}
        # Fields that others applied stay, although this manager leaves them out now.
        mine = before.pop(manager, {})
        obj = patches.without_left_out(obj, mine, wanted, [*before.values()])
        return _revision(target, request, write, patches.merge(obj, wanted), current)

    return change


def manager_of(target: Target, request: Request) -> Manager:
    return request.query["fieldManager"], target.subresource


def _revision(
    target: Target, request: Request, write: WriteOptions, obj: Any, current: Stored
) -> Object:
    if not isinstance(obj, dict):
        raise failures.bad_request("error decoding patch: the result is not a JSON object")
    for field, wanted in (("apiVersion", target.kind.api_version), ("kind", target.kind.kind)):
        if obj.get(field) != wanted:
            raise _misnamed(obj, field, wanted)
    try:
        check_metadata(obj)
    except Mistyped as error:
        raise failures.invalid_patch(encode(obj).decode(), str(error)) from error
    check_address(target, obj)
    new = target.kind.take(obj)
    # The patch may have removed it.
    new["metadata"].setdefault("resourceVersion", str(current.revision))
    if faults := _strict_faults(request, write, target.kind.rules.complete(new, current.obj)):
        message = f"strict decoding error: {', '.join(faults)}"
        raise failures.invalid_patch(encode(new).decode(), message)
    return new


def _mapping(loaded: Any) -> Object:
    if not isinstance(loaded, dict):
        why = f"json: cannot unmarshal {codec.go_word(loaded)} into Go value of type"
        raise failures.bad_request(f"error decoding patch: {why} map[string]interface {{}}")
    return loaded


def _strict_faults(request: Request, write: WriteOptions, dropped: list[str]) -> list[str]:
    """Return the faults that Strict refuses; with Warn, turn them into warnings."""
    if write.field_validation == "Ignore":
        return []
    is_json = request.content_type in (JSON, patches.MERGE)
    twice = codec.duplicate_keys(request.body) if is_json else []
    faults = [f'duplicate field "{path}"' for path in twice]
    dropped = sorted(dropped, key=lambda path: (not path.startswith("metadata."), path))
    faults += [f'unknown field "{path}"' for path in dropped]
    if write.field_validation == "Strict":
        return faults
    request.warnings.extend(fault for fault in faults if fault not in request.warnings)
    return []


T = TypeVar("T")

_SUMMARY = 30


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
    found = codec.GO_WORDS.get(fault[2], fault[2])
    raise Mistyped(f"json: cannot unmarshal {found} into Go {place} of type {wanted}")


_FAULT = re.compile(r"Expected `(\w+)(?: \| null)?`, got `(\w+)`.*")
_GO_TYPES = {
    **{"str": "string", "int": "int64", "bool": "bool", "datetime": "string"},
    **{"object": "map[string]string", "array": "[]string"},
}
"""Go's type of a field, by msgspec's word."""
