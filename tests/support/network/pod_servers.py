"""Servers on loopback in place of pods, whose bytes a test controls, and checks of them."""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace

from jobflow.controller.probes.pod_check import check_pod
from jobflow.core.planning.actions import Check
from support.network.local_server import StreamServer
from support.network.probed_pods import pod, web

Play = Callable[["Visit"], Awaitable[None]]


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
HTTP = web()
TCP = web(path=None)


class Visit:
    """An incoming connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.request = b""

    async def read_request(self) -> bytes:
        """Read and return the head of the request."""
        self.request = await self._reader.readuntil(b"\r\n\r\n")
        return self.request

    async def send(self, content: bytes) -> None:
        self._writer.write(content)
        await self._writer.drain()

    async def wait_for_close(self) -> bool:
        """Wait until the peer has disconnected, and return whether it sent nothing more."""
        with suppress(ConnectionError):
            return not await self._reader.read()
        return True

    def reset(self) -> None:
        """Reset the connection with a RST."""
        linger = struct.pack("ii", 1, 0)
        self._writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, linger
        )
        self._writer.transport.abort()


class PodServer(StreamServer):
    """A server that calls `play` for each connection. `visits` has the connections in order."""

    def __init__(self, play: Play, host: str = "127.0.0.1") -> None:
        super().__init__(self._accept, host)
        self.visits: list[Visit] = []
        self._play = play

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.visits.append(visit := Visit(reader, writer))
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await self._play(visit)


def answering(answer: bytes) -> Play:
    """Return a play that reads the request, sends this answer and waits for the end."""

    async def play(visit: Visit) -> None:
        await visit.read_request()
        await visit.send(answer)
        await visit.wait_for_close()

    return play


def status(line: str, *headers: str, version: str = "HTTP/1.1") -> bytes:
    """Return the head of an answer, as in `status("302 Found", "Location: /")`."""
    return "\r\n".join([f"{version} {line}", *headers, "", ""]).encode()


async def check_port(port: int, check: Check = HTTP, ip: str = "127.0.0.1") -> str:
    """Return the result of checking a pod at this port."""
    return await check_pod(pod("web-0", ip=ip), replace(check, port=port), loopback=True)


async def check_play(play: Play, check: Check = HTTP) -> str:
    """Return the result of checking a pod with this play."""
    async with PodServer(play) as server:
        return await check_port(server.port, check)


class Limits:
    """The time limits of checks. They end when the test ends them, and never by the clock."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._timeouts: list[asyncio.Timeout] = []

    def __call__(self, seconds: float) -> asyncio.Timeout:
        self.seconds.append(seconds)
        self._timeouts.append(asyncio.Timeout(None))
        return self._timeouts[-1]

    def time_is_up(self) -> None:
        """End the limit of the last check."""
        self._timeouts[-1].reschedule(asyncio.get_running_loop().time())
