"""Routes: from path and method to the handler of a resource."""

from dataclasses import dataclass
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
            self.storage.keep_applied(kind.bucket, target.key, applied)
        return _written(kind, stored, request, 200 if exists else 201)

    async def _delete(self, target: Target, request: Request) -> Response:
        kind = target.kind
        if target.subresource:
            raise failures.unsupported(kind, "delete")
        wanted, write = _deletion(request)
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
                if failed.code != 404:
                    raise
        render = renderer(kind, request)
        return render.response(render.many(deleted, self.storage.revision, "", 0))


def _not_allowed() -> failures.RequestFailure:
    why = "the server does not allow this method on the requested resource"
    return failures.failure(405, "MethodNotAllowed", why)


def _deletion(request: Request) -> tuple[deletes.DeleteOptions, WriteOptions]:
    options: Any = {}
    if request.body:
        try:
            options = decoder(request.content_type)(request.body)
        except UnreadableBody as error:
            message = f"couldn't get version/kind; json parse error: {error}"
            raise failures.bad_request(message) from error
    if not isinstance(options, dict):
        raise failures.bad_request("DeleteOptions: not a JSON object")
    wanted = deletes.delete_options(options, request.query)
    write = _write_options("DeleteOptions", request)
    dry_run = write.dry_run or _dry("DeleteOptions", wanted.dry_run)
    given = {key: value for key, value in options.items() if value is not None}
    body = {**write.options, **given, "kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
    return wanted, WriteOptions(
        dry_run=dry_run, options=body, user=write.user, warnings=request.warnings
    )


def _dry(options: str, values: list[str]) -> bool:
    if any(value != "All" for value in values):
        fault = 'supported values: "All"'
        raise failures.invalid_option(options, "dryRun", Reason.NOT_SUPPORTED, values, fault)
    return bool(values)


def _write_options(options: str, request: Request) -> WriteOptions:
    validation = request.query.get("fieldValidation") or "Warn"
    if validation not in ("Strict", "Warn", "Ignore"):
        path, fault = "fieldValidation", 'supported values: "", "Ignore", "Strict", "Warn"'
        raise failures.invalid_option(options, path, Reason.NOT_SUPPORTED, validation, fault)
    asked: dict[str, Any] = {"kind": options, "apiVersion": "meta.k8s.io/v1"}
    given = {name: value for name, value in request.query.items() if value}
    asked |= {name: given[name] for name in ("fieldManager", "fieldValidation") if name in given}
    if "dryRun" in given:
        asked["dryRun"] = [given["dryRun"]]
    if "force" in given:
        asked["force"] = given["force"] == "true"
    return WriteOptions(
        user=request.user,
        dry_run=_dry(options, asked.get("dryRun", [])),
        field_validation=validation,
        options=asked,
        warnings=request.warnings,
    )


def _written(kind: Kind, stored: Stored, request: Request, code: int = 200) -> Response:
    render = renderer(kind, request)
    return render.response(render.one(stored), code)
