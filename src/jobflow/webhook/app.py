"""The webhook's FastAPI app, and the ASGI middleware that answers its review paths.

The middleware limits the size, the time and the number of request bodies; `jobflow.webhook.review`
judges them. It comes before FastAPI's router: bytes in, bytes out, which answers half as many
reviews again as a FastAPI route (docs/performance.md).
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import jobflow
from jobflow.webhook.review.envelope import Answer, MalformedReview, not_a_review
from jobflow.webhook.review.judges import UNCHECKED, Cluster, Rights
from jobflow.webhook.review.review import LargeReviews, PathReviewer, reviewers

MAX_BODY = 7 * 1024 * 1024
"""Bytes of a review. An API server takes objects of at most 3 MiB, so old and new fit."""
MAX_DRAINED = 64 * 1024 * 1024
"""Bytes of a body that is too large which are dropped, so that the client reads the answer instead
of a broken pipe. A client that sends more is answered at once."""

BODY_SECONDS = 5.0
"""Time in which a body must arrive; a review has 10 s."""
TURNS = 5
SMALL = 64 * 1024
"""Bytes of a body in one message that skips the size checks: MOST_REVIEWS of them are 16 MiB."""
MOST_REVIEWS = 256
"""Concurrent reviews. Few reviews wait while they are judged: large ones, and JobTemplates whose
pod templates are tried."""
MOST_HELD = 64 * 1024 * 1024
"""Bytes of all bodies that are being read or judged."""

Observe = Callable[[str, Answer, float], None]

_TOO_LARGE = (413, "RequestEntityTooLarge")
_JSON = (b"content-type", b"application/json")
_CLOSE = (b"connection", b"close")


_TOO_MANY = (429, "TooManyRequests")
"""Has a Retry-After header, so an API server tries again by itself (k8s.io/client-go,
rest/with_retry.go)."""


class _Disconnected(Exception):
    """The client disconnected before its body was complete."""


class ReviewMiddleware:
    """Answers the paths in `reviewers`; passes every other request on to `app`."""

    def __init__(
        self, app: ASGIApp, reviewers: Mapping[str, PathReviewer], observe: Observe
    ) -> None:
        self._app = app
        self._reviewers = reviewers
        self._observe = observe
        self._deadlines = _Deadlines()
        self._under_way = 0
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reviewer = self._reviewers.get(scope["path"]) if scope["type"] == "http" else None
        if reviewer is None:
            return await self._app(scope, receive, send)
        held = 0
        try:
            body = await self._read(scope, receive)
            held = len(body)
            begin = time.perf_counter()
            # they wait for the API server or the second process, each with its body
            if self._under_way >= MOST_REVIEWS:
                message = f"{self._under_way} reviews are under way; try again"
                raise MalformedReview(message, *_TOO_MANY)
            self._under_way += 1
            try:
                answer = await reviewer.review(body)
            finally:
                self._under_way -= 1
        except _Disconnected:
            return
        except MalformedReview as error:
            begin = time.perf_counter()
            answer = not_a_review(error)
        finally:
            self._held -= held
        self._observe(reviewer.kind, answer, time.perf_counter() - begin)
        headers = [_JSON, (b"content-length", b"%d" % len(answer.body))]
        if answer.code == 405:
            headers.append((b"allow", b"POST"))
        if answer.code == 429:
            headers.append((b"retry-after", b"1"))
        if answer.code in (405, 408, 413, 429):
            headers.append(_CLOSE)  # part of the body may be unread
        await send({"type": "http.response.start", "status": answer.code, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})

    async def _read(self, scope: Scope, receive: Receive) -> bytes:
        """Return the body, whose bytes count as held from now on. Raises MalformedReview for a
        wrong method, and for a body that is too large, too slow or exceeds MOST_HELD."""
        if scope["method"] != "POST":
            wrong = f"a review is requested by POST, not by {scope['method']}"
            raise MalformedReview(wrong, 405, "MethodNotAllowed")
        deadlines, task = self._deadlines, asyncio.current_task()
        # no timer runs while nobody sends a review
        if not deadlines.is_counting:
            deadlines.count()
        deadlines.turn_of[task] = deadlines.turn
        try:
            message = await _next(receive)
            body: bytes = message.get("body", b"")
            # most bodies come in one small piece, which needs no counting
            if message.get("more_body", False) or len(body) > SMALL:
                return await self._read_pieces(receive, message)
            self._held += len(body)
            return body
        except asyncio.CancelledError:
            if deadlines.has_passed(task):
                late = f"the body did not arrive within {BODY_SECONDS:g} s"
                raise MalformedReview(late, 408, "Timeout") from None
            raise
        finally:
            deadlines.turn_of.pop(task, None)

    async def _read_pieces(self, receive: Receive, message: Message) -> bytes:
        chunks: list[bytes] = []
        size, more = 0, True
        try:
            while True:
                chunk: bytes = message.get("body", b"")
                more = message.get("more_body", False)
                chunks.append(chunk)
                size += len(chunk)
                self._held += len(chunk)
                if size > MAX_BODY:
                    limit = f"{MAX_BODY // 1024**2} MiB"
                    large = f"the body is larger than {limit}, the most a review may be"
                    raise MalformedReview(large, *_TOO_LARGE)
                if self._held > MOST_HELD:
                    held = MOST_HELD // 1024**2
                    many = f"reviews of more than {held} MiB together are under way; try again"
                    raise MalformedReview(many, *_TOO_MANY)
                if not more:
                    return b"".join(chunks)
                message = await _next(receive)
        except BaseException as error:
            self._held -= size
            # the traceback would keep them
            chunks.clear()
            if isinstance(error, MalformedReview) and error.code == _TOO_LARGE[0]:
                while more and size < MAX_DRAINED:
                    message = await _next(receive)
                    size += len(message.get("body", b""))
                    more = message.get("more_body", False)
            raise


class _Deadlines:
    """Cancels tasks that read a body for longer than BODY_SECONDS, at most a fifth later. It counts
    turns of a second, because an `asyncio.timeout` takes a tenth of the time of a small review."""

    def __init__(self) -> None:
        self.turn_of: dict[asyncio.Task[Any] | None, int] = {}
        self.turn = 0
        self.is_counting = False
        self._cancelled: set[asyncio.Task[Any]] = set()

    def count(self) -> None:
        self.is_counting = True
        asyncio.get_running_loop().call_later(BODY_SECONDS / TURNS, self._next_turn)

    def has_passed(self, task: asyncio.Task[Any] | None) -> bool:
        """Return whether only this object cancelled the task. The task then continues."""
        if task is None or task not in self._cancelled:
            return False
        self._cancelled.remove(task)
        return task.uncancel() == 0

    def _next_turn(self) -> None:
        self.turn += 1
        for task, turn in list(self.turn_of.items()):
            if self.turn - turn <= TURNS:
                break
            # it is cancelled once only
            del self.turn_of[task]
            if task is not None:
                self._cancelled.add(task)
                task.cancel()
        self.is_counting = bool(self.turn_of)
        if self.is_counting:
            self.count()


async def _next(receive: Receive) -> Message:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise _Disconnected
    return message


def create_app(
    cluster: Cluster,
    observe: Observe = lambda kind, answer, seconds: None,
    *,
    large_reviews: LargeReviews | None = None,
    rights: Rights = UNCHECKED,
) -> FastAPI:
    """Return the app that answers reviews from what `cluster` knows. Without `large_reviews` the
    event loop judges large reviews too; without `rights` no users are checked."""
    paths = reviewers(cluster, large_reviews, rights)
    app = FastAPI(
        title="JobFlow admission",
        version=jobflow.__version__,
        description="Webhooks of JobFlow, JobTemplate, and Commands about flows.",
        openapi_url=None,
    )
    app.add_middleware(ReviewMiddleware, reviewers=paths, observe=observe)
    kinds = {path: reviewer.kind for path, reviewer in paths.items()}

    @app.get("/")
    async def index() -> dict[str, Any]:
        """The review paths and the kind that each reviews."""
        return {"version": jobflow.__version__, "reviews": kinds}

    return app
