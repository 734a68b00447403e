"""HTTP/1.1 to an API server, simple enough that the server is the bottleneck. Without retries."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

import httptools

Answered = asyncio.Future[tuple[int, bytes]]


@dataclass(frozen=True, slots=True)
class Where:
    """The address and the credentials of an API server."""

    url: str
    ca: str
    token: str

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        parts = urlsplit(self.url)
        assert parts.hostname and parts.port
        return parts.hostname, parts.port

    def trust(self) -> ssl.SSLContext:
        """The TLS context that verifies it."""
        return ssl.create_default_context(cafile=self.ca)

    def request(self, method: str, path: str, body: bytes = b"", kind: str = "") -> bytes:
        """The bytes of a request."""
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: {urlsplit(self.url).netloc}\r\n"
            f"Authorization: Bearer {self.token}\r\nAccept: application/json\r\n"
        )
        if body:
            head += f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        return head.encode() + b"\r\n" + body


class Connection(asyncio.Protocol):
    """One connection, with one request at a time."""

    def __init__(self, on_data: Callable[[bytes], None] | None = None) -> None:
        self._on_data = on_data
        self._answer: Answered | None = None

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Send; return the answer's code and body."""
        self._body: list[bytes] = []
        self._parser = httptools.HttpResponseParser(self)
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await self._answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, error: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionError("the server hung up"))

    def on_body(self, data: bytes) -> None:
        """Called by the parser: pass the data to the watch, or keep it."""
        if self._on_data is not None and self._parser.get_status_code() == 200:
            self._on_data(data)
        else:
            self._body.append(data)

    def on_message_complete(self) -> None:
        """Called by the parser."""
        assert self._answer is not None
        if not self._answer.done():
            self._answer.set_result((self._parser.get_status_code(), b"".join(self._body)))


class Pool:
    """Connections with one request each at a time; further requests wait for a free one."""

    def __init__(self, where: Where) -> None:
        self._where = where
        self._free: deque[Connection] = deque()
        self._slots = asyncio.Semaphore(0)

    async def open(self, connections: int) -> Pool:
        """Connect."""
        loop, trust = asyncio.get_running_loop(), self._where.trust()
        for _ in range(connections):
            _, made = await loop.create_connection(Connection, *self._where.address, ssl=trust)
            self._free.append(made)
            self._slots.release()
        return self

    async def ask(self, method: str, path: str, body: bytes = b"", kind: str = "") -> bytes:
        """Return the body of an answer. Raises RuntimeError if it is an error."""
        async with self._slots:
            connection = self._free.popleft()
            try:
                request = self._where.request(method, path, body, kind)
                code, answer = await connection.ask(request)
            finally:
                self._free.append(connection)
        if code >= 300:
            raise RuntimeError(f"{method} {path}: {code} {answer.decode(errors='replace')}")
        return answer

    def close(self) -> None:
        """Close all."""
        for connection in self._free:
            connection.transport.close()


async def watch(where: Where, path: str, on_frame: Callable[[bytes], str]) -> None:
    """Follow a watch until it is cancelled; pass each frame on as soon as it is complete.

    `on_frame` returns the version of the frame. The watch continues from there if the API server
    ends it, as it does with slow readers.
    """
    begun, version = b"", ""

    def arrived(data: bytes) -> None:
        nonlocal begun, version
        *frames, begun = (begun + data).split(b"\n")
        for frame in frames:
            version = on_frame(frame)

    while True:
        begun = b""
        query = f"watch=1&timeoutSeconds=3600&resourceVersion={version}"
        transport, connection = await asyncio.get_running_loop().create_connection(
            lambda: Connection(arrived), *where.address, ssl=where.trust()
        )
        try:
            code, answer = await connection.ask(where.request("GET", f"{path}?{query}"))
        finally:
            transport.close()
        if code != 200:
            raise RuntimeError(f"the watch ended: {code} {answer.decode(errors='replace')}")
