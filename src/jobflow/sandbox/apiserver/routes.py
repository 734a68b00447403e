"""Routes: from path and method to the handler of a resource."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from jobflow.core.violations import Reason
from jobflow.sandbox.apiserver.bodies import read_body
from jobflow.sandbox.apiserver.bodies.codec import UnreadableBody, decoder
from jobflow.sandbox.apiserver.bodies.patches import APPLY
from jobflow.sandbox.apiserver.kinds import Kind, Registry
from jobflow.sandbox.apiserver.reads.pod_logs import LogHandler
from jobflow.sandbox.apiserver.reads.reads import ReadHandler
from jobflow.sandbox.apiserver.requests import failures
from jobflow.sandbox.apiserver.requests.http import Receive, Request, Response, encode
from jobflow.sandbox.apiserver.requests.operations import Target, WriteOptions
from jobflow.sandbox.apiserver.requests.selectors import selector
from jobflow.sandbox.apiserver.resources.discovery import no_such_page
from jobflow.sandbox.apiserver.resources.table import renderer
from jobflow.sandbox.apiserver.storage import Storage, Stored
from jobflow.sandbox.apiserver.writes import deletes
from jobflow.sandbox.apiserver.writes.writer import Writer


def find_target(registry: Registry, path: str) -> Target | None:
    """Return the target of a path under /api or /apis, or None if it is not served."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    # A namespace is a place of objects and an object too, with subresources of its own.
    if len(rest) > 2 and rest[0] == "namespaces" and rest[2] not in ("status", "finalize"):
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


@dataclass(frozen=True, slots=True)
class ResourceRoutes:
    """Requests for objects and collections."""

    storage: Storage
    reader: ReadHandler
    logs: LogHandler
    writer: Writer
    deleter: deletes.Deleter

    async def handle(self, target: Target, request: Request, receive: Receive) -> Response:
        """Handle a request. Raises RequestFailure."""
        if target.kind.namespaced and not target.namespace:
            if target.name or request.method != "GET":
                return no_such_page(request)
        kind = target.kind
        if request.method == "GET":
            if target.subresource == "log":
                return self.logs.get(target, request, receive)
            if target.name:
                return self.reader.get(target, request)
            if request.flag("watch"):
                return self.reader.watch(target, request, receive)
            return self.reader.list(target, request)
        match (request.method, bool(target.name)):
            case _ if target.subresource == "log":
                raise _not_allowed()
            case ("POST", named) if kind.custom or not named:
                write = _write_options("CreateOptions", request)
                obj = read_body.new_object(target, request, write)
                return _written(kind, await self.writer.create(target, obj, write), request, 201)
            case ("PUT" | "PATCH", False) if kind.custom:
                raise failures.bad_request("name must be provided")
            case ("PUT", True):
                write = _write_options("UpdateOptions", request)
                change = read_body.replacement(target, request, write)
                return _written(kind, await self.writer.update(target, change, write), request)
            case ("PATCH", True):
                return await self._patch(target, request)
            case ("DELETE", named) if named or "deletecollection" in kind.verbs:
                return await self._delete(target, request)
        raise _not_allowed()

    async def _patch(self, target: Target, request: Request) -> Response:
        kind, applies = target.kind, request.content_type == APPLY
        read_body.check_patch_type(kind, request.content_type)
        write = _write_options("PatchOptions", request)
        exists = self.storage.get(kind.bucket, target.key) is not None
        # Only an apply creates, and only a whole object.
        if not exists and (not applies or target.subresource):
            raise failures.not_found(kind, target.name)
        if not applies:
            change = read_body.revised(target, request, write)
            return _written(kind, await self.writer.update(target, change, write), request)
        wanted = read_body.applied(target, request, exists=exists)
        applied = {read_body.manager_of(target, request): encode(wanted)}
        if exists:
            change = read_body.reapplied(target, request, write, wanted)
            stored = await self.writer.update(target, change, write)
            applied = {**stored.applied, **applied}
        else:
            stored = await self.writer.create(target, wanted, write)
        if not write.dry_run:
            # Kept beside the object instead of in managedFields, which nothing here reads.
            self.storage.keep_applied(kind.bucket, target.key, applied)
        return _written(kind, stored, request, 200 if exists else 201)

    async def _delete(self, target: Target, request: Request) -> Response:
        kind = target.kind
        if target.subresource:
            raise failures.unsupported(kind, "delete")
        body: Any = {}
        if request.body:
            try:
                body = decoder(request.content_type)(request.body)
            except UnreadableBody as error:
                why = f"couldn't get version/kind; json parse error: {error}"
                raise failures.bad_request(why) from error
        if not isinstance(body, dict):
            raise failures.bad_request("DeleteOptions: not a JSON object")
        given = {key: value for key, value in body.items() if value is not None}
        wanted = deletes.delete_options(given, request.query)
        write = _write_options("DeleteOptions", request, given)
        if target.name:
            last, is_gone = await self.deleter.delete(target, wanted, write)
            if is_gone and not kind.returns_deleted:
                name, group, uid = last.key[1], kind.group, last.uid
                details = {"name": name, "group": group, "kind": kind.plural, "uid": uid}
                head = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
                return Response(encode({**head, "details": details}))
            return _written(kind, last, request)
        is_chosen = selector(kind, request)
        stored = self.storage.bucket(kind.bucket).select(target.namespace)
        deleted = [each for each in stored if is_chosen(each)]
        for each in deleted:
            try:
                await self.deleter.delete(Target(kind, *each.key), wanted, write)
            except failures.RequestFailure as failed:
                # Somebody else has deleted it meanwhile, which is as good.
                if failed.code != 404:
                    raise
        # The answer has the objects as they were before the request.
        render = renderer(kind, request)
        return render.response(render.many(deleted, self.storage.revision, "", 0))


def _not_allowed() -> failures.RequestFailure:
    why = "the server does not allow this method on the requested resource"
    return failures.failure(405, "MethodNotAllowed", why)


def _write_options(
    kind: str, request: Request, body: Mapping[str, Any] = MappingProxyType({})
) -> WriteOptions:
    """Return the options in the query and the body. Raises RequestFailure, 422."""
    query = {name: value for name, value in request.query.items() if value}
    validation = query.get("fieldValidation", "Warn")
    if validation not in ("Strict", "Warn", "Ignore"):
        path, fault = "fieldValidation", 'supported values: "", "Ignore", "Strict", "Warn"'
        raise failures.invalid_option(kind, path, Reason.NOT_SUPPORTED, validation, fault)
    options: dict[str, Any] = {
        name: query[name] for name in ("fieldManager", "fieldValidation") if name in query
    }
    if "dryRun" in query:
        options["dryRun"] = [query["dryRun"]]
    if "force" in query:
        options["force"] = query["force"] == "true"
    # Both the query and the body may ask for it.
    dry_run = [*options.get("dryRun", ()), *(body.get("dryRun") or ())]
    if any(value != "All" for value in dry_run):
        fault = 'supported values: "All"'
        raise failures.invalid_option(kind, "dryRun", Reason.NOT_SUPPORTED, dry_run, fault)
    return WriteOptions(
        user=request.user,
        dry_run=bool(dry_run),
        field_validation=validation,
        options={**options, **body, "kind": kind, "apiVersion": "meta.k8s.io/v1"},
        warnings=request.warnings,
    )


def _written(kind: Kind, stored: Stored, request: Request, code: int = 200) -> Response:
    render = renderer(kind, request)
    return render.response(render.one(stored), code)
