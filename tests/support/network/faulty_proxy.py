"""A reverse proxy between `jobflow serve` and a real API server that fails on demand."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import aiohttp
from aiohttp import web

from support.cluster.control_plane import ControlPlane
from support.network.local_server import LocalServer

DROPPED = frozenset({"host", "connection", "transfer-encoding", "content-length"})


@dataclass(frozen=True, slots=True)
class Refuse:
    """An error answer; `executed`: the server executed the request."""

    code: int
    reason: str
    message: str = ""
    retry_after: int | None = None
    executed: bool = False

    @property
    def status(self) -> dict[str, Any]:
        """A `v1` Status as the API server sends it."""
        details = {} if self.retry_after is None else {"retryAfterSeconds": self.retry_after}
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message or self.reason,
            "reason": self.reason,
            "details": details,
            "code": self.code,
        }

    def answer(self) -> web.Response:
        """Return the error as a response."""
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        return web.json_response(self.status, status=self.code, headers=headers)


@dataclass(frozen=True, slots=True)
class EndWatch:
    """End a watch after some seconds. With `cut` it ends in the middle of a frame."""

    seconds: float
    cut: bool = False


@dataclass(frozen=True, slots=True)
class ErrorFrame:
    """Answer a watch with 200 and an ERROR event."""

    error: Refuse


@dataclass(frozen=True, slots=True)
class Page:
    """Answer with HTML, as a proxy or a login page in between does."""

    code: int


@dataclass(frozen=True, slots=True)
class Slow:
    """Forward the request after some seconds."""

    seconds: float


Fault = Refuse | EndWatch | ErrorFrame | Page | Slow | None
Faults = Callable[[web.Request], Fault]


def is_watch(request: web.Request) -> bool:
    return "watch" in request.query


def is_list(request: web.Request) -> bool:
    """Return whether a request lists a kind, as reflectors do."""
    return request.method == "GET" and not is_watch(request) and "limit" in request.query


class FaultyProxy(LocalServer):
    """Forwards every request for which `faults` returns None. Cuts the connection if the API server
    does."""

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(self._handle)
        self.faults: Faults = lambda request: None
        self.faulted: Counter[str] = Counter()
        """Number of faults of each kind that clients have received."""
        self._plane = plane
        self._watches: list[web.Request] = []

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(ssl=self._plane.trust(), limit=0)
        self._session = aiohttp.ClientSession(self._plane.url, connector=connector)
        return await super().__aenter__()

    async def __aexit__(self, *exc: object) -> None:
        await super().__aexit__(*exc)
        await self._session.close()

    def heal(self) -> None:
        """Forward all requests again."""
        self.faults = lambda request: None

    def break_off_watches(self) -> None:
        """Cut all open watches."""
        for request in self._watches:
            if request.transport is not None:
                request.transport.abort()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        fault = self.faults(request)
        match fault:
            case Refuse(executed=False):
                self.faulted[f"{fault.code}"] += 1
                return fault.answer()
            case ErrorFrame(error):
                self.faulted[f"ERROR {error.code}"] += 1
                frame = json.dumps({"type": "ERROR", "object": error.status}) + "\n"
                return web.Response(text=frame, content_type="application/json")
            case Page(code):
                self.faulted[f"HTML {code}"] += 1
                return web.Response(status=code, text="<html>", content_type="text/html")
            case Slow(seconds):
                self.faulted["slow"] += 1
                await asyncio.sleep(seconds)
        try:
            return await self._answer(request, fault)
        except aiohttp.ClientError:
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=502)

    async def _answer(self, request: web.Request, fault: Fault) -> web.StreamResponse:
        """Forward a request, and return the answer of the API server, unless a fault hides it."""
        async with await self._forward(request) as answer:
            if is_watch(request) and answer.status == 200:
                return await self._stream(request, answer, fault)
            body = await answer.read()
        if isinstance(fault, Refuse):
            self.faulted[f"{fault.code} carried out"] += 1
            return fault.answer()
        return web.Response(
            status=answer.status, body=body, headers=_forwarded_headers(answer.headers)
        )

    async def _forward(self, request: web.Request) -> aiohttp.ClientResponse:
        return await self._session.request(
            request.method,
            request.raw_path,
            data=await request.read() or None,
            headers=_forwarded_headers(request.headers),
            timeout=aiohttp.ClientTimeout(total=None),
        )

    async def _stream(
        self, request: web.Request, answer: aiohttp.ClientResponse, fault: Fault
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers=_forwarded_headers(answer.headers))
        await response.prepare(request)
        seconds = fault.seconds if isinstance(fault, EndWatch) else None
        self._watches.append(request)
        try:
            async with asyncio.timeout(seconds):
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
        except TimeoutError:
            assert isinstance(fault, EndWatch)
            self.faulted["cut" if fault.cut else "closed"] += 1
            if fault.cut and request.transport is not None:
                await response.write(b'{"type":"MODIFIED","obj')
                request.transport.abort()
        finally:
            self._watches.remove(request)
        return response


def _forwarded_headers(headers: Any) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in DROPPED}


def in_bursts(*bursts: tuple[int, Callable[[], Fault]]) -> Faults:
    """Return faults that apply in turn, each to its number of requests, but never to watches."""

    def cycle() -> Iterator[Callable[[], Fault]]:
        while True:
            for count, make in bursts:
                yield from [make] * count

    turns = cycle()
    return lambda request: None if is_watch(request) else next(turns)()
