"""Answers the review paths before FastAPI's router: bytes in, bytes out, no request or response
objects. It only moves bytes; what they mean is `jobflow.webhook.review`.

Pure ASGI because it answers half as many again as a FastAPI route (docs/performance.md).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jobflow.webhook.review.envelope import Malformed, TooLarge
from jobflow.webhook.review.review import Answer, Reviewer, not_a_review

MAX_BODY = 7 * 1024 * 1024
"""Bytes of a review. An API server takes objects of at most 3 MiB, so old and new fit."""
MAX_DRAINED = 64 * 1024 * 1024
"""Bytes of an over-long body that are read and dropped, so that the client reads the answer
instead of a broken pipe; past that it is answered at once."""

BODY_SECONDS = 5.0
"""How long a body may take to arrive; a review has 10 s."""
TURNS = 5
"""Parts of BODY_SECONDS in which it is counted."""
SMALL = 64 * 1024
"""Bytes of a body in one piece that is taken as it is: all reviews together hold 16 MiB of such."""
MOST_REVIEWS = 256
"""Reviews that are judged at a time. Nearly all wait for nobody: those that do are large ones, and
JobTemplates whose pod templates are tried."""
MOST_HELD = 64 * 1024 * 1024
"""Bytes of all bodies that are being read or judged."""

Observe = Callable[[str, Answer, float], None]
"""Told of every review: kind, answer, seconds."""

_JSON = (b"content-type", b"application/json")
_CLOSE = (b"connection", b"close")


class _Disconnected(Exception):
    """The client went before its body was complete."""


class ReviewMiddleware:
    """The paths in `reviewers` are reviews; every other request goes on to `app`."""

    def __init__(self, app: ASGIApp, reviewers: Mapping[str, Reviewer], observe: Observe) -> None:
        self._app = app
        self._reviewers = reviewers
        self._observe = observe
        self._patience = _Patience()
        self._under_way = 0
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reviewer = self._reviewers.get(scope["path"]) if scope["type"] == "http" else None
        if reviewer is None:
            await self._app(scope, receive, send)
        else:
            await self._review(reviewer, scope, receive, send)

    async def _review(self, reviewer: Reviewer, scope: Scope, receive: Receive, send: Send) -> None:
        held = 0
        try:
            body = await self._read(scope, receive)
            held = len(body)
            begin = time.perf_counter()
            self._enter()
            try:
                answer = await reviewer.review(body)
            finally:
                self._under_way -= 1
        except _Disconnected:
            return
        except Malformed as error:
            begin = time.perf_counter()
            answer = not_a_review(error)
        finally:
            self._held -= held
        self._observe(reviewer.kind, answer, time.perf_counter() - begin)
        await _send(send, answer)

    def _enter(self) -> None:
        """Count one review more. Raises Overloaded."""
        if self._under_way >= MOST_REVIEWS:
            raise Overloaded(f"{self._under_way} reviews are under way; try again")
        self._under_way += 1

    async def _read(self, scope: Scope, receive: Receive) -> bytes:
        """The body, which counts as held from now on. Raises Malformed for a method without a body,
        and for one that is too large, too slow or too much."""
        if scope["method"] != "POST":
            raise WrongMethod(f"a review is requested by POST, not by {scope['method']}")
        patience, task = self._patience, asyncio.current_task()
        if not patience.is_counting:
            patience.count()
        patience.turn_of[task] = patience.turn
        try:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _Disconnected
            body: bytes = message.get("body", b"")
            if message.get("more_body", False) or len(body) > SMALL:
                return await self._pieces(receive, message)
            self._held += len(body)
            return body
        except asyncio.CancelledError:
            if patience.is_over(task):
                raise TooSlow(f"the body did not arrive within {BODY_SECONDS:g} s") from None
            raise
        finally:
            patience.turn_of.pop(task, None)

    async def _pieces(self, receive: Receive, message: Message) -> bytes:
        """A body that arrives in pieces, `message` the first of them. Raises Malformed."""
        chunks: list[bytes] = []
        size, more = 0, True
        try:
            while True:
                chunk: bytes = message.get("body", b"")
                more = message.get("more_body", False)
                chunks.append(chunk)
                size += len(chunk)
                self._held += len(chunk)
                self._check_size(size)
                if not more:
                    return b"".join(chunks)
                message = await _next(receive)
        except BaseException as error:
            self._held -= size
            chunks.clear()
            if isinstance(error, TooLarge):
                await _drain(receive, more, MAX_DRAINED - size)
            raise

    def _check_size(self, size: int) -> None:
        """Raise Malformed if a body, or all that are held together, are too large."""
        if size > MAX_BODY:
            raise TooLarge(
                f"the body is larger than {MAX_BODY // 1024**2} MiB, the most a review may be"
            )
        if self._held > MOST_HELD:
            held = MOST_HELD // 1024**2
            raise Overloaded(f"reviews of more than {held} MiB together are under way; try again")


class _Patience:
    """Cancels tasks that read a body for BODY_SECONDS, or a fifth of that longer. It counts turns:
    `asyncio.timeout` for each task takes a tenth of the time that a small review takes."""

    def __init__(self) -> None:
        self.turn_of: dict[asyncio.Task[Any] | None, int] = {}
        """The turn in which each task began to read, the first ones first."""
        self.turn = 0
        self.is_counting = False
        self._cancelled: set[asyncio.Task[Any]] = set()

    def count(self) -> None:
        """Begin the next turn in a while."""
        self.is_counting = True
        asyncio.get_running_loop().call_later(BODY_SECONDS / TURNS, self._next_turn)

    def is_over(self, task: asyncio.Task[Any] | None) -> bool:
        """Return whether this object, and nothing else, cancelled the task; it then runs on."""
        if task is None or task not in self._cancelled:
            return False
        self._cancelled.remove(task)
        return task.uncancel() == 0

    def _next_turn(self) -> None:
        self.turn += 1
        for task, turn in list(self.turn_of.items()):
            if self.turn - turn <= TURNS:
                break
            del self.turn_of[task]
            if task is not None:
                self._cancelled.add(task)
                task.cancel()
        self.is_counting = bool(self.turn_of)
        if self.is_counting:
            self.count()


async def _drain(receive: Receive, more: bool, most: int) -> None:
    """Read the rest of a body, and drop it."""
    while more and most > 0:
        message = await _next(receive)
        most -= len(message.get("body", b""))
        more = message.get("more_body", False)


async def _next(receive: Receive) -> Message:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise _Disconnected
    return message


class WrongMethod(Malformed):
    """A request to a review path that is no POST."""

    code = 405
    reason = "MethodNotAllowed"


class TooSlow(Malformed):
    """A body that does not arrive."""

    code = 408
    reason = "Timeout"


class Overloaded(Malformed):
    """More reviews at a time than this replica takes. An API server asks again by itself, because
    the answer says when (k8s.io/client-go, rest/with_retry.go)."""

    code = 429
    reason = "TooManyRequests"


async def _send(send: Send, answer: Answer) -> None:
    headers = [_JSON, (b"content-length", b"%d" % len(answer.body))]
    if answer.code == 405:
        headers.append((b"allow", b"POST"))
    if answer.code == 429:
        headers.append((b"retry-after", b"1"))
    if answer.code in (405, 408, 413, 429):
        headers.append(_CLOSE)  # there may be a rest of the body that nobody reads
    await send({"type": "http.response.start", "status": answer.code, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
