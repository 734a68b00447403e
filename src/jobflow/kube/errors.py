"""An API server's errors as exceptions, whatever their bodies look like. Sends nothing."""

from __future__ import annotations

import re
import time
from email.utils import parsedate_to_datetime

import aiohttp
import msgspec

from jobflow.api.resources import Status

NETWORK_ERRORS = (aiohttp.ClientError, TimeoutError, OSError)
"""What `Client` raises when no answer came, beside ApiError for an answer that is an error."""

NAMESPACE_TERMINATING = "NamespaceTerminating"
"""The cause in a refusal to create in a namespace that is being deleted (k8s.io/apiserver,
pkg/admission/plugin/namespace/lifecycle)."""

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Gone",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
"""`Status.reason` by HTTP code (k8s.io/apimachinery meta/v1 StatusReason), for bodies without."""


_FOR_THE_NAMESPACE = re.compile(
    r'[\w.-]+(?: "[^"]*")? is forbidden: (?P<cause>'
    r"(?:exceeded|insufficient|status unknown for) quota\b.*"
    r'|User "[^"]*" cannot create resource .*'
    r"|cannot set blockOwnerDeletion .*)",
    re.DOTALL,
)
"""The API server's own messages if it creates no object of a kind in a namespace: its quota
(k8s.io/apiserver, pkg/admission/plugin/resourcequota), its authorization (the same,
pkg/endpoints/handlers/responsewriters) and its rule on owners (k8s.io/kubernetes,
plugin/pkg/admission/gc). An admission webhook and a ValidatingAdmissionPolicy put
other words in front, also if they repeat this text."""


class ApiError(Exception):
    """An answer of the API server that is an error."""

    def __init__(self, status: Status, retry_after: float | None = None) -> None:
        super().__init__(f"{status.code} {status.reason}: {status.message}")
        self.status = status
        details = status.details
        after = details.retry_after_seconds if details else None
        self.retry_after = retry_after if after is None else float(after)
        """Seconds the server asks to wait; None where it does not say."""

    @property
    def code(self) -> int:
        """The HTTP status."""
        return self.status.code

    @property
    def reason(self) -> str:
        """The machine's word: NotFound, Conflict, AlreadyExists, Invalid …"""
        return self.status.reason

    @property
    def message(self) -> str:
        """The server's sentence."""
        return self.status.message

    @property
    def not_found(self) -> bool:
        """404."""
        return self.code == 404

    @property
    def already_exists(self) -> bool:
        """409 because the name is in use."""
        return self.code == 409 and self.reason == "AlreadyExists"

    @property
    def conflict(self) -> bool:
        """409 because the object is no longer what the request said."""
        return self.code == 409 and self.reason != "AlreadyExists"

    @property
    def gone(self) -> bool:
        """410: the resource version or the continue token is too old."""
        return self.code == 410 or self.reason in ("Gone", "Expired")

    @property
    def for_the_namespace(self) -> str:
        """The reason that a create is refused whatever the object is: a quota, missing rights, or
        the namespace is being deleted. Empty: the refusal is about this object, or temporary."""
        if self.namespace_gone:
            return self.message or self.reason
        match = _FOR_THE_NAMESPACE.fullmatch(self.message) if self.code == 403 else None
        return match["cause"] if match is not None else ""

    @property
    def namespace_gone(self) -> bool:
        """Nothing can be made in this namespace any more: it is being deleted, or gone."""
        details = self.status.details
        if details is None:
            return False
        if self.not_found and details.kind == "namespaces":
            return True
        return any(cause.reason == NAMESPACE_TERMINATING for cause in details.causes or ())


class Unreadable(ApiError):
    """An answer, or an object in one, that is not JSON of the type that was asked for."""

    def __init__(self, what: str) -> None:
        super().__init__(Status(code=500, reason=REASONS[500], message=what))


def error_of(response: aiohttp.ClientResponse, body: bytes) -> ApiError:
    """The answer as an error; proxies and load balancers answer with anything but a Status."""
    code = response.status
    try:
        status = msgspec.json.decode(body, type=Status)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        status = Status(message="", kind="")
    if status.kind != "Status" or not status.code:
        text = status.message or body[:1000].decode(errors="replace").strip()
        status = msgspec.structs.replace(
            status, kind="Status", status="Failure", code=code, message=text
        )
    if not status.reason:
        status = msgspec.structs.replace(status, reason=REASONS.get(code, "Unknown"))
    return ApiError(status, retry_after=_seconds(response.headers.get("Retry-After")))


def _seconds(header: str | None) -> float | None:
    """A Retry-After header: seconds, or a date (RFC 9110 10.2.3)."""
    if header is None:
        return None
    if header.strip().isdigit():
        return float(header)
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except ValueError:
        return None
