"""Connections of a program that runs for long or sends many requests, by aiohttp."""

from collections.abc import AsyncIterator, Sequence

import aiohttp
from yarl import URL

from jobflow.kube import connections
from jobflow.kube.answers import NetworkError
from jobflow.kube.clock import ServerClock
from jobflow.kube.credentials import Credentials, Login, is_loopback


class PooledConnections(connections.Connections):
    def __init__(self, auth: Credentials, clock: ServerClock | None = None) -> None:
        super().__init__(auth, clock)
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    async def _send(self, login: Login, request: connections.Request) -> connections.Answer:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=self._connector(),
                trace_configs=[*self._traces()],
                headers=connections.common_headers(),
                # a load balancer's cookies would bind all requests to one API server
                cookie_jar=aiohttp.DummyCookieJar(),
                read_bufsize=2**20,
                trust_env=not is_loopback(login.server),
            )
        limits = request.limits
        timeout = aiohttp.ClientTimeout(
            total=limits.total, sock_connect=connections.CONNECT_SECONDS, sock_read=limits.silence
        )
        try:
            response = await self._session.request(
                request.method,
                URL(login.server + request.path, encoded=True),
                data=request.body,
                headers=request.headers,
                timeout=timeout,
                ssl=login.tls or True,
                server_hostname=login.tls_name,
                proxy=login.proxy,
                # credentials must not follow a redirect to another server
                allow_redirects=False,
            )
        except aiohttp.ClientError as error:
            raise network_error(error) from error
        return _Answer(response)

    def _connector(self) -> aiohttp.TCPConnector:
        return aiohttp.TCPConnector(limit=connections.CONNECTIONS)

    def _traces(self) -> Sequence[aiohttp.TraceConfig]:
        return ()


class _Answer:
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers: connections.Headers = response.headers

    async def read(self) -> bytes:
        try:
            return await self._response.read()
        except aiohttp.ClientError as error:
            raise network_error(error) from error

    async def iter_any(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._response.content.iter_any():
                yield chunk
        except aiohttp.ClientError as error:
            if isinstance(error, TimeoutError):  # of the silence between two parts
                raise
            raise network_error(error) from error

    def close(self) -> None:
        self._response.close()


def network_error(error: aiohttp.ClientError) -> NetworkError:
    cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", None)
    if isinstance(error, TimeoutError):
        cause = error
    host, port = getattr(error, "host", None), getattr(error, "port", None)
    text = str(error) or type(error).__name__
    return NetworkError(text, place=f"{host}:{port}" if host else "", cause=cause)
