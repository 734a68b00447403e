"""Servers on a free port of this machine, which run during an `async with` body."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Self

from aiohttp import web


class LocalServer:
    """An HTTP server at `url`. `handle` answers every request."""

    def __init__(
        self,
        handle: Callable[[web.Request], Awaitable[web.StreamResponse]],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{path:.*}", handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        self._tls = tls
        self.url = ""

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls).start()
        scheme = "https" if self._tls else "http"
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._runner.cleanup()

    @property
    def port(self) -> int:
        return int(self._runner.addresses[0][1])


class StreamServer:
    """A TCP server at `port`. A connection ends when `serve` returns or is cancelled."""

    def __init__(
        self,
        serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
        host: str = "127.0.0.1",
    ) -> None:
        self._serve = serve
        self._host = host
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._connected, self._host, 0)
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._listener.close()
        self.cut_connections()
        await self.all_left()

    def cut_connections(self) -> None:
        """Cut the open connections."""
        for task in self._tasks:
            task.cancel()

    async def all_left(self) -> None:
        """Wait until every connection has ended."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._serve(reader, writer)
        finally:
            self._tasks.discard(task)
            writer.transport.abort()
