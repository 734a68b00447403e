"""Objects and changes that request bodies ask for, with field validation.

Unknown and duplicate fields are an error (Strict), a warning (Warn) or dropped (Ignore).
"""

from collections.abc import Callable
from typing import Any

from jobflow.core.json_values import copy_json
from jobflow.core.violations import Reason, Violation
from jobflow.sandbox.apiserver.bodies import checks, codec, patches
from jobflow.sandbox.apiserver.kinds import Kind, Object
from jobflow.sandbox.apiserver.requests import failures
from jobflow.sandbox.apiserver.requests.http import JSON, Request, encode
from jobflow.sandbox.apiserver.requests.operations import Target, WriteOptions
from jobflow.sandbox.apiserver.storage import Manager, Stored

_NOT_PARSED = "couldn't get version/kind; json parse error: "


def new_object(target: Target, request: Request, write: WriteOptions) -> Object:
    """Return the object in a POST or PUT. Raises RequestFailure, 400, 415 or 422."""
    kind, body = target.kind, request.body
    decode = codec.decoder(request.content_type)
    try:
        obj = decode(body)
    except codec.UnreadableBody as error:
        prefix = "" if request.content_type == codec.YAML else _NOT_PARSED
        raise checks.unrecognized(kind, body, f"{prefix}{error}") from error
    if not isinstance(obj, dict):
        found = checks.go_word(obj)
        why = f"{_NOT_PARSED}json: cannot unmarshal {found} into Go value of type struct"
        raise checks.unrecognized(kind, body, why)
    checks.check_kind(kind, obj, body)
    try:
        checks.check_metadata(obj)
    except checks.Mistyped as error:
        raise checks.unhandled(obj, kind, error) from error
    checks.check_address(target, obj)
    obj = kind.projection.take(obj)
    if faults := _strict_faults(request, write, kind.rules.complete(obj)):
        raise checks.unhandled(obj, kind, f"strict decoding error: {', '.join(faults)}")
    return obj


def replacement(
    target: Target, request: Request, write: WriteOptions
) -> Callable[[Stored], Object]:
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


def applied(target: Target, request: Request, *, exists: bool) -> Object:
    """Return the configuration of a server-side apply. Raises RequestFailure. If the object exists,
    the body need not name it."""
    kind = target.kind
    if not request.query.get("fieldManager"):
        fault = "is required for apply patch"
        raise failures.invalid_option("PatchOptions", "fieldManager", Reason.REQUIRED, None, fault)
    try:
        obj = _mapping(codec.load_yaml(request.body))
        checks.check_metadata(obj)
    except (codec.UnreadableBody, checks.Mistyped) as error:
        raise failures.bad_request(f"error decoding YAML: {error}") from error
    declared = (obj.get("apiVersion") or "", obj.get("kind") or "")
    if declared != (kind.api_version, kind.kind):
        group, _, version = str(declared[0]).rpartition("/")
        raise failures.bad_request(f"invalid object type: {group}/{version}, Kind={declared[1]}")
    namespace = obj["metadata"].get("namespace") or ""
    if exists:
        obj["metadata"].setdefault("name", target.name)
    checks.check_address(target, obj)
    obj["metadata"].pop("managedFields", None)
    obj = kind.projection.take(obj)
    if dropped := kind.rules.complete(obj):
        whose = f"{namespace}/{target.name}; {kind.api_version}, Kind={kind.kind}"
        why = f".{dropped[0]}: field not declared in schema"
        raise failures.failure(500, "", f"failed to create typed patch object ({whose}): {why}")
    return obj


def check_patch_type(kind: Kind, media_type: str) -> None:
    """Raise RequestFailure, 415, if the kind does not support this patch type."""
    strategic = [] if kind.custom else [patches.STRATEGIC]
    accepted = [patches.JSON_PATCH, patches.MERGE, *strategic, patches.APPLY]
    if media_type not in accepted:
        raise failures.unsupported_media_type(accepted)


def revised(target: Target, request: Request, write: WriteOptions) -> Callable[[Stored], Object]:
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
        obj = apply(target.kind.projection.show(obj), patch)
        return _revision(target, request, write, obj, current)

    return change


def reapplied(
    target: Target, request: Request, write: WriteOptions, applied: Object
) -> Callable[[Stored], Object]:
    """Return the change that a server-side apply asks for. Raises RequestFailure."""
    show, manager = target.kind.projection.show, manager_of(target, request)
    wanted = show(applied)

    def change(current: Stored) -> Object:
        obj = show(codec.load(current.body))
        before = {each: show(codec.load(body)) for each, body in current.applied.items()}
        # What others applied stays, although this manager leaves it out now.
        mine = before.pop(manager, {})
        obj = patches.without_left_out(obj, mine, wanted, [*before.values()])
        return _revision(target, request, write, patches.merge(obj, wanted), current)

    return change


def manager_of(target: Target, request: Request) -> Manager:
    """Return the field manager of a server-side apply."""
    return request.query["fieldManager"], target.subresource


def _revision(
    target: Target, request: Request, write: WriteOptions, obj: Any, current: Stored
) -> Object:
    if not isinstance(obj, dict):
        raise failures.bad_request("error decoding patch: the result is not a JSON object")
    checks.keep_kind(target.kind, obj)
    try:
        checks.check_metadata(obj)
    except checks.Mistyped as error:
        raise failures.invalid_patch(encode(obj).decode(), str(error)) from error
    checks.check_address(target, obj)
    new = target.kind.projection.take(obj)
    new["metadata"].setdefault("resourceVersion", str(current.revision))
    if faults := _strict_faults(request, write, target.kind.rules.complete(new, current.obj)):
        message = f"strict decoding error: {', '.join(faults)}"
        raise failures.invalid_patch(encode(new).decode(), message)
    return new


def _mapping(loaded: Any) -> Object:
    if not isinstance(loaded, dict):
        why = f"json: cannot unmarshal {checks.go_word(loaded)} into Go value of type"
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
