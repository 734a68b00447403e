"""HTTP connections to one API server: requests are signed and sent here, and nothing is retried
except once after a 401, with renewed credentials."""

from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Protocol, Self
from urllib.parse import quote, urlencode

import aiohttp
from yarl import URL

import jobflow
from jobflow.kube import credentials
from jobflow.kube.clock import ServerClock, boot_clock
from jobflow.kube.credentials import Credentials, Login

Query = Sequence[tuple[str, str]]

CONNECT_SECONDS = 5.0
CONNECTIONS = 100
"""Connections that one client has open at once. A request beyond them waits."""


class Headers(Protocol):
    """Headers of an answer. Names may be in any case."""

    def get(self, name: str, /) -> str | None: ...

    def getall(self, name: str, default: Sequence[str], /) -> Sequence[str]: ...


class Body(Protocol):
    """Body of an answer that is read in chunks, as they come."""

    def iter_any(self) -> AsyncIterator[bytes]: ...


class Answer(Protocol):
    """An answer whose body is not read yet. aiohttp.ClientResponse is one."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Headers: ...

    @property
    def content(self) -> Body: ...

    async def read(self) -> bytes: ...

    def close(self) -> None: ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


class Connections:
    """A pool of connections that opens with the first request."""

    def __init__(self, auth: Credentials, clock: ServerClock | None = None) -> None:
        self.auth = auth
        self.clock = clock or ServerClock()
        """The server's time, by all answers that come over this pool and its siblings."""
        self._session: aiohttp.ClientSession | None = None

    def sibling(self) -> "Connections":
        """Return another pool to the same server."""
        return Connections(self.auth, self.clock)

    async def close(self) -> None:
        """Close all connections. A later request opens new ones."""
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    async def open(
        self,
        method: str,
        path: str,
        *,
        limits: aiohttp.ClientTimeout,
        query: Query = (),
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request and return the response, whose body is not read yet."""
        text = quote(path, safe="/:") + (f"?{urlencode(query)}" if query else "")
        login = await self.auth.login()
        signed = _sign(headers or {}, login)
        sent_at = boot_clock()
        response = await self._send(login, method, text, body, signed, limits)
        if response.status == 401 and (other := await self.auth.renewed(login)) is not None:
            response.close()
            signed = _sign(headers or {}, other)
            response = await self._send(other, method, text, body, signed, limits)
        self.clock.answered(response.headers.get("Date"), sent_at, boot_clock())
        return response

    async def _send(
        self,
        login: Login,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        limits: aiohttp.ClientTimeout,
    ) -> Answer:
        return await self._pool(login).request(
            method,
            URL(login.server + path, encoded=True),
            data=body,
            headers=headers,
            timeout=limits,
            ssl=login.tls or True,
            server_hostname=login.tls_name,
            proxy=login.proxy,
            allow_redirects=False,
        )

    def _pool(self, login: Login) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=self._connector(),
                trace_configs=[*self._traces()],
                headers=common_headers(),
                cookie_jar=aiohttp.DummyCookieJar(),
                read_bufsize=2**20,
                trust_env=not credentials.is_loopback(login.server),
            )
        return self._session

    def _connector(self) -> aiohttp.TCPConnector:
        return aiohttp.TCPConnector(limit=CONNECTIONS)

    def _traces(self) -> Sequence[aiohttp.TraceConfig]:
        return ()


def common_headers() -> Mapping[str, str]:
    """Return the headers of every request."""
    return {
        "Accept": "application/json",
        # compressing a list costs an API server more than sending it
        "Accept-Encoding": "identity",
        "User-Agent": f"jobflow/{jobflow.__version__}",
    }


def _sign(headers: Mapping[str, str], login: Login) -> Mapping[str, str]:
    """Return the headers with those that name the user."""
    user = {"Authorization": login.authorization, "Impersonate-User": login.impersonate}
    return {**headers, **{name: text for name, text in user.items() if text is not None}}
