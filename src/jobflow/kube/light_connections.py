"""Connections of a command that sends few requests, by asyncio and h11, which are imported in a
quarter of the time of aiohttp."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Any
from urllib.parse import urlsplit

import h11

from jobflow.kube.answers import NetworkError
from jobflow.kube.clock import ServerClock
from jobflow.kube.connections import CONNECT_SECONDS, Answer, Connections, Request, common_headers
from jobflow.kube.credentials import Credentials, Login, is_loopback

_READ_BYTES = 2**18
_MOST_HEAD_BYTES = 2**18
_PROXIES = ("https_proxy", "http_proxy", "all_proxy")
"""Variables of the environment that may name a proxy, in any case."""


class LightConnections(Connections):
    """Connections without a limit, each kept for the next request. Servers behind a proxy are left
    to aiohttp, which knows all kinds of it."""

    def __init__(self, auth: Credentials, clock: ServerClock | None = None) -> None:
        super().__init__(auth, clock)
        self._idle: list[_Connection] = []
        self._proxied: Connections | None = None

    async def close(self) -> None:
        while self._idle:
            self._idle.pop().close()
        if self._proxied is not None:
            await self._proxied.close()
        await asyncio.sleep(0)  # so that the transports close before their loop

    async def _send(self, login: Login, request: Request) -> Answer:
        names = {name.lower() for name, value in os.environ.items() if value}
        may_have_proxy = not names.isdisjoint(_PROXIES) and not is_loopback(login.server)
        if login.proxy or may_have_proxy:
            if self._proxied is None:
                from jobflow.kube.pooled_connections import PooledConnections  # few have a proxy

                self._proxied = PooledConnections(self.auth, self.clock)
            return await self._proxied._send(login, request)
        loop = asyncio.get_running_loop()
        total = request.limits.total
        deadline = None if total is None else loop.time() + total
        async with asyncio.timeout_at(deadline):
            while self._idle:
                kept = self._idle.pop()
                if not kept.is_usable(login):
                    kept.close()
                    continue
                try:
                    return await self._ask(kept, request, deadline)
                except _Closed:  # at this moment; a write may have been carried out
                    if request.method != "GET":
                        raise
            # a connection of its own, which nobody has closed meanwhile
            fresh = await _connect(login)
            return await self._ask(fresh, request, deadline)

    async def _ask(
        self, connection: "_Connection", request: Request, deadline: float | None
    ) -> Answer:
        try:
            response = await connection.ask(request)
        except BaseException:
            connection.close()
            raise
        return _Answer(response, connection, self._idle, deadline, request.limits.silence)


async def _connect(login: Login) -> "_Connection":
    url = urlsplit(login.server)
    is_https, host = url.scheme == "https", url.hostname or ""
    port = url.port or (443 if is_https else 80)
    try:
        async with asyncio.timeout(2 * CONNECT_SECONDS):  # TLS takes its time too
            reader, writer = await _open(
                host,
                port,
                ssl=(login.tls or True) if is_https else None,
                server_hostname=(login.tls_name or host) if is_https else None,
            )
    except OSError as error:
        raise NetworkError(str(error), place=f"{host}:{port}", cause=error) from error
    return _Connection(login, url.netloc.rpartition("@")[2], reader, writer)


async def _open(
    host: str, port: int, **tls: Any
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the first address of the host that answers. Raises the OSError of the last one,
    because asyncio would join those of all to one that has no number."""
    loop = asyncio.get_running_loop()
    *others, last = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for _, _, _, _, address in others:
        with suppress(OSError):
            return await asyncio.open_connection(str(address[0]), port, **tls)
    return await asyncio.open_connection(str(last[4][0]), port, **tls)


_peer = attrgetter("server", "tls", "tls_name")


class _Closed(NetworkError):
    """The server closed a connection instead of an answer."""


class _Connection:
    def __init__(
        self, login: Login, host: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._login = login
        self._headers = {"Host": host, **common_headers()}
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MOST_HEAD_BYTES)

    def is_usable(self, login: Login) -> bool:
        """Whether it leads to the same server, as the same TLS user, and is still open."""
        return (
            _peer(login) == _peer(self._login)
            and not self._reader.at_eof()
            and not self._writer.is_closing()
        )

    async def ask(self, request: Request) -> h11.Response:
        """Send a request and return the head of the answer. Raises NetworkError."""
        headers, body = {**self._headers, **request.headers}, request.body
        if body is not None:
            headers["Content-Length"] = str(len(body))
        target = (urlsplit(self._login.server).path + request.path).encode()
        head = h11.Request(method=request.method, target=target, headers=[*headers.items()])
        events: list[h11.Event] = [head, h11.EndOfMessage()]
        if body:
            events.insert(1, h11.Data(data=body))
        try:
            for event in events:
                self._writer.write(self._http.send(event) or b"")
            await self._writer.drain()
        except OSError as error:
            raise _Closed(str(error), cause=error) from error
        while True:
            answer = await self.next_event()
            if isinstance(answer, h11.Response):
                return answer
            if not isinstance(answer, h11.InformationalResponse):
                raise _Closed("Server disconnected")

    async def next_event(self, silence: float | None = None) -> h11.Event | type[h11.PAUSED]:
        """Return the next part of the answer. Raises NetworkError, TimeoutError."""
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                async with asyncio.timeout(silence):
                    data = await self._reader.read(_READ_BYTES)
                if not data and self._http.their_state is h11.SEND_RESPONSE:
                    raise _Closed("Server disconnected")
                self._http.receive_data(data)
        except h11.RemoteProtocolError as error:
            raise NetworkError(str(error)) from error
        except OSError as error:
            if isinstance(error, NetworkError | TimeoutError):
                raise
            raise NetworkError(str(error), cause=error) from error
        return event  # type: ignore[return-value]  # NEED_DATA ended the loop

    def next_exchange(self) -> bool:
        """Prepare for another request; return whether the server keeps the connection open."""
        # both sides must have said all, and keep the connection open
        if self._http.our_state is self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            return True
        return False

    def close(self) -> None:
        self._writer.transport.abort()


class _Headers:
    def __init__(self, found: Iterable[tuple[bytes, bytes]]) -> None:
        self._found = [(name.decode().lower(), text.decode("latin-1")) for name, text in found]

    def get(self, name: str, /) -> str | None:
        return next(iter(self.getall(name, ())), None)

    def getall(self, name: str, default: Sequence[str], /) -> Sequence[str]:
        return [text for each, text in self._found if each == name.lower()] or default


class _Answer:
    def __init__(
        self,
        response: h11.Response,
        connection: _Connection,
        idle: list[_Connection],
        deadline: float | None,
        silence: float | None,
    ) -> None:
        self.status = response.status_code
        self.headers = _Headers(response.headers)
        self._connection: _Connection | None = connection
        self._idle = idle
        self._deadline = deadline
        self._silence = silence

    async def read(self) -> bytes:
        async with asyncio.timeout_at(self._deadline):
            return b"".join([chunk async for chunk in self.iter_any()])

    async def iter_any(self) -> AsyncIterator[bytes]:
        while (connection := self._connection) is not None:
            event = await connection.next_event(self._silence)
            if isinstance(event, h11.Data):
                yield bytes(event.data)
                continue
            self._connection = None
            if connection.next_exchange():
                self._idle.append(connection)
            else:
                connection.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
