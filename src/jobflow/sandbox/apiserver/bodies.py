"""Request bodies as the objects and changes they ask for, with field validation as asked.

Unknown and duplicate fields are an error (Strict), a warning (Warn) or dropped (Ignore).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jobflow.core.violations import Reason, Violation
from jobflow.sandbox.apiserver import failures, metadata
from jobflow.sandbox.apiserver.codec import duplicate_keys, load, load_object, load_yaml
from jobflow.sandbox.apiserver.http import JSON, Request, encode
from jobflow.sandbox.apiserver.kinds import Object
from jobflow.sandbox.apiserver.operations import How, Target
from jobflow.sandbox.apiserver.patches import APPLY, JSON_PATCH, MERGE, STRATEGIC, json_patch, merge
from jobflow.sandbox.apiserver.storage import Stored
from jobflow.sandbox.apiserver.strategic import strategic_merge


def new_object(where: Target, request: Request, how: How) -> Object:
    """The object that a POST, or an apply of what is not there yet, asks for. Raises Failure."""
    if request.content_type == APPLY:
        obj = _mapping(load_yaml(request.body))
    else:
        obj = load_object(request)
    obj = _addressed(where, obj)
    dropped = where.kind.rules.complete(obj)
    faults = _strict_faults(request, how, dropped)
    if faults:
        raise failures.bad_request(
            f'{where.kind.kind} in version "{where.kind.version}" cannot be handled as a '
            f"{where.kind.kind}: strict decoding error: {', '.join(faults)}"
        )
    return obj


def _addressed(where: Target, obj: Object) -> Object:
    """The object as it is stored, once it is what the URL says. Raises Failure, 400."""
    metadata.check_address(where.kind, obj, where.namespace, where.name)
    metadata.check_types(obj)
    return where.kind.projection.take(obj) if where.kind.projection else obj


def replacement(where: Target, request: Request, how: How) -> Callable[[Stored], Object]:
    """What a PUT asks for. Raises Failure."""
    obj = new_object(where, request, how)

    def change(current: Stored) -> Object:
        return {**obj, "metadata": dict(obj["metadata"])}

    return change


def revised(where: Target, request: Request, how: How) -> Callable[[Stored], Object]:
    """What a PATCH asks for; carried out on the state it meets. Raises Failure."""
    apply = _patcher(where, request)

    def change(current: Stored) -> Object:
        shown = load(current.body)
        if where.kind.projection:
            shown = where.kind.projection.show(shown)
        obj = apply(shown)
        if not isinstance(obj, dict) or not isinstance(obj.get("metadata"), dict):
            raise failures.bad_request("the patch leaves no object with metadata")
        obj = _addressed(where, obj)
        obj["metadata"].setdefault("resourceVersion", str(current.revision))
        faults = _strict_faults(request, how, where.kind.rules.complete(obj))
        if faults:
            said = f"strict decoding error: {', '.join(faults)}"
            raise failures.invalid(
                None, "", [Violation("patch", Reason.INVALID, encode(obj).decode(), said)]
            )
        return obj

    return change


def _patcher(where: Target, request: Request) -> Callable[[Any], Any]:
    """The patch as a function of the current object."""
    match request.content_type:
        case "application/merge-patch+json":
            patch = _mapping(load(request.body))
            return lambda current: merge(current, patch)
        case "application/json-patch+json":
            operations = load(request.body)
            return lambda current: json_patch(current, operations)
        case "application/apply-patch+yaml":
            applied = _mapping(load_yaml(request.body))
            applied.get("metadata", {}).pop("managedFields", None)
            return lambda current: merge(current, applied)
        case "application/strategic-merge-patch+json" if not where.kind.custom:
            strategic = _mapping(load(request.body))
            return lambda current: strategic_merge(current, strategic)
    accepted = [JSON_PATCH, MERGE, APPLY]
    raise failures.unsupported_media_type(
        accepted if where.kind.custom else [*accepted[:2], STRATEGIC, APPLY]
    )


def _mapping(loaded: Any) -> Object:
    if not isinstance(loaded, dict):
        raise failures.bad_request("the body is no JSON object")
    return loaded


def _strict_faults(request: Request, how: How, dropped: list[str]) -> list[str]:
    """What Strict refuses; with Warn it goes into the answer's warnings instead."""
    if how.field_validation == "Ignore":
        return []
    twice = duplicate_keys(request.body) if request.content_type in (JSON, MERGE) else []
    faults = [f'duplicate field "{path}"' for path in twice]
    faults += [f'unknown field "{path}"' for path in sorted(dropped)]
    if how.field_validation == "Strict":
        return faults
    request.warnings.extend(fault for fault in faults if fault not in request.warnings)
    return []
