"""A proxy that makes every request slower: `python -m bench.slow URL SECONDS` prints its port.

It forwards bytes without reading them, so TLS is between the client and the server behind it. Bytes
of a client arrive SECONDS later, in their order; answers and watch events are not held back. More
requests on the same connection do not wait for the first.
"""

import asyncio
import sys
from collections import deque
from typing import cast
from urllib.parse import urlsplit

from jobflow.runtime.event_loop import run


class Server(asyncio.Protocol):
    """The connection to the server, whose bytes go to the client at once."""

    def __init__(self, client: asyncio.Transport) -> None:
        self._client = client

    def data_received(self, data: bytes) -> None:
        if not self._client.is_closing():
            self._client.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._client.close()


class Client(asyncio.Protocol):
    """The connection of a client, whose bytes, and whose end, wait for some seconds."""

    def __init__(self, host: str, port: int, seconds: float) -> None:
        self._address = host, port
        self._seconds = seconds
        self._waiting: deque[bytes] = deque()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.pause_reading()
        self._connecting = asyncio.create_task(self._connect())

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        self._server, _ = await loop.create_connection(
            lambda: Server(self._transport), *self._address
        )
        self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        # The first to become due sends what came first.
        self._waiting.append(data)
        asyncio.get_running_loop().call_later(self._seconds, self._send)

    def _send(self) -> None:
        data = self._waiting.popleft()
        if not self._server.is_closing():
            self._server.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        if self._connecting.done():
            asyncio.get_running_loop().call_later(self._seconds, self._server.close)
        else:
            self._connecting.cancel()


async def main(url: str, seconds: float) -> None:
    """Forward until the process is terminated."""
    address = urlsplit(url)
    assert address.hostname and address.port
    host, port = address.hostname, address.port
    server = await asyncio.get_running_loop().create_server(
        lambda: Client(host, port, seconds), "127.0.0.1", 0
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    run(main(sys.argv[1], float(sys.argv[2])))
