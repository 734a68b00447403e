"""Routes: from path and method to the handler of a resource."""

from __future__ import annotations

from typing import Any

from jobflow.core.violations import Reason
from jobflow.sandbox.apiserver.bodies.codec import UnreadableBody, decoder
from jobflow.sandbox.apiserver.bodies.patches import APPLY
from jobflow.sandbox.apiserver.bodies.read_body import (
    applied,
    check_patch_type,
    new_object,
    replacement,
    revised,
)
from jobflow.sandbox.apiserver.kinds import Kind, Object, Registry
from jobflow.sandbox.apiserver.reads.reads import ReadHandler
from jobflow.sandbox.apiserver.requests import failures
from jobflow.sandbox.apiserver.requests.http import Receive, Request, Response, encode
from jobflow.sandbox.apiserver.requests.operations import Target, WriteOptions
from jobflow.sandbox.apiserver.requests.selectors import selector
from jobflow.sandbox.apiserver.resources.discovery import no_such_page
from jobflow.sandbox.apiserver.resources.table import renderer
from jobflow.sandbox.apiserver.storage import Storage, Stored
from jobflow.sandbox.apiserver.writes.deletes import (
    DeleteOptions,
    Deleter,
    Deletion,
    delete_options,
)
from jobflow.sandbox.apiserver.writes.writer import Writer, create_options

_NAMESPACE_SUBRESOURCES = ("status", "finalize")


def target(registry: Registry, path: str) -> Target | None:
    """Return the target of a path under /api or /apis, or None if it is not served."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces" and rest[2] not in _NAMESPACE_SUBRESOURCES:
        namespace, rest = rest[1], rest[2:]
    if not rest or len(rest) > 3:
        return None
    plural, name, subresource = (*rest, "", "")[:3]
    kind = registry.find(group, version, plural)
    if kind is None or (namespace and not kind.namespaced):
        return None
    if subresource and subresource not in kind.subresources:
        return None
    return Target(kind, namespace, name, subresource)


class ResourceRoutes:
    """Requests for objects and collections."""

    def __init__(
        self, storage: Storage, reader: ReadHandler, writer: Writer, deleter: Deleter
    ) -> None:
        self._storage = storage
        self._reader = reader
        self._writer = writer
        self._deleter = deleter

    async def handle(self, where: Target, request: Request, receive: Receive) -> Response:
        """Handle a request. Raises RequestFailure."""
        if where.kind.namespaced and not where.namespace:
            if where.name or request.method != "GET":
                return no_such_page(request)
        if request.method == "GET":
            return self._read(where, request, receive)
        match (request.method, bool(where.name)):
            case ("POST", named) if where.kind.custom or not named:
                return await self._create(where, request)
            case ("PUT" | "PATCH", False) if where.kind.custom:
                raise failures.bad_request("name must be provided")
            case ("PUT", True):
                return await self._replace(where, request)
            case ("PATCH", True):
                return await self._patch(where, request)
            case ("DELETE", named) if named or "deletecollection" in where.kind.verbs:
                return await self._remove(where, request)
        raise failures.method_not_allowed()

    def _read(self, where: Target, request: Request, receive: Receive) -> Response:
        if where.name:
            return self._reader.get(where, request)
        if request.flag("watch"):
            return self._reader.watch(where, request, receive)
        return self._reader.list(where, request)

    async def _create(self, where: Target, request: Request) -> Response:
        how = _how("CreateOptions", request)
        return await self._created(where, new_object(where, request, how), request, how)

    async def _created(
        self, where: Target, obj: Object, request: Request, how: WriteOptions
    ) -> Response:
        return _written(where.kind, await self._writer.create(where, obj, how), request, 201)

    async def _replace(self, where: Target, request: Request) -> Response:
        how = _how("UpdateOptions", request)
        change = replacement(where, request, how)
        return _written(where.kind, await self._writer.update(where, change, how), request)

    async def _patch(self, where: Target, request: Request) -> Response:
        check_patch_type(where.kind, request.content_type)
        how = _how("PatchOptions", request)
        there = self._storage.get(where.kind.bucket, where.key) is not None
        if request.content_type == APPLY and not there and not where.subresource:
            return await self._created(where, applied(where, request, there=False), request, how)
        if not there:
            raise failures.not_found(where.kind, where.name)
        change = revised(where, request, how)
        return _written(where.kind, await self._writer.update(where, change, how), request)

    async def _remove(self, where: Target, request: Request) -> Response:
        if where.subresource:
            raise failures.unsupported(where.kind, "delete")
        if not where.name:
            return await self._delete_collection(where, request)
        wanted, how = _deletion(request)
        outcome = await self._deleter.delete(where, wanted, how)
        if outcome.gone and not where.kind.returns_deleted:
            return Response(encode(_success(where.kind, outcome)))
        return _written(where.kind, outcome.last, request)

    async def _delete_collection(self, where: Target, request: Request) -> Response:
        wanted, how = _deletion(request)
        chosen = selector(where.kind, request)
        bucket = self._storage.bucket(where.kind.bucket)
        going = [stored for stored in bucket.select(where.namespace) if chosen(stored)]
        for stored in going:
            try:
                await self._deleter.delete(Target(where.kind, *stored.key), wanted, how)
            except failures.RequestFailure as failed:
                if failed.code != 404:
                    raise
        render = renderer(where.kind, request)
        return render.response(render.many(going, self._storage.revision, "", 0))


def _deletion(request: Request) -> tuple[DeleteOptions, WriteOptions]:
    options: Any = {}
    if request.body:
        try:
            options = decoder(request.content_type)(request.body)
        except UnreadableBody as error:
            message = f"couldn't get version/kind; json parse error: {error}"
            raise failures.bad_request(message) from error
    if not isinstance(options, dict):
        raise failures.bad_request("DeleteOptions: it is no JSON object")
    wanted = delete_options(options, request.query)
    how = _how("DeleteOptions", request)
    dry_run = how.dry_run or _dry("DeleteOptions", options.get("dryRun") or [])
    given = {key: value for key, value in options.items() if value is not None}
    body = {**how.options, **given, "kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
    return wanted, WriteOptions(dry_run=dry_run, options=body, warnings=request.warnings)


def _dry(options: str, values: list[str]) -> bool:
    if any(value != "All" for value in values):
        fault = 'supported values: "All"'
        raise failures.invalid_option(options, "dryRun", Reason.NOT_SUPPORTED, values, fault)
    return bool(values)


def _how(options: str, request: Request) -> WriteOptions:
    dry = request.query.get("dryRun")
    validation = request.query.get("fieldValidation") or "Warn"
    if validation not in ("Strict", "Warn", "Ignore"):
        path, fault = "fieldValidation", 'supported values: "", "Ignore", "Strict", "Warn"'
        raise failures.invalid_option(options, path, Reason.NOT_SUPPORTED, validation, fault)
    return WriteOptions(
        dry_run=_dry(options, [dry] if dry else []),
        field_validation=validation,
        options=create_options(options, request.query),
        warnings=request.warnings,
    )


def _success(kind: Kind, outcome: Deletion) -> dict[str, object]:
    last = outcome.last
    details = {"name": last.key[1], "group": kind.group, "kind": kind.plural, "uid": last.uid}
    head = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return {**head, "details": details}


def _written(kind: Kind, stored: Stored, request: Request, code: int = 200) -> Response:
    render = renderer(kind, request)
    return render.response(render.one(stored), code)
