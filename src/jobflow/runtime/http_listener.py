"""One ASGI app on one port, as an awaitable: bound at once, served until told to stop.

It installs no signal handlers, prints nothing and never ends the process; errors are raised.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

IDLE_SECONDS = 120
"""How long an idle connection is kept. Longer than an API server's 90 s (Go's IdleConnTimeout), so
that it is the client who closes and no request is sent into a closing connection."""
DRAIN_SECONDS = 10
"""How long requests that have begun may take once the server is told to stop."""
CLOSE_SECONDS = 0.05
"""How long connections without a request may take to close."""
BACKLOG = 2048


class PortInUse(OSError):
    """The port cannot be had. `strerror` says which and how to choose another."""

    def __str__(self) -> str:
        return self.strerror or ""


class Listener:
    """A port that is ours from the moment this is made.

    `flag` is the command line's name of the port, for the error. Raises PortInUse.
    """

    def __init__(
        self,
        app: Any,
        *,
        port: int,
        flag: str,
        host: str = "",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._socket = _bind(host, port, flag)
        self.port: int = self._socket.getsockname()[1]
        """The port, also where any free one was asked for."""
        self._server = _Server(
            uvicorn.Config(
                app,
                loop="none",
                http="httptools",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                date_header=False,
                backlog=BACKLOG,
                timeout_keep_alive=IDLE_SECONDS,
                timeout_graceful_shutdown=DRAIN_SECONDS,
                ssl_context_factory=None if tls is None else lambda config, default: tls,
            )
        )

    async def serve(self) -> None:
        """Serve until `stop`; what has begun is answered first."""
        try:
            await self._server.serve(sockets=[self._socket])
        except asyncio.CancelledError:
            self._server.abort()
            raise
        finally:
            self.close()

    def stop(self) -> None:
        """Take no more connections and let `serve` end."""
        self._server.stop.set()

    def close(self) -> None:
        """Give the port back; only for a listener that is not served."""
        self._socket.close()


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.stop = asyncio.Event()

    def abort(self) -> None:
        """Break everything off."""
        for server in getattr(self, "servers", ()):
            server.close()
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        for task in list(self.server_state.tasks):
            task.cancel()

    async def main_loop(self) -> None:
        """Until told to stop, at once and not at the next tick of a tenth of a second."""
        await self.on_tick(0)
        await self.stop.wait()

    async def _wait_tasks_to_complete(self) -> None:
        """A client that holds an idle TLS connection without reading never answers its close;
        only requests that have begun are worth the whole drain."""
        if tasks := list(self.server_state.tasks):
            await asyncio.wait(tasks)
        until = time.monotonic() + CLOSE_SECONDS
        while self.server_state.connections and time.monotonic() < until:  # noqa: ASYNC110
            await asyncio.sleep(0.01)  # uvicorn has no event for it
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await super()._wait_tasks_to_complete()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the composition root's business."""
        yield


def in_use(place: str, flag: str, error: OSError) -> PortInUse:
    """What to tell of a port that cannot be had."""
    text = f"cannot listen on {place}: {error.strerror}; choose another port by {flag}"
    return PortInUse(error.errno, text)


def _bind(host: str, port: int, flag: str) -> socket.socket:
    """A bound socket; without a host on all addresses, IPv4 and IPv6."""
    both = not host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both or ":" in host else socket.AF_INET
    try:
        return socket.create_server(
            (host, port), family=family, backlog=BACKLOG, dualstack_ipv6=both
        )
    except OSError as error:
        raise in_use(f"{host}:{port}" if host else f"port {port}", flag, error) from error
