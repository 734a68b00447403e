"""API server: startup, shutdown, and the way of a request to the handler of its path."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from functools import partial
from typing import Any, Self

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from jobflow.sandbox.apiserver.bootstrap import preinstall
from jobflow.sandbox.apiserver.handlers.admission import Admission
from jobflow.sandbox.apiserver.handlers.garbage_collector import GarbageCollector
from jobflow.sandbox.apiserver.handlers.pod_logs import LogSource, get_log
from jobflow.sandbox.apiserver.handlers.reads import ReadHandler
from jobflow.sandbox.apiserver.handlers.writes import Writer, delete_options
from jobflow.sandbox.apiserver.kinds import Registry
from jobflow.sandbox.apiserver.requests import bodies, codec, failures, http, patches
from jobflow.sandbox.apiserver.requests.access import Access, check_body, user_of
from jobflow.sandbox.apiserver.requests.http import Receive, Request, Response
from jobflow.sandbox.apiserver.requests.targets import Selector, Target, find_target, write_options
from jobflow.sandbox.apiserver.resources import builtin, discovery
from jobflow.sandbox.apiserver.resources.crds import update_registry
from jobflow.sandbox.apiserver.resources.table import Renderer, respond
from jobflow.sandbox.apiserver.storage import Storage


class ApiServer:
    """A small Kubernetes API server in this process, over HTTPS; over HTTP and without tokens for
    tests. Entering raises OSError if the port is in use, leaving those of crashed requests."""

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
        self._logs = logs
        self._collector = GarbageCollector(self.storage, self.registry, self.writer)
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
        # From here on no client connects; those that are connected get their answers.
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
        except failures.RequestFailure as failed:
            response = http.refusal(failed)
        except Exception as crash:
            # Raised when the server is closed, so that no test overlooks it.
            self._crashes.append(crash)
            response = http.refusal(failures.internal(f"{type(crash).__name__}: {crash}"))
        await http.answer(response, request, send)

    async def respond(self, request: http.Request, receive: http.Receive) -> http.Response:
        """Return the answer to an authorized request. Raises RequestFailure."""
        # Objects first: nearly all requests are about them.
        if (target := find_target(self.registry, request.path)) is not None:
            return await self._handle(target, request, receive)
        found = discovery.discover(self.registry, request)
        return found or discovery.no_such_page(request)

    async def _handle(self, target: Target, request: Request, receive: Receive) -> Response:
        """Return the answer to a request for objects. Raises RequestFailure."""
        kind = target.kind
        if kind.namespaced and not target.namespace and (target.name or request.method != "GET"):
            return discovery.no_such_page(request)
        if request.method == "GET":
            if target.subresource == "log":
                return get_log(self.storage, self._logs, target, request, receive)
            if target.name:
                return self.reader.get(target, request)
            if request.flag("watch"):
                return self.reader.watch(target, request, receive)
            return self.reader.list(target, request)
        # Nothing but a GET is allowed for a log.
        match (request.method if target.subresource != "log" else "", bool(target.name)):
            case ("POST", named) if kind.custom or not named:
                write = write_options("CreateOptions", request)
                obj = bodies.new_object(target, request, write)
                return respond(kind, request, await self.writer.create(target, obj, write), 201)
            case ("PUT" | "PATCH", False) if kind.custom:
                raise failures.bad_request("name must be provided")
            case ("PUT", True):
                write = write_options("UpdateOptions", request)
                change = bodies.change_by_put(target, request, write)
                return respond(kind, request, await self.writer.update(target, change, write))
            case ("PATCH", True):
                return await self._patch(target, request)
            case ("DELETE", named) if named or "deletecollection" in kind.verbs:
                return await self._delete(target, request)
        why = "the server does not allow this method on the requested resource"
        raise failures.failure(405, "MethodNotAllowed", why)

    async def _patch(self, target: Target, request: Request) -> Response:
        kind, applies = target.kind, request.content_type == patches.APPLY
        strategic = [] if kind.custom else [patches.STRATEGIC]
        accepted = [patches.JSON_PATCH, patches.MERGE, *strategic, patches.APPLY]
        if request.content_type not in accepted:
            raise failures.unsupported_media_type(accepted)
        write = write_options("PatchOptions", request)
        exists = self.storage.get(kind.bucket, target.key) is not None
        # Only an apply creates, and only a whole object.
        if not exists and (not applies or target.subresource):
            raise failures.not_found(kind, target.name)
        if not applies:
            change = bodies.change_by_patch(target, request, write)
            return respond(kind, request, await self.writer.update(target, change, write))
        wanted = bodies.read_applied(target, request, exists=exists)
        applied = {bodies.manager_of(target, request): http.encode(wanted)}
        if exists:
            change = bodies.change_by_apply(target, request, write, wanted)
            stored = await self.writer.update(target, change, write)
            applied = {**stored.applied, **applied}
        else:
            stored = await self.writer.create(target, wanted, write)
        if not write.dry_run:
            # Kept beside the object instead of in managedFields, which nothing here reads.
            self.storage.keep_applied(kind.bucket, target.key, applied)
        return respond(kind, request, stored, 200 if exists else 201)

    async def _delete(self, target: Target, request: Request) -> Response:
        kind = target.kind
        if target.subresource:
            raise failures.undeletable(kind)
        body: Any = {}
        if request.body:
            try:
                body = codec.decoder(request.content_type)(request.body)
            except codec.UnreadableBody as error:
                why = f"couldn't get version/kind; json parse error: {error}"
                raise failures.bad_request(why) from error
        if not isinstance(body, dict):
            raise failures.bad_request("DeleteOptions: not a JSON object")
        given = {key: value for key, value in body.items() if value is not None}
        wanted = delete_options(given, request.query)
        write = write_options("DeleteOptions", request, given)
        if target.name:
            last, is_gone = await self.writer.delete(target, wanted, write)
            if is_gone and not kind.returns_deleted:
                name, group, uid = last.key[1], kind.group, last.uid
                details = {"name": name, "group": group, "kind": kind.plural, "uid": uid}
                success = {**failures.HEAD, "status": "Success", "details": details}
                return Response(http.encode(success))
            return respond(kind, request, last)
        stored = self.storage.bucket(kind.bucket).select(target.namespace)
        deleted = [*filter(Selector(target, request), stored)]
        for each in deleted:
            try:
                await self.writer.delete(Target(kind, *each.key), wanted, write)
            except failures.RequestFailure as failed:
                # Somebody else has deleted it meanwhile, which is as good.
                if failed.code != 404:
                    raise
        # The answer has the objects as they were before the request.
        render = Renderer(kind, request)
        return render.response(render.many(deleted, self.storage.revision, "", 0))
