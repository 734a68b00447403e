"""Requests to an API server in the same process, without sockets, TLS and HTTP framing."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import unquote

from multidict import CIMultiDict

from jobflow.kube.answers import NetworkError
from jobflow.kube.client import Client
from jobflow.kube.clock import ServerClock
from jobflow.kube.connections import Connections, Limits, Request, common_headers
from jobflow.kube.credentials import Credentials, Login
from jobflow.sandbox.apiserver.requests.http import App, Scope

_HOST = "127.0.0.1"
_CHUNKS = 16
"""Chunks of a body that wait for their reader. The server waits to send more."""


def in_process_client(app: App, *, token: str = "") -> Client:
    auth = Credentials(Login("http://in-process", f"Bearer {token}" if token else None))
    return Client(auth, connections=InProcessConnections(auth, app))


class InProcessConnections(Connections):
    """Connections that call an ASGI application. As over HTTP, the server finishes a request whose
    client does not wait any more."""

    def __init__(self, auth: Credentials, app: App, clock: ServerClock | None = None) -> None:
        super().__init__(auth, clock)
        self._app = app
        self._exchanges: dict[asyncio.Task[None], _Exchange] = {}

    def sibling(self) -> Connections:
        return InProcessConnections(self.auth, self._app, self.clock)

    async def close(self) -> None:
        """End all streams, and wait for the requests that are being handled."""
        for exchange in self._exchanges.values():
            exchange.close()
        # As a server that shuts down, which answers what it has begun.
        while self._exchanges:
            await asyncio.wait(self._exchanges)

    async def _send(self, login: Login, request: Request) -> "_Exchange":
        path, _, query = request.path.partition("?")
        given = {"Host": _HOST, **common_headers(), **request.headers}.items()
        scope = {
            "type": "http",
            "method": request.method,
            "path": unquote(path),
            "query_string": query.encode("ascii"),
            "headers": [(name.lower().encode(), text.encode()) for name, text in given],
        }
        exchange = _Exchange(scope, request.body or b"", request.limits)
        task = asyncio.create_task(exchange.run(self._app))
        self._exchanges[task] = exchange
        task.add_done_callback(self._exchanges.pop)
        try:
            await exchange.start()
        # A caller that gives up must not leave a stream open.
        except BaseException:
            exchange.close()
            raise
        return exchange


class _Exchange:
    """A request and its answer: an ASGI server to the application, an `Answer` to the client."""

    def __init__(self, scope: Scope, body: bytes, limits: Limits) -> None:
        self.status = 0
        self.headers: CIMultiDict[str] = CIMultiDict()
        self._scope = {**scope, "extensions": {"jobflow.abort": {"abort": self.close}}}
        self._body: bytes | None = body
        self._silence = limits.silence
        now = asyncio.get_running_loop().time()
        self._deadline = None if limits.total is None else now + limits.total
        self._chunks: asyncio.Queue[bytes | None] = asyncio.Queue(_CHUNKS)
        self._closed = asyncio.Event()
        self._complete = False

    async def run(self, app: App) -> None:
        try:
            await app(self._scope, self._receive, self._send)
        finally:
            # The application has ended without an end of the body, as a broken connection would.
            if not self._complete:
                await self._put(None)

    async def _receive(self) -> dict[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        # An application that watches for a disconnect waits here for the whole exchange.
        await self._closed.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            for name, value in message["headers"]:
                self.headers.add(name.decode("latin-1"), value.decode("latin-1"))
            # An empty chunk, for which `start` waits.
            await self._put(b"")
            return
        if message["body"]:
            await self._put(message["body"])
        if not message.get("more_body"):
            self._complete = True
            await self._put(None)

    async def _put(self, chunk: bytes | None) -> None:
        if not self._closed.is_set():
            await self._chunks.put(chunk)

    async def start(self) -> None:
        """Wait for status and headers. Raises TimeoutError, NetworkError."""
        async with asyncio.timeout_at(self._deadline):
            if await self._chunks.get() is None:
                raise NetworkError("Server disconnected")

    async def read(self) -> bytes:
        return b"".join([chunk async for chunk in self.iter_any()])

    async def iter_any(self) -> AsyncIterator[bytes]:
        while True:
            # Chunks that have arrived are read even if the time is over.
            if not self._chunks.empty():
                chunk = self._chunks.get_nowait()
            else:
                async with asyncio.timeout_at(self._deadline), asyncio.timeout(self._silence):
                    chunk = await self._chunks.get()
            if chunk is None:
                break
            yield chunk
        if not self._complete:
            raise NetworkError("the connection broke before the answer was complete")

    def close(self) -> None:
        """Disconnect. The application may send on; nobody reads it."""
        self._closed.set()
        while not self._chunks.empty():
            self._chunks.get_nowait()
        # A reader that waits for the next chunk must wake up.
        self._chunks.put_nowait(None)
