"""A client that writes only while this process leads, and whose writes are over before another may.

It knows nothing of leases: somebody tells the Fence until when writes may begin.
"""

from __future__ import annotations

import asyncio
import math
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import aiohttp

from jobflow.kube.client import CONNECTIONS, ApiError, Client, Query


class NotLeading(ConnectionError):
    """A write was not sent: this process does not lead, or no longer. One of NETWORK_ERRORS, for
    it says as little about the object as a connection that broke."""


def boot_clock() -> float:
    """Seconds that also count while the machine is suspended, where the system can tell
    (time.monotonic does not, on Linux); unmoved by whoever sets the time."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Fence:
    """Lets writes begin before `until`, each for `write_seconds` at most."""

    def __init__(self, write_seconds: float, *, clock: Callable[[], float] = boot_clock) -> None:
        self.until = -math.inf
        self.in_doubt_until = -math.inf
        """When every write that had no answer is over, one way or the other: counted from when it
        was given up, for until then it may not have been sent."""
        self._write_seconds = write_seconds
        self._clock = clock

    def check(self) -> None:
        """Raises NotLeading."""
        if self._clock() >= self.until:
            raise NotLeading("not sent: this replica does not hold the lease")

    def close(self) -> None:
        """No more writes."""
        self.until = -math.inf

    @property
    def in_doubt(self) -> float:
        """Seconds until no write can be under way any more; 0: none is."""
        return max(0.0, self.in_doubt_until - self._clock())

    @contextmanager
    def write(self, timeout: float) -> Iterator[float]:
        """The body is one write; gives the seconds that it may take. Raises NotLeading."""
        self.check()
        seconds = min(timeout, self._write_seconds)
        try:
            yield seconds
        except BaseException as error:
            # an error of the server's own may come before what it did is stored, or not
            if not isinstance(error, ApiError) or error.code >= 500:
                self.in_doubt_until = self._clock() + self._write_seconds
            raise


class FencedClient(Client):
    """Reads through another client, writes through connections of its own, behind a fence.

    A write ends in three ways at once, whichever comes first: this process gives it up, the API
    server does (`timeout` in the query), and the kernel drops what it could not deliver. The fence
    is asked again right before the bytes go out: until then a process may have been stopped, or
    waited for a connection, for any length of time.
    """

    def __init__(self, client: Client, fence: Fence, write_seconds: float) -> None:
        super().__init__(client.auth, namespace=client.namespace)
        self.observe = client.observe
        self._reads = client
        self._fence = fence
        self._write_seconds = write_seconds

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: bytes | None = None,
        content_type: str = "application/json",
        accept: str = "",
        timeout: float = 10.0,  # noqa: ASYNC109 - of the exchange, passed on to the connection
        warnings: list[str] | None = None,
    ) -> bytes:
        """As Client's. A write raises NotLeading, and TimeoutError after `write_seconds`."""
        if method == "GET":
            return await self._reads.request(
                method, path, query=query, accept=accept, timeout=timeout, warnings=warnings
            )
        with self._fence.write(timeout) as seconds:
            # aiohttp rounds timeouts of more than five seconds up
            async with asyncio.timeout(seconds):
                return await super().request(
                    method,
                    path,
                    query=[*query, ("timeout", f"{int(seconds * 1000)}ms")],
                    body=body,
                    content_type=content_type,
                    accept=accept,
                    timeout=seconds,
                    warnings=warnings,
                )

    def _connector(self) -> aiohttp.TCPConnector:
        return aiohttp.TCPConnector(limit=CONNECTIONS, socket_factory=self._socket)

    def _traces(self) -> Sequence[aiohttp.TraceConfig]:
        """aiohttp itself sends a PUT or DELETE again where a kept connection turns out closed; it
        passes here each time, right before it hands bytes to the connection."""

        async def check(session: aiohttp.ClientSession, context: SimpleNamespace, _: Any) -> None:
            self._fence.check()

        trace = aiohttp.TraceConfig()
        trace.on_request_headers_sent.append(check)
        trace.on_request_chunk_sent.append(check)
        return [trace]

    def _socket(self, address: Any) -> socket.socket:
        """A socket that sends nothing more once it is closed, or once its peer has not confirmed
        for as long as a write may take: not from the kernel's buffers either."""
        family, kind, protocol, _, _ = address
        sock = socket.socket(family, kind, protocol)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if (user_timeout := getattr(socket, "TCP_USER_TIMEOUT", None)) is not None:
            milliseconds = int(self._write_seconds * 1000)
            sock.setsockopt(socket.IPPROTO_TCP, user_timeout, milliseconds)
        return sock
