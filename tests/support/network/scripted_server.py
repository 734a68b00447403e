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
    """One response. `chunks` are written one by one; `end`: `close` it properly, `cut` the
    connection, or `hang` until the client goes."""

    code: int = 200
    body: Any = None
    chunks: Sequence[bytes] = ()
    headers: dict[str, str] = field(default_factory=dict)
    end: str = "close"


@dataclass
class Asked:
    """A request that came."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


class ScriptedServer(LocalServer):
    """Answers from three rows: lists, watches and everything else. A watch for which there is no
    answer stays open and quiet."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(self._answer, tls)
        self.lists: deque[Answer] = deque()
        self.watches: deque[Answer] = deque()
        self.others: deque[Answer] = deque()
        self.asked: list[Asked] = []
        self._came = asyncio.Condition()

    @property
    def listed(self) -> list[Asked]:
        """The list requests."""
        return [one for one in self.asked if one.method == "GET" and "watch" not in one.query]

    @property
    def watched(self) -> list[Asked]:
        """The watch requests."""
        return [one for one in self.asked if "watch" in one.query]

    async def until(self, condition: Any) -> None:
        """Return when the condition, looked at after every request, holds."""
        async with self._came:
            await self._came.wait_for(condition)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        asked = Asked(
            request.method,
            request.path,
            dict(request.query),
            dict(request.headers),
            await request.read(),
        )
        answer = self._next(asked)
        async with self._came:
            self.asked.append(asked)
            self._came.notify_all()
        return await self._send(request, answer)

    def _next(self, asked: Asked) -> Answer:
        if "watch" in asked.query:
            return self.watches.popleft() if self.watches else Answer(end="hang")
        row = self.lists if asked.method == "GET" and self.lists else self.others
        return row.popleft() if row else Answer(500, {"message": "the test has no answer to this"})

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
    """A page of a list."""
    meta = {"resourceVersion": str(version), "continue": more}
    return Answer(body={"metadata": meta, "items": list(items)})


def thing(name: str, version: int, *, uid: str = "", **more: Any) -> dict[str, Any]:
    """An object of any kind in namespace `ns`."""
    meta = {
        "name": name,
        "namespace": "ns",
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version),
    }
    return {"metadata": meta, **more}


def frame(type: str, obj: dict[str, Any]) -> bytes:
    """One event of a watch."""
    return json.dumps({"type": type, "object": obj}).encode() + b"\n"


def failure(code: int, reason: str = "", message: str = "", **details: Any) -> dict[str, Any]:
    """A Status."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
    }
