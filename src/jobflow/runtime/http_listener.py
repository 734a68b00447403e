"""An HTTP listener: one ASGI app on one port, bound at once and served until it is stopped, without
signal handlers."""

import asyncio
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

IDLE_SECONDS = 120
"""How long an idle connection stays open. Longer than an API server's 90 s (Go's IdleConnTimeout),
so that the client closes it and sends no request into a closing connection."""
DRAIN_SECONDS = 10
"""Time for requests that have begun when the server stops."""
CLOSE_SECONDS = 0.05
"""Time for connections without a request to close."""
BACKLOG = 2048


class PortInUse(OSError):
    """The port cannot be used. `strerror` says which one and how to choose another."""

    def __init__(self, address: str, flag: str, error: OSError) -> None:
        text = f"cannot listen on {address}: {error.strerror}; choose another port by {flag}"
        super().__init__(error.errno, text)

    def __str__(self) -> str:
        return self.strerror or ""


class HttpListener:
    """A port that is bound by the constructor, without a host on all IPv4 and IPv6 addresses.
    `flag` is its command-line flag, for the error message. Raises PortInUse."""

    def __init__(
        self, app: Any, *, port: int, flag: str, host: str = "", tls: ssl.SSLContext | None = None
    ) -> None:
        everywhere = not host and socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if everywhere or ":" in host else socket.AF_INET
        try:
            self._socket = socket.create_server(
                (host, port), family=family, backlog=BACKLOG, dualstack_ipv6=everywhere
            )
        except OSError as error:
            raise PortInUse(f"{host}:{port}" if host else f"port {port}", flag, error) from error
        self.port: int = self._socket.getsockname()[1]
        self._server = _Server(
            uvicorn.Config(
                app,
                loop="none",
                http="httptools",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                # API servers call directly, and nobody else may say who they are
                proxy_headers=False,
                server_header=False,
                # takes time and is of no use to an API server
                date_header=False,
                backlog=BACKLOG,
                timeout_keep_alive=IDLE_SECONDS,
                timeout_graceful_shutdown=DRAIN_SECONDS,
                ssl_context_factory=None if tls is None else lambda config, default: tls,
            )
        )

    async def serve(self) -> None:
        """Serve until `stop`, and answer the requests that have begun."""
        try:
            await self._server.serve(sockets=[self._socket])
        except asyncio.CancelledError:
            # nobody waits for the requests of a replica that dies
            self._server.abort()
            raise
        finally:
            self.close()

    def drain(self) -> None:
        """End each connection with its next answer, so that clients send no request into a
        connection that `stop` closes. New ones are accepted."""
        self._server.server_state.default_headers.append((b"connection", b"close"))

    def stop(self) -> None:
        self._server.stop.set()

    def close(self) -> None:
        self._socket.close()


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.stop = asyncio.Event()

    def abort(self) -> None:
        for server in getattr(self, "servers", ()):
            server.close()
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        for task in list(self.server_state.tasks):
            task.cancel()

    async def main_loop(self) -> None:
        """Wait for `stop` instead of uvicorn's ticks of a tenth of a second."""
        # one tick sets the headers of all answers
        await self.on_tick(0)
        await self.stop.wait()

    async def _wait_tasks_to_complete(self) -> None:
        """Only requests that have begun get the whole drain time: a client with an idle TLS
        connection that does not read never confirms its close."""
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
        """Install no signal handlers."""
        yield
