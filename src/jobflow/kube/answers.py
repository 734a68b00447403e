"""Answers of an API server: decoded into types, or raised as errors, for any body that a server or
a proxy sends; and who has last written the status of a flow, by `metadata.managedFields`.

The API server notes for each writer the fields that it has changed last, with the time of its last
change. `status.conditions` has one owner as a whole, so whoever changed any of them owns all.
"""

import re
import ssl
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from jobflow.api.nesting import cut
from jobflow.api.resources import ListMeta, Status, Struct
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
"""Cause of a refusal to create an object in a namespace that is being deleted (k8s.io/apiserver,
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
        self.reason = status.reason
        """Machine-readable reason: NotFound, Conflict, AlreadyExists, Invalid …"""
        self.message = status.message
        details = status.details
        after = details.retry_after_seconds if details else None
        self.retry_after = retry_after if after is None else float(after)
        """Seconds that the server asks to wait; None if it does not say."""

    @property
    def not_found(self) -> bool:
        return self.code == 404

    @property
    def already_exists(self) -> bool:
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
        or the end of the namespace. "" if the refusal is about this object, or temporary."""
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


T = TypeVar("T")


class AnswerReader(Generic[T]):
    def __init__(self, type: type[T]) -> None:
        self._name = type.__name__
        self._decode = msgspec.json.Decoder(type).decode

    def decode(self, raw: bytes | msgspec.Raw) -> T:
        try:
            try:
                return self._decode(raw)
            except RecursionError:
                return self._decode(cut(bytes(raw)))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            message = f"the API server's answer cannot be read as {self._name}: {error}"
            raise UnreadableAnswer(message) from error


_decoders: dict[Any, AnswerReader[Any]] = {}


def decoder(type: type[T]) -> AnswerReader[T]:
    """Return the reader of a type. Readers are shared: making one costs more than decoding."""
    if (known := _decoders.get(type)) is None:
        known = _decoders[type] = AnswerReader(type)
    return known


async def lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the complete lines of chunks that are cut anywhere."""
    unfinished: list[bytes] = []
    async for chunk in chunks:
        *complete, end = chunk.split(b"\n")
        for line in complete:
            if unfinished:
                line = b"".join((*unfinished, line))
                unfinished.clear()
            if line:
                yield line
        if end:
            unfinished.append(end)


async def line_batches(chunks: AsyncIterator[bytes], *, longest: int) -> AsyncIterator[list[bytes]]:
    """Yield the lines of chunks that are cut anywhere, as many at once as came. A line of more than
    `longest` bytes is cut; the last line may lack its line break."""
    rest = b""
    async for chunk in chunks:
        *batch, rest = (rest + chunk).split(b"\n")
        batch = [piece for line in batch for piece in _cut(line, longest)]
        *early, rest = _cut(rest, longest)
        if batch := [*batch, *early]:
            yield batch
    if rest:
        yield [rest]


def _cut(line: bytes, longest: int) -> list[bytes]:
    pieces, start = [], 0
    while len(line) - start > longest:
        end = start + longest
        while end > start + longest - 3 and line[end] & 0xC0 == 0x80:  # inside a character
            end -= 1
        pieces.append(line[start:end])
        start = end
    return [*pieces, line[start:]]


_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


def warnings_of(headers: Iterable[str]) -> list[str]:
    """Return the texts of `Warning` headers, each of which may hold several (RFC 7234 5.5; an API
    server uses code 299 only)."""
    return [
        _ESCAPED.sub(r"\1", found[1]) for header in headers for found in _WARNING.finditer(header)
    ]


class Identity(msgspec.Struct, rename="camel"):
    """Name, UID and version of an object."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    managed_fields: msgspec.Raw = msgspec.Raw(b"[]")
    """Who has written what, in a list (`find_status_writer`)."""


class Identified(msgspec.Struct):
    metadata: Identity


class ItemList(msgspec.Struct, Generic[T]):
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[T] | None = None
    """An API server sends null if a list of metadata is empty."""


RawList = ItemList[msgspec.Raw]


class WatchEvent(msgspec.Struct):
    type: str
    object: msgspec.Raw


class AnyObject(msgspec.Struct):
    """An object with any content; its metadata may not even be a map."""

    metadata: Any = None


def identity_of(raw: msgspec.Raw) -> Identity:
    """Return the identity of an object; parts that cannot be read are empty."""
    try:
        metadata = decoder(AnyObject).decode(raw).metadata
    except UnreadableAnswer:
        metadata = None
    values = metadata if isinstance(metadata, dict) else {}
    texts = [values.get(key) for key in ("name", "namespace", "uid", "resourceVersion")]
    name, namespace, uid, version = (text if isinstance(text, str) else "" for text in texts)
    return Identity(name, namespace, uid, version)


OWN_MANAGER = "jobflow"
"""The name of every replica, which the API server takes from the User-Agent of its requests."""


class StatusFields(Struct):
    conditions: msgspec.Raw = msgspec.field(name="f:conditions", default=msgspec.Raw())


class OwnedFields(Struct):
    status: StatusFields | None = msgspec.field(name="f:status", default=None)


class FieldOwner(Struct):
    manager: str = ""
    time: datetime | None = None
    fields: OwnedFields = msgspec.field(name="fieldsV1", default_factory=OwnedFields)


class StatusWriter(NamedTuple):
    """Somebody else who has written the status of a flow last."""

    name: str
    """Its field manager, such as vc-controller-manager."""
    after_ours: bool
    """Whether JobFlow has written the status too. If not, JobFlow may not have begun the flow."""


def find_status_writer(managed_fields: bytes | msgspec.Raw) -> StatusWriter | None:
    """Return who has written the status of a flow after JobFlow; None if nobody has.
    `managed_fields` is JSON. Raises UnreadableAnswer."""
    owners: Sequence[FieldOwner] = decoder(list[FieldOwner]).decode(managed_fields)
    own = (each for each in owners if each.manager == OWN_MANAGER)
    ours = [each.time for each in own if each.fields.status is not None]
    last = max((time for time in ours if time is not None), default=None)
    for each in owners:
        if each.manager == OWN_MANAGER or each.fields.status is None:
            continue
        is_later = last is not None and each.time is not None and each.time > last
        if is_later or each.fields.status.conditions:
            return StatusWriter(each.manager, after_ours=bool(ours))
    return None
