"""An HTTP server with scripted answers and faults, request by request."""

import asyncio
import json
import ssl
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from support.network.local_server import LocalServer


@dataclass
class Answer:
    """A response. `chunks` are written one by one. `end` is `close` for a proper end, `cut` to cut
    the connection, or `hang` to wait until the client disconnects."""

    code: int = 200
    body: Any = None
    chunks: Sequence[bytes] = ()
    headers: dict[str, str] = field(default_factory=dict)
    end: str = "close"


@dataclass
class ReceivedRequest:
    """A received request."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


class ScriptedServer(LocalServer):
    """Answers from three queues: lists, watches and other requests. A watch without an answer stays
    open and sends nothing."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(self._answer, tls)
        self.lists: deque[Answer] = deque()
        self.watches: deque[Answer] = deque()
        self.others: deque[Answer] = deque()
        self.requests: list[ReceivedRequest] = []
        self._received = asyncio.Condition()

    @property
    def list_requests(self) -> list[ReceivedRequest]:
        """The list requests."""
        return [
            each for each in self.requests if each.method == "GET" and "watch" not in each.query
        ]

    @property
    def watch_requests(self) -> list[ReceivedRequest]:
        """The watch requests."""
        return [each for each in self.requests if "watch" in each.query]

    async def until(self, condition: Any) -> None:
        """Wait until the condition holds. It is checked after each request."""
        async with self._received:
            await self._received.wait_for(condition)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        received = ReceivedRequest(
            request.method,
            request.path,
            dict(request.query),
            dict(request.headers),
            await request.read(),
        )
        answer = self._next(received)
        async with self._received:
            self.requests.append(received)
            self._received.notify_all()
        return await self._send(request, answer)

    def _next(self, received: ReceivedRequest) -> Answer:
        if "watch" in received.query:
            return self.watches.popleft() if self.watches else Answer(end="hang")
        queue = self.lists if received.method == "GET" and self.lists else self.others
        return (
            queue.popleft() if queue else Answer(500, {"message": "the test has no answer to this"})
        )

    async def _send(self, request: web.Request, answer: Answer) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.code, headers=answer.headers)
        await response.prepare(request)
        body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        for chunk in answer.chunks if answer.body is None else [body]:
            await response.write(chunk)
            await asyncio.sleep(0)
        if answer.end == "cut" and request.transport is not None:
            request.transport.abort()
        elif answer.end == "hang":
            await asyncio.Event().wait()
        return response


def page(version: int, *items: dict[str, Any], more: str = "") -> Answer:
    """Return a page of a list."""
    meta = {"resourceVersion": str(version), "continue": more}
    return Answer(body={"metadata": meta, "items": list(items)})


def thing(name: str, version: int, *, uid: str = "", **more: Any) -> dict[str, Any]:
    """Return an object of any kind in the namespace `ns`."""
    meta = {
        "name": name,
        "namespace": "ns",
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version),
    }
    return {"metadata": meta, **more}


def frame(type: str, obj: dict[str, Any]) -> bytes:
    """Return an event of a watch."""
    return json.dumps({"type": type, "object": obj}).encode() + b"\n"


def failure(code: int, reason: str = "", message: str = "", **details: Any) -> dict[str, Any]:
    """Return a Status of a failure."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
    }
