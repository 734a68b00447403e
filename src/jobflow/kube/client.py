"""Requests to an API server, without copies. Each goes through `Client.request`, or through
`Client.stream` if its answer may have no end. The caller decides what to do about an error."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Self, TypeVar

import msgspec

from jobflow.api.resources import Resource
from jobflow.kube import answers, credentials
from jobflow.kube.answers import NETWORK_ERRORS, ApiError, UnreadableAnswer, decoder
from jobflow.kube.clock import ExponentialBackoff, ServerClock
from jobflow.kube.connections import Connections, Limits, Query
from jobflow.kube.credentials import Credentials
from jobflow.kube.light_connections import LightConnections

__all__ = [
    "NETWORK_ERRORS",
    "ApiError",
    "Client",
    "Observe",
    "Query",
    "UnreadableAnswer",
    "decoder",
]

log = logging.getLogger(__name__)

T = TypeVar("T")
Observe = Callable[[str, str, int, float], None]
"""Called for every answer with HTTP method, resource (`jobs`, `jobflows/status`), code and seconds.
Code 0 means that no answer came."""

PAGE = 500
"""Objects in a page of a list."""
PAGE_SECONDS = 60.0
LONGEST_RETRY = 5.0
"""Seconds between two attempts of `retried`."""
MERGE_PATCH = "application/merge-patch+json"


class ServedResource(msgspec.Struct):
    name: str
    kind: str = ""
    namespaced: bool = False


class Served(msgspec.Struct):
    """`v1` APIResourceList: the resources of one group and version (meta/v1 types.go)."""

    resources: list[ServedResource] = []


class Client:
    """Requests to one API server. An async context manager; call `close` otherwise."""

    def __init__(
        self,
        auth: Credentials,
        *,
        namespace: str = "default",
        connections: Connections | None = None,
    ) -> None:
        self.namespace = namespace
        self.observe: Observe | None = None
        self.auth = auth
        if connections is None:
            from jobflow.kube.pooled_connections import PooledConnections  # aiohttp takes long

            connections = PooledConnections(auth)
        self._connections = connections

    @classmethod
    async def from_kubeconfig(
        cls,
        path: str | None,
        *,
        namespace: str | None = None,
        context: str | None = None,
        impersonate: str | None = None,
        is_brief: bool = False,
    ) -> Self:
        """Return a client for this kubeconfig. None: KUBECONFIG, the user's file or, in a pod, the
        service account. `is_brief`: few requests follow. Raises ConfigError."""
        auth = await credentials.find(path, context=context, impersonate=impersonate)
        connections = LightConnections(auth) if is_brief else None
        namespace = namespace or (await auth.login()).namespace
        return cls(auth, namespace=namespace, connections=connections)

    def sibling(self) -> "Client":
        """Return a client of the same server with connections of its own, so that its requests
        never wait for this client's. The caller closes it."""
        connections = self._connections.sibling()
        sibling = Client(self.auth, namespace=self.namespace, connections=connections)
        sibling.observe = self.observe
        return sibling

    @property
    def clock(self) -> ServerClock:
        return self._connections.clock

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._connections.close()

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
        """Send a request and return the answer's body in the format that `accept` names. Warnings
        of the server are added to `warnings`. Raises ApiError for an answer of 300 and above, and
        one of NETWORK_ERRORS if no answer came within `timeout` seconds, with the wait for a
        connection."""
        limits = Limits(total=timeout)
        headers = {"Content-Type": content_type} if body is not None else {}
        if accept:
            headers["Accept"] = accept
        started, code = time.perf_counter(), 0
        try:
            response = await self._connections.open(
                method, path, query=query, body=body, headers=headers, limits=limits
            )
            code = response.status
            if warnings is not None:
                warnings += answers.warnings_of(response.headers.getall("Warning", ()))
            try:
                answer = await response.read()
            finally:
                response.close()
            if code >= 300:
                raise answers.api_error(response, answer)
            return answer
        finally:
            if self.observe is not None:
                self.observe(method, resource_of(path), code, time.perf_counter() - started)

    async def get(self, resource: Resource, namespace: str, name: str, type: type[T]) -> T:
        """Return an object. Raises ApiError, UnreadableAnswer if it is not a `type`."""
        return decoder(type).decode(await self.request("GET", resource.path(namespace, name)))

    async def list(
        self,
        resource: Resource,
        type_of_list: type[answers.ItemList[T]],
        *,
        namespace: str = "",
        query: Query = (),
        limit: int = PAGE,
        accept: str = "",
    ) -> AsyncGenerator[answers.ItemList[T], None]:
        """Yield the pages of a list, each requested when it is needed. Without a resourceVersion in
        `query` the read is consistent. Raises ApiError, with code 410 if the list took longer than
        the server keeps its version. `limit` 0 requests a single page."""
        pages, more = decoder(type_of_list), ""
        while True:
            paging = [("limit", str(limit))] if limit else []
            if more:
                paging.append(("continue", more))
            path, options = resource.path(namespace), [*query, *paging]
            body = await self.request(
                "GET", path, query=options, accept=accept, timeout=PAGE_SECONDS
            )
            page = pages.decode(body)
            yield page
            if not (more := page.metadata.continue_):
                return

    async def create(
        self, resource: Resource, namespace: str, body: bytes, *, query: Query = ()
    ) -> bytes:
        """POST an object and return it as stored."""
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
        """PATCH an object, by default with a JSON merge patch, and return it as stored."""
        path = resource.path(namespace, name, subresource)
        return await self.request("PATCH", path, query=query, body=body, content_type=content_type)

    async def replace(self, resource: Resource, namespace: str, name: str, body: bytes) -> bytes:
        """PUT an object, which is refused (409) if it has another resource version by now."""
        return await self.request("PUT", resource.path(namespace, name), body=body)

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
        """DELETE an object. A given `uid` or `resource_version` must match the stored object, else
        409. An object that does not exist is no error."""
        wanted = {"uid": uid, "resourceVersion": resource_version}
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": propagation,
            "preconditions": {key: value for key, value in wanted.items() if value is not None},
        }
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
        opened: Callable[[], None] | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """Yield the events of a watch as JSON, bookmarks and ERROR events included, but none that
        was cut off. The server ends the watch after at most `timeout_seconds`. Bookmarks come about
        once a minute, none of a version before `resource_version`, which may be newer than the last
        change of the kind. `opened`, `silence`, errors: like `stream`."""
        # bookmarks tell that the copy is up to date although nothing changes
        options = [
            ("watch", "1"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", resource_version),
            ("timeoutSeconds", str(timeout_seconds)),
            *query,
        ]
        # the server ends the watch by itself, so a longer silence is a dead connection
        path, silence = resource.path(namespace), min(silence, timeout_seconds + 15)
        stream = self.stream(path, query=options, silence=silence, opened=opened)
        async with aclosing(stream) as chunks:
            async for line in answers.lines(chunks):
                yield line

    async def stream(
        self,
        path: str,
        *,
        query: Query = (),
        silence: float | None = None,
        opened: Callable[[], None] | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """Yield the body of an answer in chunks, as they come; `opened` is called before the first.
        Raises ApiError for an answer of 300 and above, Silence if nothing came for `silence`
        seconds after the answer had begun (None: any time), and one of NETWORK_ERRORS if the
        connection broke. Close the iterator (contextlib.aclosing) to close the connection."""
        limits = Limits(silence=silence)
        response = await self._connections.open("GET", path, query=query, limits=limits)
        try:
            if response.status >= 300:
                raise answers.api_error(response, await response.read())
            if opened is not None:
                opened()
            try:
                async for chunk in response.iter_any():
                    yield chunk
            except TimeoutError as error:
                raise answers.Silence(f"nothing came for {silence} s") from error
        finally:
            response.close()

    async def resource_of_kind(self, api_version: str, kind: str) -> Resource | None:
        """Return the resource of a kind from the server's discovery; None if it is not served."""
        group, _, version = api_version.rpartition("/")
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        try:
            served = decoder(Served).decode(await self.request("GET", path))
        except ApiError as error:
            # a group that is not installed, or that the user may not see
            if error.code in (403, 404):
                return None
            raise
        for entry in served.resources:
            if entry.kind == kind and "/" not in entry.name:
                return Resource(group, version, entry.name, kind, entry.namespaced)
        return None


def resource_of(path: str) -> str:
    """Return the resource in a request's path: `jobs`, `jobflows/status`, `version`."""
    parts = path.strip("/").split("/")
    parts = parts[3:] if parts[0] == "apis" else parts[2:] if parts[0] == "api" else parts
    if len(parts) > 2 and parts[0] == "namespaces":
        parts = parts[2:]
    return "/".join(parts[::2]) if parts else ""


async def retried(read: Callable[[], Awaitable[None]]) -> None:
    """Call `read` (`catch_up` or `reread` of a Reflector) until it succeeds."""
    backoff = ExponentialBackoff(most=LONGEST_RETRY)
    while True:
        try:
            return await read()
        except (ApiError, *NETWORK_ERRORS) as error:
            log.warning("cannot read what the API server holds", extra={"error": str(error)})
        await asyncio.sleep(backoff.next())
