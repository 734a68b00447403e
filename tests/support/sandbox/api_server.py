"""The sandbox's API server for tests: it records requests and injects faults."""

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from jobflow.sandbox.apiserver import server
from jobflow.sandbox.apiserver.requests import http
from jobflow.sandbox.apiserver.requests.access import kubeconfig
from jobflow.sandbox.apiserver.requests.failures import RequestFailure
from jobflow.sandbox.apiserver.storage import Storage


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


def compact(storage: Storage) -> None:
    """Forget all changes: an older resource version gets 410."""
    for bucket in storage._buckets.values():
        bucket.history.clear()
        bucket.held, bucket.forgotten = 0, storage.revision


class _BrokenConnection(BaseException):
    """A fault that breaks the connection; no Exception, which would be a crash of the server."""


class _Protocol(HttpToolsProtocol):
    """Protocol that lets the application break a connection, which ASGI does not support."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {"jobflow.abort": {"abort": self.transport.abort}}


class ApiServer(server.ApiServer):
    """An API server. `requests` has the last requests, `faults` what strikes the next ones."""

    protocol = _Protocol

    def __init__(self, *args: Any, remembered_requests: int = 100_000, **options: Any) -> None:
        super().__init__(*args, **options)
        self.requests: deque[RequestRecord] = deque(maxlen=remembered_requests)
        self.faults: list[InjectedFault] = []

    async def __call__(self, scope: http.Scope, receive: http.Receive, send: http.Send) -> None:
        request = http.read_request(scope)

        def record(code: int) -> None:
            agent = request.header(b"user-agent")
            self.requests.append(
                RequestRecord(request.method, request.path, request.query, code, agent)
            )

        async def send_and_record(message: Any) -> None:
            if message["type"] == "http.response.start":
                record(message["status"])
            await send(message)

        try:
            await super().__call__(scope, receive, send_and_record)
        except _BrokenConnection:
            record(0)
            scope["extensions"]["jobflow.abort"]["abort"]()
            while (await receive())["type"] != "http.disconnect":
                pass

    async def respond(self, request: http.Request, receive: http.Receive) -> http.Response:
        fault = next((each for each in self.faults if each.strikes(request)), None)
        if fault is None:
            return await super().respond(request, receive)
        if fault.after:
            with suppress(RequestFailure):
                await super().respond(request, receive)
        raise fault.failure or _BrokenConnection

    def write_kubeconfig(self, path: str | Path) -> None:
        """Write a kubeconfig for this server; create its folders."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(kubeconfig(self.url, self.access), encoding="utf-8")

    def expire_history(self) -> None:
        """Forget all changes and pages: older versions get 410."""
        compact(self.storage)
        self.reader.pages.clear()
