"""API server: startup, shutdown, request log and injected faults."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from jobflow.sandbox.apiserver.bootstrap import preinstall
from jobflow.sandbox.apiserver.kinds import Registry
from jobflow.sandbox.apiserver.kubeconfig import kubeconfig
from jobflow.sandbox.apiserver.reads.pod_logs import LogHandler, LogSource
from jobflow.sandbox.apiserver.reads.reads import ReadHandler
from jobflow.sandbox.apiserver.requests import failures, http
from jobflow.sandbox.apiserver.requests.access import Access, check_body, user_of
from jobflow.sandbox.apiserver.requests.failures import RequestFailure
from jobflow.sandbox.apiserver.resources import builtin
from jobflow.sandbox.apiserver.resources.crds import CrdListener
from jobflow.sandbox.apiserver.resources.discovery import discover, no_such_page, own_user
from jobflow.sandbox.apiserver.resources.openapi import openapi
from jobflow.sandbox.apiserver.routes import ResourceRoutes, find_target
from jobflow.sandbox.apiserver.storage import Storage
from jobflow.sandbox.apiserver.writes.admission import Admission
from jobflow.sandbox.apiserver.writes.deletes import Deleter
from jobflow.sandbox.apiserver.writes.garbage_collector import GarbageCollector
from jobflow.sandbox.apiserver.writes.writer import Writer


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One answered request; `code` 0 means that the connection was broken on purpose."""

    method: str
    path: str
    query: dict[str, str]
    code: int
    user_agent: str


@dataclass(slots=True)
class InjectedFault:
    """A fault of requests: answered with `failure`, or else the connection breaks. With `after`,
    the request is executed and only its answer is lost."""

    matches: Callable[[http.Request], bool]
    failure: RequestFailure | None = None
    after: bool = False
    times: int | None = 1
    """Number of requests that it strikes; None means all."""

    def strikes(self, request: http.Request) -> bool:
        """Return whether it strikes this request, and count it."""
        if self.times == 0 or not self.matches(request):
            return False
        if self.times is not None:
            self.times -= 1
        return True


class _Protocol(HttpToolsProtocol):
    """Protocol that lets the application break a connection, which ASGI does not support."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {"jobflow.abort": {"abort": self.transport.abort}}


class ApiServer:
    """A small Kubernetes API server in this process, over real HTTP.

    An async context manager. `requests` holds the last requests; `faults` is for tests. With
    `access`, the server speaks HTTPS and requires the token; only tests omit it. Raises OSError if
    the port is in use and, on exit, the exceptions of crashed requests.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        access: Access | None = None,
        logs: LogSource | None = None,
        history: int = 10_000,
        bookmark_seconds: float = 60.0,
        remembered_requests: int = 100_000,
    ) -> None:
        self.access = access
        self.requests: deque[RequestRecord] = deque(maxlen=remembered_requests)
        self.faults: list[InjectedFault] = []
        self.storage = Storage(history=history)
        self.registry = Registry(builtin.KINDS)
        self.storage.listeners.append(CrdListener(self.registry, builtin.CRD.bucket))
        self.admission = Admission(self.storage)
        self._reader = ReadHandler(self.storage, bookmark_seconds=bookmark_seconds)
        self.writer = Writer(self.storage, self.admission)
        deleter = Deleter(self.storage, self.admission)
        self._resources = ResourceRoutes(
            self.storage, self._reader, LogHandler(self.storage, logs), self.writer, deleter
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

    async def __aenter__(self) -> ApiServer:
        await preinstall(self.writer, self.registry)
        sock = socket.create_server(self._address)
        # asyncio sets this only if the socket names TCP; without it, an answer in two writes
        # waits 40 ms for the client's delayed acknowledgement
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._address = (self._address[0], sock.getsockname()[1])
        config = uvicorn.Config(
            self,
            http=_Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            timeout_keep_alive=120,
        )
        config.load()
        make = partial(_Protocol, config=config, server_state=self._state, app_state={})
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

    def write_kubeconfig(self, path: str | Path) -> None:
        """Write a kubeconfig for this server; create its folders."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(kubeconfig(self.url, self.access), encoding="utf-8")

    def expire_history(self) -> None:
        """Forget all changes and pages: older versions get 410."""
        self.storage.compact()
        self._reader.forget_pages()

    async def __call__(self, scope: http.Scope, receive: http.Receive, send: http.Send) -> None:
        request = http.read_request(scope)
        fault = None
        try:
            request.user = user_of(request, self.access)
            request.body = await http.read_body(receive)
            check_body(request)
            fault = next((f for f in self.faults if f.strikes(request)), None)
            if fault is None or fault.after:
                if (target := find_target(self.registry, request.path)) is not None:
                    response = await self._resources.handle(target, request, receive)
                else:
                    found = discover(self.registry, request) or openapi(self.registry, request)
                    response = found or own_user(request) or no_such_page(request)
            if fault is not None and fault.failure:
                response = http.refusal(fault.failure)
        except RequestFailure as failed:
            response = http.refusal(failed)
        except Exception as crash:
            self._crashes.append(crash)
            response = http.refusal(failures.internal(f"{type(crash).__name__}: {crash}"))
        broken = fault is not None and fault.failure is None
        code, agent = 0 if broken else response.code, request.header(b"user-agent")
        record = RequestRecord(request.method, request.path, request.query, code, agent)
        self.requests.append(record)
        if broken:
            scope["extensions"]["jobflow.abort"]["abort"]()
            while (await receive())["type"] != "http.disconnect":
                pass
        elif response.stream is None:
            await http.answer(response, request, send)
        else:
            async with aclosing(response.stream):
                await http.answer(response, request, send)
