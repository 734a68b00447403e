"""HTTP connections to one API server: requests are signed and sent here, and nothing is retried
except once after a 401, with renewed credentials."""

from collections.abc import Sequence
from urllib.parse import quote, urlencode

import aiohttp
from yarl import URL

import jobflow
from jobflow.kube import credentials
from jobflow.kube.credentials import Credentials, Login

Query = Sequence[tuple[str, str]]

CONNECT_SECONDS = 5.0
CONNECTIONS = 100
"""Connections that one client has open at once. A request beyond them waits."""


class Connections:
    """A pool of connections that opens with the first request."""

    def __init__(self, auth: Credentials) -> None:
        self.auth = auth
        self._session: aiohttp.ClientSession | None = None

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
        headers: dict[str, str] | None = None,
    ) -> aiohttp.ClientResponse:
        """Send a request and return the response, whose body is not read yet."""
        text = quote(path, safe="/:") + (f"?{urlencode(query)}" if query else "")
        login = await self.auth.login()
        response = await self._send(login, method, text, body, headers or {}, limits)
        if response.status == 401 and (other := await self.auth.renewed(login)) is not None:
            response.close()
            response = await self._send(other, method, text, body, headers or {}, limits)
        return response

    async def _send(
        self,
        login: Login,
        method: str,
        path: str,
        body: bytes | None,
        headers: dict[str, str],
        limits: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        if login.authorization is not None:
            headers = {**headers, "Authorization": login.authorization}
        if login.impersonate is not None:
            headers = {**headers, "Impersonate-User": login.impersonate}
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
                headers={
                    "Accept": "application/json",
                    # compressing a list costs an API server more than sending it
                    "Accept-Encoding": "identity",
                    "User-Agent": f"jobflow/{jobflow.__version__}",
                },
                cookie_jar=aiohttp.DummyCookieJar(),
                read_bufsize=2**20,
                trust_env=not credentials.is_loopback(login.server),
            )
        return self._session

    def _connector(self) -> aiohttp.TCPConnector:
        return aiohttp.TCPConnector(limit=CONNECTIONS)

    def _traces(self) -> Sequence[aiohttp.TraceConfig]:
        return ()
