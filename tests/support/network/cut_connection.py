"""A TCP hop between a client and a server that can drop bytes without closing connections.

Bytes that are sent while it is dark are lost. A network that delivers requests much later is not
simulated, because nothing can protect a client from it.
"""

import asyncio
from typing import Protocol

from support.network.local_server import StreamServer

CHUNK = 2**16


class HasPort(Protocol):
    """A server on this machine."""

    @property
    def port(self) -> int: ...


class Hop(StreamServer):
    """Forwards connections until `go_dark`."""

    def __init__(self, server: HasPort) -> None:
        super().__init__(self._pass_on)
        self._server = server
        self._dark = False

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def go_dark(self) -> None:
        """Drop all bytes of open and new connections from now on."""
        self._dark = True

    def light_up(self) -> None:
        """Forward new connections again, and cut those from the time when it was dark."""
        self._dark = False
        self.cut_connections()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream: asyncio.StreamWriter | None = None
        try:
            response, upstream = await asyncio.open_connection("127.0.0.1", self._server.port)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._copy(reader, upstream))
                both.create_task(self._copy(response, writer))
        except* (OSError, asyncio.CancelledError):
            pass
        finally:
            if upstream is not None:
                upstream.transport.abort()

    async def _copy(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while chunk := await source.read(CHUNK):
            if not self._dark:
                target.write(chunk)
                await target.drain()
        if self._dark:
            await asyncio.Event().wait()
        target.close()
