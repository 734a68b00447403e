"""API server: startup, shutdown, and the way of a request."""

from __future__ import annotations

import asyncio
import socket
from contextlib import aclosing, suppress
from functools import partial
from typing import Self

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from jobflow.sandbox.apiserver.bootstrap import preinstall
from jobflow.sandbox.apiserver.kinds import Registry
from jobflow.sandbox.apiserver.reads.pod_logs import LogHandler, LogSource
from jobflow.sandbox.apiserver.reads.reads import ReadHandler
from jobflow.sandbox.apiserver.requests import failures, http
from jobflow.sandbox.apiserver.requests.access import Access, check_body, user_of
from jobflow.sandbox.apiserver.requests.failures import RequestFailure
from jobflow.sandbox.apiserver.resources import builtin
from jobflow.sandbox.apiserver.resources.crds import update_registry
from jobflow.sandbox.apiserver.resources.discovery import (
    discover,
    no_such_page,
    openapi,
    own_user,
)
from jobflow.sandbox.apiserver.routes import ResourceRoutes, find_target
from jobflow.sandbox.apiserver.storage import Storage
from jobflow.sandbox.apiserver.writes.admission import Admission
from jobflow.sandbox.apiserver.writes.deletes import Deleter
from jobflow.sandbox.apiserver.writes.garbage_collector import GarbageCollector
from jobflow.sandbox.apiserver.writes.writer import Writer


class ApiServer:
    """A small Kubernetes API server in this process, over real HTTP.

    An async context manager. With `access`, the server speaks HTTPS and requires the token; only
    tests omit it. Raises OSError if the port is in use and, on exit, the exceptions of crashed
    requests.
    """

    protocol: type[HttpToolsProtocol] = HttpToolsProtocol

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        access: Access | None = None,
        logs: LogSource | None = None,
        history: int = 10_000,
        bookmark_seconds: float = 60.0,
    ) -> None:
        self.access = access
        self.storage = Storage(history=history)
        self.registry = Registry(builtin.KINDS)
        # Before any other listener: the collector asks the registry for the kind.
        update = partial(update_registry, self.registry, builtin.CRD.bucket)
        self.storage.listeners.append(update)
        self.admission = Admission(self.storage)
        self.reader = ReadHandler(self.storage, bookmark_seconds=bookmark_seconds)
        self.writer = Writer(self.storage, self.admission)
        deleter = Deleter(self.storage, self.admission)
        self._resources = ResourceRoutes(
            self.storage, self.reader, LogHandler(self.storage, logs), self.writer, deleter
        )
        self._collector = GarbageCollector(self.storage, self.registry, self.writer, deleter)
        self._collecting: asyncio.Task[None] | None = None
        self._crashes: list[Exception] = []
        self._address = (host, port)
        self._state = ServerState()
        self._listener: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """`https://host:port`, or `http://…` without `access`; known once it listens."""
        host, port = self._address
        return f"{'https' if self.access else 'http'}://{host}:{port}"

    async def __aenter__(self) -> Self:
        # Before the port is open, so that no client sees a server without kinds.
        await preinstall(self.writer, self.registry)
        sock = socket.create_server(self._address)
        # asyncio sets this only if the socket names TCP; without it, an answer in two writes
        # waits 40 ms for the client's delayed acknowledgement
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._address = (self._address[0], sock.getsockname()[1])
        config = uvicorn.Config(
            self,
            http=self.protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            timeout_keep_alive=120,
        )
        config.load()
        make = partial(self.protocol, config=config, server_state=self._state, app_state={})
        self._listener = await asyncio.get_running_loop().create_server(
            make, sock=sock, ssl=self.access.tls if self.access else None
        )
        self._collecting = asyncio.create_task(self._collector.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._listener is not None
        assert self._collecting is not None
        self._collecting.cancel()
        with suppress(asyncio.CancelledError):
            await self._collecting
        self._listener.close()
        # Watches never end by themselves, and shutdown waits for all requests.
        self.storage.close_watches()
        for connection in list(self._state.connections):
            connection.shutdown()
        while self._state.tasks:
            await asyncio.wait(list(self._state.tasks))
        for connection in list(self._state.connections):
            connection.transport.close()
        await self._listener.wait_closed()
        await self.admission.close()
        if self._crashes:
            raise ExceptionGroup("requests that the server could not handle", self._crashes)

    async def __call__(self, scope: http.Scope, receive: http.Receive, send: http.Send) -> None:
        request = http.read_request(scope)
        try:
            request.user = user_of(request, self.access)
            request.body = await http.read_body(receive)
            check_body(request)
            response = await self.respond(request, receive)
        except RequestFailure as failed:
            response = http.refusal(failed)
        except Exception as crash:
            # Raised when the server is closed, so that no test overlooks it.
            self._crashes.append(crash)
            response = http.refusal(failures.internal(f"{type(crash).__name__}: {crash}"))
        if response.stream is None:
            await http.answer(response, request, send)
        else:
            async with aclosing(response.stream):
                await http.answer(response, request, send)

    async def respond(self, request: http.Request, receive: http.Receive) -> http.Response:
        """Return the answer to an authorized request. Raises RequestFailure."""
        if (target := find_target(self.registry, request.path)) is not None:
            return await self._resources.handle(target, request, receive)
        found = discover(self.registry, request) or openapi(self.registry, request)
        return found or own_user(request) or no_such_page(request)
