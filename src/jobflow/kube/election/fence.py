"""A client whose writes begin only while this process leads, and end before another may lead.

Leases are not known here: the election sets until when writes may begin.
"""

import asyncio
import math
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import aiohttp

from jobflow.kube.client import ApiError, Client, Query
from jobflow.kube.clock import ServerClock, boot_clock
from jobflow.kube.connections import CONNECTIONS
from jobflow.kube.credentials import Credentials
from jobflow.kube.pooled_connections import PooledConnections


class NotLeading(ConnectionError):
    """A write was not sent because this process does not lead. One of NETWORK_ERRORS, because it
    says as little about the object as a broken connection."""


class Fence:
    """Lets writes begin before `until`. Each may take up to `write_seconds`."""

    def __init__(self, write_seconds: float, *, clock: Callable[[], float] = boot_clock) -> None:
        self.until = -math.inf
        self.in_doubt_until = -math.inf
        """When every write without an answer has ended. Counted from when it was given up, because
        it may not have been sent before."""
        self._write_seconds = write_seconds
        self._clock = clock

    def check(self) -> None:
        """Raise NotLeading if a write may not begin now."""
        if self._clock() >= self.until:
            raise NotLeading("not sent: this replica does not hold the lease")

    def close(self) -> None:
        """Let no more writes begin."""
        self.until = -math.inf

    @property
    def in_doubt(self) -> float:
        """Seconds until no write is in flight any more."""
        return max(0.0, self.in_doubt_until - self._clock())

    @contextmanager
    def write(self, timeout: float) -> Iterator[float]:
        """Allow the body to be one write and yield its time limit in seconds. Raises NotLeading."""
        # a process that was paused may have lost the Lease since it last looked
        self.check()
        seconds = min(timeout, self._write_seconds)
        try:
            yield seconds
        except BaseException as error:
            # a server may report an internal error before its write is stored
            if not isinstance(error, ApiError) or error.code >= 500:
                self.in_doubt_until = self._clock() + self._write_seconds
            raise


class FencedClient(Client):
    """Reads through another client, and writes through connections of its own, behind a fence."""

    def __init__(self, client: Client, fence: Fence, write_seconds: float) -> None:
        connections = FencedConnections(client.auth, client.clock, fence, write_seconds)
        super().__init__(client.auth, namespace=client.namespace, connections=connections)
        self.observe = client.observe
        self._reads = client
        self._fence = fence

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        timeout: float = 10.0,  # noqa: ASYNC109 - of the exchange, passed on to the connection
        **options: Any,
    ) -> bytes:
        """Like Client.request. A write raises NotLeading, and TimeoutError after its time limit."""
        if method == "GET":
            return await self._reads.request(method, path, query=query, timeout=timeout, **options)
        with self._fence.write(timeout) as seconds:
            # the API server gives up by itself, so that no write is stored late
            query = [*query, ("timeout", f"{int(seconds * 1000)}ms")]
            # aiohttp rounds up timeouts of more than five seconds
            async with asyncio.timeout(seconds):
                return await super().request(method, path, query=query, timeout=seconds, **options)


class FencedConnections(PooledConnections):
    """Connections whose writes end in time.

    A write ends by whatever comes first: this process gives up, the API server does (`timeout` in
    the query), or the kernel drops what it could not deliver. The fence is checked again right
    before bytes are sent, because the process may have been paused, or may have waited for a
    connection, for any time.
    """

    def __init__(
        self, auth: Credentials, clock: ServerClock, fence: Fence, write_seconds: float
    ) -> None:
        super().__init__(auth, clock)
        self._fence = fence
        self._write_seconds = write_seconds

    def _connector(self) -> aiohttp.TCPConnector:
        return aiohttp.TCPConnector(limit=CONNECTIONS, socket_factory=self._socket)

    def _traces(self) -> Sequence[aiohttp.TraceConfig]:
        """aiohttp repeats a PUT or DELETE if a kept connection turns out to be closed. It calls
        this trace each time, right before it hands bytes to the connection."""

        async def check(session: aiohttp.ClientSession, context: SimpleNamespace, _: Any) -> None:
            self._fence.check()

        trace = aiohttp.TraceConfig()
        trace.on_request_headers_sent.append(check)
        trace.on_request_chunk_sent.append(check)
        return [trace]

    def _socket(self, address: Any) -> socket.socket:
        """Return a socket that sends nothing more, not even from the kernel's buffers, once it is
        closed or its peer has confirmed nothing for as long as a write may take."""
        family, kind, protocol, _, _ = address
        sock = socket.socket(family, kind, protocol)
        # otherwise the kernel would go on sending after a close
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if (user_timeout := getattr(socket, "TCP_USER_TIMEOUT", None)) is not None:
            milliseconds = int(self._write_seconds * 1000)
            sock.setsockopt(socket.IPPROTO_TCP, user_timeout, milliseconds)
        return sock
