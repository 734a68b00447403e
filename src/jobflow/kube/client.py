"""Requests to an API server, bytes out and bytes in. Knows paths and errors, keeps no copies.

Every request but a watch goes through `Client.request`. Nothing is retried here, except once after
a 401 with renewed credentials: whoever asks decides what to do about an error.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, Protocol, Self, TypeVar
from urllib.parse import quote, urlencode

import aiohttp
import msgspec
from yarl import URL

import jobflow
from jobflow.api.meta import ListMeta
from jobflow.api.resources import Resource
from jobflow.kube import credentials
from jobflow.kube.credentials import Credentials, Login
from jobflow.kube.errors import NETWORK_ERRORS, ApiError, Unreadable, error_of
from jobflow.kube.reading import decoder, lines, warnings_of

__all__ = [
    "NETWORK_ERRORS",
    "ApiError",
    "Client",
    "Observe",
    "Query",
    "Unreadable",
    "decoder",
    "resource_of",
]

T = TypeVar("T")
Query = Sequence[tuple[str, str]]
Observe = Callable[[str, str, int, float], None]
"""Told of every answer: HTTP method, resource (`jobs`, `jobflows/status`), code, seconds. Code 0
stands for no answer at all."""

PAGE = 500
"""Objects a page of a list."""
CONNECT_SECONDS = 5.0
CONNECTIONS = 100
"""Open at once, of one client; a request beyond them waits."""
MERGE_PATCH = "application/merge-patch+json"


class ServedResource(msgspec.Struct):
    """One entry of an APIResourceList."""

    name: str
    kind: str = ""
    namespaced: bool = False


class Served(msgspec.Struct):
    """`v1` APIResourceList: what one group and version has (meta/v1 types.go)."""

    resources: list[ServedResource] = []


class Page(Protocol):
    """A page of a list."""

    @property
    def metadata(self) -> ListMeta: ...


P = TypeVar("P", bound=Page)


class Client:
    """The door to one API server. An async context manager; `close` it otherwise."""

    def __init__(self, auth: Credentials, *, namespace: str = "default") -> None:
        self.namespace = namespace
        """The namespace of the kubeconfig's context or of the pod."""
        self.observe: Observe | None = None
        self.auth = auth
        self._session: aiohttp.ClientSession | None = None

    @classmethod
    async def from_kubeconfig(cls, path: str | None, *, namespace: str | None = None) -> Self:
        """As the kubeconfig says; None: KUBECONFIG, the user's own file or, in a pod, the service
        account. Raises ConfigError."""
        auth = await credentials.find(path)
        return cls(auth, namespace=namespace or (await auth.login()).namespace)

    @classmethod
    def at(
        cls,
        server: str,
        *,
        namespace: str = "default",
        token: str = "",
        tls: ssl.SSLContext | None = None,
    ) -> Self:
        """Return a client of the server at this URL: the sandbox, or a test's server, which needs
        no token."""
        authorization = f"Bearer {token}" if token else None
        login = Login(server.rstrip("/"), authorization=authorization, tls=tls)
        return cls(Credentials(login), namespace=namespace)

    def sibling(self) -> Client:
        """Another client of the same server, with connections of its own: its requests never wait
        for one of this client's connections. To be closed by whoever asked for it."""
        made = Client(self.auth, namespace=self.namespace)
        made.observe = self.observe
        return made

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections. Requests after it open new ones."""
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    # ------------------------------------------------------------------ requests

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
        """Send one request and return the answer's body, in the form that `accept` names; what the
        server warns of beside it, an error or not, is added to `warnings`.

        Raises ApiError for an answer of 300 and above, one of NETWORK_ERRORS for none within
        `timeout` seconds (connecting, waiting for a connection and reading included).
        """
        limits = aiohttp.ClientTimeout(total=timeout, sock_connect=CONNECT_SECONDS)
        headers = {"Content-Type": content_type} if body is not None else {}
        if accept:
            headers["Accept"] = accept
        started, code = time.perf_counter(), 0
        try:
            response = await self._open(method, path, query, body, headers, limits)
            code = response.status
            if warnings is not None:
                warnings += warnings_of(response.headers.getall("Warning", ()))
            async with response:
                answer = await response.read()
            if code >= 300:
                raise error_of(response, answer)
            return answer
        finally:
            if self.observe is not None:
                self.observe(method, resource_of(path), code, time.perf_counter() - started)

    async def get(self, resource: Resource, namespace: str, name: str, type: type[T]) -> T:
        """One object. Raises ApiError (404 if there is none, Unreadable if it is no `type`)."""
        return decoder(type).decode(await self.request("GET", resource.path(namespace, name)))

    async def list(
        self,
        resource: Resource,
        type_of_list: type[P],
        *,
        namespace: str = "",
        query: Query = (),
        limit: int = PAGE,
        accept: str = "",
        timeout: float = 60.0,  # noqa: ASYNC109 - of each page
    ) -> AsyncGenerator[P, None]:
        """The pages of a list, read as they are taken.

        Without a resourceVersion in `query` the read is consistent: nothing that was written
        before it is missing. Raises ApiError; 410 where the list took longer than its version is
        kept. `limit` 0 asks for everything in one page.
        """
        pages, more = decoder(type_of_list), ""
        while True:
            paging = [("limit", str(limit))] if limit else []
            if more:
                paging.append(("continue", more))
            body = await self.request(
                "GET",
                resource.path(namespace),
                query=[*query, *paging],
                accept=accept,
                timeout=timeout,
            )
            page = pages.decode(body)
            yield page
            more = page.metadata.continue_
            if not more:
                return

    async def create(
        self, resource: Resource, namespace: str, body: bytes, *, query: Query = ()
    ) -> bytes:
        """POST an object; returns it as stored."""
        return await self.request("POST", resource.path(namespace), query=query, body=body)

    async def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        body: bytes,
        *,
        subresource: str = "",
        content_type: str = MERGE_PATCH,
        query: Query = (),
    ) -> bytes:
        """PATCH an object, a JSON merge patch unless `content_type` says otherwise; returns it."""
        path = resource.path(namespace, name, subresource)
        return await self.request("PATCH", path, query=query, body=body, content_type=content_type)

    async def replace(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        body: bytes,
        *,
        subresource: str = "",
        query: Query = (),
    ) -> bytes:
        """PUT an object; returns it as stored. 409 where its resourceVersion is not the newest."""
        path = resource.path(namespace, name, subresource)
        return await self.request("PUT", path, query=query, body=body)

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: str = "Background",
    ) -> None:
        """DELETE an object, with `uid` only if it still is that one, with `resource_version` only
        if it has not changed since (else 409). Gone is success."""
        options: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": propagation,
        }
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        if uid is not None or resource_version is not None:
            options["preconditions"] = {k: v for k, v in preconditions.items() if v is not None}
        try:
            path = resource.path(namespace, name)
            await self.request("DELETE", path, body=msgspec.json.encode(options))
        except ApiError as error:
            if not error.not_found:
                raise

    async def watch(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        resource_version: str,
        query: Query = (),
        timeout_seconds: int = 300,
        silence: float = 90.0,
    ) -> AsyncGenerator[bytes, None]:
        """The frames of a watch as JSON, of any length, bookmarks and ERROR frames included.

        Ends when the server ends it, after `timeout_seconds` at the latest. A frame that was cut
        off is not yielded. Raises ApiError where the watch was refused and one of NETWORK_ERRORS
        where the connection broke or nothing came for `silence` seconds (bookmarks come about once
        a minute). Close the iterator (contextlib.aclosing) to close the connection.
        """
        asked = [
            ("watch", "1"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", resource_version),
            ("timeoutSeconds", str(timeout_seconds)),
            *query,
        ]
        limits = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_SECONDS, sock_read=min(silence, timeout_seconds + 15)
        )
        path = resource.path(namespace)
        response = await self._open("GET", path, asked, None, {}, limits)
        try:
            if response.status >= 300:
                raise error_of(response, await response.read())
            async for line in lines(response.content.iter_any()):
                yield line
        finally:
            response.close()

    async def resource_of_kind(self, api_version: str, kind: str) -> Resource | None:
        """Where the server serves a kind, by its discovery; None where it does not."""
        group, _, version = api_version.rpartition("/")
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        try:
            served = decoder(Served).decode(await self.request("GET", path))
        except ApiError as error:
            if error.code in (403, 404):
                return None
            raise
        for entry in served.resources:
            if entry.kind == kind and "/" not in entry.name:
                return Resource(group, version, entry.name, kind, entry.namespaced)
        return None

    # ------------------------------------------------------------------ connection

    async def _open(
        self,
        method: str,
        path: str,
        query: Query,
        body: bytes | None,
        headers: dict[str, str],
        limits: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        """Send; signed anew and sent once more where the signature was refused."""
        login = await self.auth.login()
        response = await self._send(login, method, path, query, body, headers, limits)
        if response.status == 401:
            other = await self.auth.renewed(login)
            if other is not None:
                response.close()
                response = await self._send(other, method, path, query, body, headers, limits)
        return response

    async def _send(
        self,
        login: Login,
        method: str,
        path: str,
        query: Query,
        body: bytes | None,
        headers: dict[str, str],
        limits: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        text = login.server + quote(path, safe="/:")
        url = URL(f"{text}?{urlencode(query)}" if query else text, encoded=True)
        if login.authorization is not None:
            headers = {**headers, "Authorization": login.authorization}
        return await self._connections(login).request(
            method,
            url,
            data=body,
            headers=headers,
            timeout=limits,
            ssl=login.tls or True,
            server_hostname=login.tls_name,
            proxy=login.proxy,
            allow_redirects=False,
        )

    def _connections(self, login: Login) -> aiohttp.ClientSession:
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


def resource_of(path: str) -> str:
    """The kind of a request's path, for metrics: `jobs`, `jobflows/status`, `version`."""
    parts = path.strip("/").split("/")
    parts = parts[3:] if parts[0] == "apis" else parts[2:] if parts[0] == "api" else parts
    if len(parts) > 2 and parts[0] == "namespaces":
        parts = parts[2:]
    return "/".join(parts[::2]) if parts else ""
