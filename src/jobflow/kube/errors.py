"""Errors of an API server as exceptions, for any body that a server or a proxy sends."""

import re
import ssl
import time

import msgspec

from jobflow.api.resources import Status
from jobflow.kube.connections import Answer


class NetworkError(OSError):
    """No answer came, or it broke off."""

    def __init__(self, text: str, *, place: str = "", cause: Exception | None = None) -> None:
        """`place`: host and port; `cause`: the error of the socket or of TLS, if it is one."""
        super().__init__(text)
        self.place = place
        self.cause = cause


NETWORK_ERRORS = (NetworkError, TimeoutError, OSError)
"""Exceptions of `Client` if no answer came. ApiError means that an answer came, with an error."""

NAMESPACE_TERMINATING = "NamespaceTerminating"
"""Cause in a refusal to create an object in a namespace that is being deleted (k8s.io/apiserver,
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
"""`Status.reason` by HTTP code (k8s.io/apimachinery meta/v1 StatusReason), for other bodies."""
_FOR_THE_NAMESPACE = re.compile(
    r'[\w.-]+(?: "[^"]*")? is forbidden: (?P<cause>'
    r"(?:exceeded|insufficient|status unknown for) quota\b.*"
    r'|User "[^"]*" cannot create resource .*'
    r"|cannot set blockOwnerDeletion .*)",
    re.DOTALL,
)
"""Messages of the API server itself if it creates no object of a kind in a namespace: quota
(k8s.io/apiserver, pkg/admission/plugin/resourcequota), authorization (k8s.io/apiserver,
pkg/endpoints/handlers/responsewriters) and the rule on owners (k8s.io/kubernetes,
plugin/pkg/admission/gc). Admission webhooks and ValidatingAdmissionPolicies put other words in
front, even if they repeat this text."""
_NO_RIGHT = re.compile(
    r'[\w.-]+(?: "[^"]*")? is forbidden: User "[^"]*" cannot (?!impersonate )\w+ resource '
)
"""Messages of the API server itself if the user lacks a right (k8s.io/apiserver,
pkg/endpoints/handlers/responsewriters)."""


class ApiError(Exception):
    """An answer of the API server that is an error."""

    def __init__(self, status: Status, retry_after: float | None = None) -> None:
        super().__init__(f"{status.code} {status.reason}: {status.message}")
        self.status = status
        self.code = status.code
        """HTTP status code."""
        self.reason = status.reason
        """Machine-readable reason: NotFound, Conflict, AlreadyExists, Invalid …"""
        self.message = status.message
        details = status.details
        after = details.retry_after_seconds if details else None
        self.retry_after = retry_after if after is None else float(after)
        """Seconds that the server asks to wait; None if it does not say."""

    @property
    def not_found(self) -> bool:
        """Whether the code is 404."""
        return self.code == 404

    @property
    def already_exists(self) -> bool:
        """Whether the name is in use (409)."""
        return self.code == 409 and self.reason == "AlreadyExists"

    @property
    def conflict(self) -> bool:
        """Whether the object is no longer as the request expects (409)."""
        return self.code == 409 and self.reason != "AlreadyExists"

    @property
    def gone(self) -> bool:
        """Whether the resource version or the continue token is too old (410)."""
        return self.code == 410 or self.reason in ("Gone", "Expired")

    @property
    def for_the_namespace(self) -> str:
        """The reason to refuse every object of this kind in the namespace: a quota, missing rights,
        or the namespace is being deleted. "" if the refusal is about this object, or temporary."""
        if self.namespace_gone:
            return self.message or self.reason
        match = _FOR_THE_NAMESPACE.fullmatch(self.message) if self.code == 403 else None
        return match["cause"] if match is not None else ""

    @property
    def lacks_right(self) -> bool:
        """Whether the user has no right to send this request, whatever it is for."""
        return self.code == 403 and _NO_RIGHT.match(self.message) is not None

    @property
    def namespace_gone(self) -> bool:
        """Whether the namespace does not exist or is being deleted."""
        details = self.status.details
        if details is None:
            return False
        if self.not_found and details.kind == "namespaces":
            return True
        return any(cause.reason == NAMESPACE_TERMINATING for cause in details.causes or ())


class Silence(TimeoutError):
    """Nothing came for some time on a stream that the server had opened."""


class UnreadableAnswer(ApiError):
    """An answer, or an object in one, that is not JSON of the expected type."""

    def __init__(self, message: str) -> None:
        super().__init__(Status(code=500, reason=REASONS[500], message=message))


def describe_network_error(error: Exception) -> str:
    """Return why no answer came: `10.0.0.1:6443: the connection was refused`."""
    known = error if isinstance(error, NetworkError) else None
    cause = known.cause if known is not None and known.cause is not None else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        why = f"its certificate is not trusted ({cause.verify_message})"
    elif isinstance(cause, ConnectionRefusedError):
        why = "the connection was refused"
    elif isinstance(cause, OSError) and cause.strerror:
        why = cause.strerror
    elif isinstance(cause, TimeoutError):
        why = "it took too long"
    else:
        why = str(cause) or type(cause).__name__
    return f"{known.place}: {why}" if known is not None and known.place else why


def api_error(response: Answer, body: bytes) -> ApiError:
    """Return the answer as an error. Proxies and load balancers may answer without a Status."""
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
    """Read a Retry-After header: seconds, or a date (RFC 9110 10.2.3)."""
    if header is None:
        return None
    if header.strip().isdigit():
        return float(header)
    from email.utils import parsedate_to_datetime  # takes long, and few answers need it

    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except ValueError:
        return None
