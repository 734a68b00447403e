"""Answers the review paths before FastAPI's router: bytes in, bytes out, no request or response
objects. It only moves bytes; what they mean is `jobflow.webhook.review`.

Pure ASGI because it answers half as many again as a FastAPI route (docs/performance.md).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jobflow.webhook.envelope import Malformed, TooLarge
from jobflow.webhook.review import Answer, Reviewer, not_a_review

MAX_BODY = 7 * 1024 * 1024
"""Bytes of a review. An API server takes objects of at most 3 MiB, so old and new fit."""
MAX_DRAINED = 64 * 1024 * 1024
"""Bytes of an over-long body that are read and dropped, so that the client reads the answer
instead of a broken pipe; past that it is answered at once."""

Observe = Callable[[str, Answer, float], None]
"""Told of every review: kind, answer, seconds."""

_JSON = (b"content-type", b"application/json")
_CLOSE = (b"connection", b"close")


class _Disconnected(Exception):
    """The client went before its body was complete."""


class ReviewMiddleware:
    """The paths in `reviewers` are reviews; every other request goes on to `app`."""

    def __init__(
        self, app: ASGIApp, reviewers: Mapping[str, Reviewer[Any]], observe: Observe
    ) -> None:
        self._app = app
        self._reviewers = reviewers
        self._observe = observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reviewer = self._reviewers.get(scope["path"]) if scope["type"] == "http" else None
        if reviewer is None:
            await self._app(scope, receive, send)
        else:
            await self._review(reviewer, scope, receive, send)

    async def _review(
        self, reviewer: Reviewer[Any], scope: Scope, receive: Receive, send: Send
    ) -> None:
        try:
            body = await _body(scope, receive)
        except _Disconnected:
            return
        except Malformed as error:
            begin = time.perf_counter()
            answer = not_a_review(error)
        else:
            begin = time.perf_counter()
            answer = await reviewer.review(body)
        self._observe(reviewer.kind, answer, time.perf_counter() - begin)
        await _send(send, answer)


async def _body(scope: Scope, receive: Receive) -> bytes:
    """The whole body. Raises Malformed for a method without one, TooLarge over the limit."""
    if scope["method"] != "POST":
        raise WrongMethod(f"{scope['method']} is not how to ask for a review; use POST")
    message = await _next(receive)
    if not message.get("more_body", False):
        return _within(message.get("body", b""))
    chunks = [message.get("body", b"")]
    size = len(chunks[0])
    while message.get("more_body", False):
        message = await _next(receive)
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > MAX_DRAINED:
            break
        if size <= MAX_BODY:
            chunks.append(chunk)
    if size > MAX_BODY:
        raise _too_large()
    return b"".join(chunks)


async def _next(receive: Receive) -> Message:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise _Disconnected
    return message


def _within(body: bytes) -> bytes:
    if len(body) > MAX_BODY:
        raise _too_large()
    return body


def _too_large() -> TooLarge:
    return TooLarge(f"the body is larger than {MAX_BODY // 1024**2} MiB, the most a review may be")


class WrongMethod(Malformed):
    """A request to a review path that is no POST."""

    code = 405
    reason = "MethodNotAllowed"


async def _send(send: Send, answer: Answer) -> None:
    headers = [_JSON, (b"content-length", b"%d" % len(answer.body))]
    if answer.code == 405:
        headers.append((b"allow", b"POST"))
    if answer.code in (405, 413):
        headers.append(_CLOSE)  # there may be a rest of the body that nobody reads
    await send({"type": "http.response.start", "status": answer.code, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
