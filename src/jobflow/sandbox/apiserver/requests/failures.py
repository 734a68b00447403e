"""Failures of a request, each as a `v1` Status, with kube-apiserver's messages
(k8s.io/apimachinery/pkg/api/errors), because kubectl prints them and clients parse them."""

from collections.abc import Sequence
from typing import Any

from jobflow.core.violations import Reason, Violation
from jobflow.sandbox.apiserver.kinds import Kind

Status = dict[str, Any]
HEAD: Status = {"kind": "Status", "apiVersion": "v1", "metadata": {}}


class RequestFailure(Exception):
    """A request that is answered with a Status."""

    def __init__(self, status: Status) -> None:
        super().__init__(status["message"])
        self.status = status

    @property
    def code(self) -> int:
        return int(self.status["code"])


def failure(code: int, reason: str, message: str, **details: Any) -> RequestFailure:
    given = {key: value for key, value in (("reason", reason), ("details", details)) if value}
    return RequestFailure({**HEAD, "status": "Failure", "message": message, **given, "code": code})


def _of(kind: Kind, name: str) -> dict[str, Any]:
    details = {"name": name, "group": kind.group, "kind": kind.plural}
    return {key: value for key, value in details.items() if value}


def not_found(kind: Kind, name: str) -> RequestFailure:
    return failure(404, "NotFound", f'{kind.qualified} "{name}" not found', **_of(kind, name))


def already_exists(kind: Kind, name: str, *, is_deleted: bool = False) -> RequestFailure:
    """409; `is_deleted` means that the existing object is being deleted."""
    message = f'{kind.qualified} "{name}" already exists'
    prefix = "object is being deleted: " if is_deleted else ""
    return failure(409, "AlreadyExists", prefix + message, **_of(kind, name))


def precondition(kind: Kind, name: str, field: str, asked: str, found: str) -> RequestFailure:
    """409 for a delete that expects another object; real servers name the kind here."""
    qualified = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    fault = f"the {field} in the precondition ({asked}) does not match the {field} in record"
    happened = "deleted and then recreated" if field == "UID" else "modified"
    why = f"The object might have been {happened}"
    message = f'Operation cannot be fulfilled on {qualified} "{name}": {fault} ({found}). {why}'
    return failure(409, "Conflict", message, **(_of(kind, name) | {"kind": kind.kind}))


def conflict(kind: Kind, name: str, why: str = "") -> RequestFailure:
    """409; without `why`, for an outdated resource version."""
    newest = "please apply your changes to the latest version and try again"
    why = why or f"the object has been modified; {newest}"
    message = f'Operation cannot be fulfilled on {kind.qualified} "{name}": {why}'
    return failure(409, "Conflict", message, **_of(kind, name))


def invalid_as(group: str, kind: str, name: str, violations: Sequence[Violation]) -> RequestFailure:
    """422 for any kind of object: an options object, or "" for a patch."""
    texts = list(dict.fromkeys(map(str, violations)))
    message = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    names = {"name": name, "group": group, "kind": kind}
    details: dict[str, Any] = {key: value for key, value in names.items() if value}
    details["causes"] = [
        {"reason": str(fault.reason), "message": fault.message, "field": fault.path}
        for fault in violations
    ]
    qualified = f"{kind}.{group}" if group else kind
    return failure(422, "Invalid", f'{qualified} "{name}" is invalid: {message}', **details)


def invalid_option(kind: str, path: str, reason: Reason, value: Any, detail: str) -> RequestFailure:
    """422 for one option of a request, of CreateOptions, ListOptions and so on."""
    return invalid_as("meta.k8s.io", kind, "", [Violation(path, reason, value, detail)])


def invalid_patch(patched: str, why: str) -> RequestFailure:
    """422 for a patch whose result, as JSON, is not an object of its kind."""
    return invalid_as("", "", "", [Violation("patch", Reason.INVALID, patched, why)])


def bad_request(message: str) -> RequestFailure:
    return failure(400, "BadRequest", message)


def forbidden(kind: Kind, name: str, why: str, **details: Any) -> RequestFailure:
    message = f'{kind.qualified} "{name}" is forbidden: {why}'
    return failure(403, "Forbidden", message, **_of(kind, name), **details)


def undeletable(kind: Kind) -> RequestFailure:
    """405 for a subresource, which cannot be deleted apart from its object."""
    message = f'delete is not supported on resources of kind "{kind.qualified}"'
    return failure(405, "MethodNotAllowed", message, **_of(kind, ""))


def unsupported_media_type(accepted: Sequence[str]) -> RequestFailure:
    message = "the body of the request was in an unknown format - accepted media types include: "
    return failure(415, "UnsupportedMediaType", message + ", ".join(accepted))


def expired(message: str) -> RequestFailure:
    return failure(410, "Expired", message)


def too_new(asked: int, current: int) -> RequestFailure:
    """504 for a resource version in the future."""
    message = f"Too large resource version: {asked}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return failure(504, "Timeout", f"Timeout: {message}", causes=[cause], retryAfterSeconds=1)


def internal(message: str) -> RequestFailure:
    causes = [{"message": message}]
    return failure(500, "InternalError", f"Internal error occurred: {message}", causes=causes)
