"""A client that keeps connections busy, and is simple enough that the server is the bottleneck."""

import asyncio
import ssl
import time
from dataclasses import dataclass
from typing import cast

import httptools

CONNECTIONS = 16
ALLOWED = b'"allowed":true'


@dataclass(slots=True)
class Load:
    """The request of all connections, the end of the measurement, and the number of answers."""

    request: bytes
    until: float
    answered: int = 0


class Connection(asyncio.Protocol):
    """One connection: sends, waits for the answer, sends again."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._parser = httptools.HttpResponseParser(self)
        self._body = b""
        self.over = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._load.request)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, data: bytes) -> None:
        """Called by the parser."""
        self._body += data

    def on_message_complete(self) -> None:
        """Called by the parser: check the answer, and send again until the time is over."""
        code, body, self._body = self._parser.get_status_code(), self._body, b""
        if code != 200 or ALLOWED not in body:
            self._end(RuntimeError(f"{code} {body.decode(errors='replace')}"))
            return
        self._load.answered += 1
        if time.perf_counter() < self._load.until:
            self._transport.write(self._load.request)
        else:
            self._end(None)

    def connection_lost(self, error: Exception | None) -> None:
        self._end(error or ConnectionError("the server hung up"))

    def _end(self, error: Exception | None) -> None:
        if self.over.done():
            return
        if error:
            self.over.set_exception(error)
        else:
            self.over.set_result(None)
        self._transport.close()


async def reviews(port: int, trust: ssl.SSLContext, body: bytes, seconds: float) -> int:
    """Return how many reviews of `body` are allowed in `seconds`, over 16 connections."""
    head = (
        "POST /jobflows/validate?timeout=10s HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        "User-Agent: kube-apiserver-admission\r\nAccept: application/json, */*\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    load = Load(head.encode() + body, until=time.perf_counter() + seconds)
    loop = asyncio.get_running_loop()
    connections = [
        (await loop.create_connection(lambda: Connection(load), "127.0.0.1", port, ssl=trust))[1]
        for _ in range(CONNECTIONS)
    ]
    await asyncio.gather(*(connection.over for connection in connections))
    return load.answered
