"""Requests and responses of `admission.k8s.io/v1` (k8s.io/api/admission/v1 types.go)."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Any, Generic, TypeVar

import msgspec

from jobflow.api.resources import FLOW_GROUP, ObjectMeta, Status, StatusCause, StatusDetails
from jobflow.core.violations import MAX_FINDINGS, MAX_SHOWN, Reason, Verdict, Violation

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"
MAX_WARNING = 256
"""Maximum characters of a warning; the API server cuts longer ones (apiserver, warning headers)."""
MAX_TEXT = 1024
"""Maximum characters of one violation in a refusal."""

T = TypeVar("T")


class _Wire(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    pass


class GroupVersionKind(_Wire):
    group: str = ""
    version: str = ""
    kind: str = ""


class UserInfo(_Wire):
    """The user who sent the request to the API server (k8s.io/api/authentication/v1)."""

    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class AdmissionRequest(_Wire, Generic[T]):
    """The operation under review. `object` is absent on DELETE, `old_object` on CREATE."""

    uid: str = ""
    kind: GroupVersionKind = msgspec.field(default_factory=GroupVersionKind)
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    operation: str = ""
    user_info: UserInfo = msgspec.field(default_factory=UserInfo)
    object: T | None = None
    old_object: T | None = None


class AdmissionReview(_Wire, Generic[T]):
    api_version: str = ""
    kind: str = ""
    request: AdmissionRequest[T] | None = None


class _Response(_Wire):
    uid: str
    allowed: bool
    status: Status | None = None
    warnings: list[str] | None = None
    patch_type: str | None = None
    patch: str | None = None


class _ResponseReview(_Wire, omit_defaults=False):
    response: _Response
    api_version: str = API_VERSION
    kind: str = KIND


class MalformedReview(ValueError):
    """A body that is not a review of this path. The text is one sentence for its sender."""

    def __init__(self, text: str, code: int = 400, reason: str = "BadRequest") -> None:
        super().__init__(text)
        self.code, self.reason = code, reason


class NotJudged(Exception):
    """No verdict is possible; the text is for the user who sent the object."""

    def __init__(
        self,
        text: str,
        code: int = 500,
        reason: str = "InternalError",
        retry_after: int | None = None,
    ) -> None:
        """`retry_after`: seconds after which a client of the API server retries by itself."""
        super().__init__(text)
        self.code, self.reason, self.retry_after = code, reason, retry_after


class Forbidden(NotJudged):
    def __init__(self, text: str) -> None:
        super().__init__(text, 403, "Forbidden")


class NotReady(NotJudged):
    """The verdict needs knowledge of the cluster that was not read yet."""

    def __init__(self, text: str) -> None:
        super().__init__(f"{text}; try again", 503, "ServiceUnavailable")


class ReviewOutcome(StrEnum):
    ALLOWED = "allowed"
    REFUSED = "refused"
    MALFORMED = "malformed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP response to a review and its meaning."""

    body: bytes
    outcome: ReviewOutcome = ReviewOutcome.ALLOWED
    code: int = 200
    """HTTP status: 200 with every AdmissionReview, allowed or refused; 4xx without one."""
    operation: str = ""
    violations: tuple[Violation, ...] = ()


_OBJECT, _OLD_OBJECT = ("object", "object"), ("oldObject", "old_object")
_NEEDED = {"CREATE": (_OBJECT,), "UPDATE": (_OBJECT, _OLD_OBJECT), "DELETE": (_OLD_OBJECT,)}

_encode = msgspec.json.Encoder().encode


def checked(review: AdmissionReview[T], kind: str, group: str = FLOW_GROUP) -> AdmissionRequest[T]:
    """Return the request of a review of `kind`. Raises MalformedReview if it is another one."""
    if review.kind != KIND or review.api_version != API_VERSION:
        got = f"{review.api_version or 'no apiVersion'} {review.kind or 'no kind'}"
        raise MalformedReview(f"the body is {_short(got)}; send an {API_VERSION} {KIND}")
    request = review.request
    if request is None or not request.uid:
        missing = "request" if request is None else "request.uid"
        raise MalformedReview(f"the {KIND} has no {missing}; an answer needs its uid")
    asked = request.kind
    if asked.kind != kind or asked.group != group:
        got = f"{asked.kind or 'no kind'} of group {asked.group or 'core'}"
        raise MalformedReview(f"this path reviews {kind} of group {group}, not {_short(got)}")
    needed = _NEEDED.get(request.operation)
    if needed is None:
        raise MalformedReview(
            f"operation {_short(request.operation)!r} is not {', '.join(_NEEDED)}"
        )
    for name, attribute in needed:
        if getattr(request, attribute) is None:
            raise MalformedReview(f"a {request.operation} needs request.{name}, which is missing")
    return request


def name_of(request: AdmissionRequest[Any]) -> str:
    """Return the object's name for messages, or its generateName if it has no name yet."""
    if request.name:
        return request.name
    metadata = getattr(request.object, "metadata", None)
    return metadata.name or metadata.generate_name if isinstance(metadata, ObjectMeta) else ""


def allowed(uid: str, warnings: Sequence[str] = ()) -> bytes:
    return _respond(_Response(uid=uid, allowed=True, warnings=_headers(warnings)))


def patched(uid: str, patch: Sequence[Mapping[str, Any]]) -> bytes:
    body = b64encode(_encode(patch)).decode()
    return _respond(_Response(uid=uid, allowed=True, patch_type="JSONPatch", patch=body))


def refused(uid: str, status: Status, warnings: Sequence[str] = ()) -> bytes:
    """Return the answer that refuses the request; the API server passes `status` on to the user."""
    return _respond(_Response(uid=uid, allowed=False, status=status, warnings=_headers(warnings)))


def _respond(response: _Response) -> bytes:
    return _encode(_ResponseReview(response=response))


def not_a_review(error: MalformedReview) -> Answer:
    """Return the answer to such a body: a `v1` Status, whose message the API server shows to the
    user."""
    status = Status(message=str(error), reason=error.reason, code=error.code)
    return Answer(_encode(status), ReviewOutcome.MALFORMED, error.code)


def not_judged(kind: str, name: str, request: AdmissionRequest[Any], error: NotJudged) -> Answer:
    details = StatusDetails(
        name=name, group=FLOW_GROUP, kind=kind, retry_after_seconds=error.retry_after
    )
    status = Status(code=error.code, reason=error.reason, message=str(error), details=details)
    outcome = ReviewOutcome.REFUSED if error.code == 403 else ReviewOutcome.FAILED
    return Answer(refused(request.uid, status), outcome, operation=request.operation)


def invalid(kind: str, name: str, verdict: Verdict, group: str = FLOW_GROUP) -> Status:
    """Return 422 Invalid, with every fault in the causes, for kubectl, and in the message."""
    total = len(verdict.violations)
    first = list(islice(verdict.violations, MAX_SHOWN))
    causes = [_cause(violation) for violation in first]
    lines = [_cut(str(violation)) for violation in first]
    if more := total - len(first):
        least = "at least " if total >= MAX_FINDINGS else ""
        causes.append(StatusCause(reason=Reason.TOO_MANY, message=f"and {least}{more} more"))
        lines.append(f"and {least}{more} more")
    listed = f" {lines[0]}" if len(lines) == 1 else "".join(f"\n* {line}" for line in lines)
    return Status(
        code=422,
        reason="Invalid",
        message=f'{kind}.{group} "{name}" is invalid:{listed}',
        details=StatusDetails(name=name, group=group, kind=kind, causes=causes),
    )


def forbidden(kind: str, name: str, verdict: Verdict) -> Status:
    """Return 403 Forbidden: the object is valid, but the operation is not allowed now."""
    causes = [_cause(violation) for violation in verdict.violations]
    return Status(
        code=403,
        reason="Forbidden",
        message=_cut("; ".join(violation.detail for violation in verdict.violations)),
        details=StatusDetails(name=name, group=FLOW_GROUP, kind=kind, causes=causes),
    )


def _cause(violation: Violation) -> StatusCause:
    return StatusCause(
        reason=violation.reason, message=_cut(violation.message), field=violation.path
    )


def _headers(warnings: Sequence[str]) -> list[str] | None:
    return [_cut(" ".join(text.split()), MAX_WARNING) for text in warnings] or None


def _cut(text: str, limit: int = MAX_TEXT) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _short(text: str) -> str:
    return _cut(" ".join(text.split()), 100)
