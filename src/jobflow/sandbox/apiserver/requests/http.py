"""HTTP requests and responses, between ASGI and the handlers."""

from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from jobflow.sandbox.apiserver.requests.failures import RequestFailure, bad_request, failure

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

JSON = "application/json"
MAX_BODY = 3 * 1024 * 1024
"""Maximum size of a request body in bytes (kube-apiserver's MaxRequestBodyBytes)."""

encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[bytes, bytes]
    body: bytes = b""
    user: dict[str, Any] = field(default_factory=dict)
    """As `userInfo` of a review has it."""
    warnings: list[str] = field(default_factory=list)

    def header(self, name: bytes) -> str:
        """Return the value of a header, by its name in lower case."""
        return self.headers.get(name, b"").decode("latin-1")

    @property
    def content_type(self) -> str:
        return self.header(b"content-type").partition(";")[0].strip() or JSON

    def flag(self, name: str) -> bool:
        """Return an option as apimachinery converts it: only its absence, false and 0 are false."""
        return self.query.get(name, "false").lower() not in ("false", "0")

    def number(self, name: str) -> int:
        """Return a query parameter as an integer, or 0. Raises RequestFailure, 400."""
        text = self.query.get(name) or "0"
        try:
            return int(text)
        except ValueError as error:
            message = f'strconv.ParseInt: parsing "{text}": invalid syntax'
            raise bad_request(message) from error


@dataclass(slots=True)
class Response:
    body: bytes = b""
    code: int = 200
    media_type: str = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()
    stream: AsyncGenerator[bytes] | None = None


def read_request(scope: Scope) -> Request:
    query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
    return Request(scope["method"], scope["path"], query, dict(scope["headers"]))


async def read_body(receive: Receive) -> bytes:
    """Read the body. Raises RequestFailure, 413."""
    message = await receive()
    body: bytes = message.get("body", b"")
    # A body that is too large is not read to its end.
    while message.get("more_body") and len(body) <= MAX_BODY:
        message = await receive()
        body += message.get("body", b"")
    if len(body) > MAX_BODY:
        why = f"Request entity too large: limit is {MAX_BODY}"
        raise failure(413, "RequestEntityTooLarge", why)
    return body


def refusal(failed: RequestFailure) -> Response:
    retry = (failed.status.get("details") or {}).get("retryAfterSeconds")
    headers = ((b"retry-after", str(retry).encode()),) if retry else ()
    return Response(encode(failed.status), failed.code, headers=headers)


async def answer(response: Response, request: Request, send: Send) -> None:
    headers = [(b"content-type", response.media_type.encode()), *response.headers]
    for text in request.warnings:
        # A line break in a warning would start another header.
        plain = "".join(char if char.isprintable() else " " for char in text)
        quoted = plain.replace("\\", "\\\\").replace('"', '\\"')
        headers.append((b"warning", f'299 - "{quoted}"'.encode()))
    if response.stream is None:
        headers.append((b"content-length", str(len(response.body)).encode()))
    await send({"type": "http.response.start", "status": response.code, "headers": headers})
    if response.stream is not None:
        async with aclosing(response.stream) as pieces:
            async for piece in pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": response.body})
