"""From a path and a method to who carries the request out."""

from __future__ import annotations

from jobflow.sandbox.apiserver import failures
from jobflow.sandbox.apiserver.accept import renderer
from jobflow.sandbox.apiserver.bodies import new_object, replacement, revised
from jobflow.sandbox.apiserver.codec import load_object
from jobflow.sandbox.apiserver.deletes import Deleter, Outcome, Wish, wish
from jobflow.sandbox.apiserver.http import Receive, Request, Response, encode
from jobflow.sandbox.apiserver.kinds import Kind, Registry
from jobflow.sandbox.apiserver.operations import How, Target
from jobflow.sandbox.apiserver.patches import APPLY
from jobflow.sandbox.apiserver.reads import Reader
from jobflow.sandbox.apiserver.selectors import selector
from jobflow.sandbox.apiserver.storage import Storage, Stored
from jobflow.sandbox.apiserver.writer import Writer, create_options

_NAMESPACE_SUBRESOURCES = ("status", "finalize")


def target(registry: Registry, path: str) -> Target | None:
    """What a path under /api or /apis names; None where nothing is served there."""
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


class Resources:
    """Requests for objects and collections."""

    def __init__(self, storage: Storage, reader: Reader, writer: Writer, deleter: Deleter) -> None:
        self._storage = storage
        self._reader = reader
        self._writer = writer
        self._deleter = deleter

    async def handle(self, where: Target, request: Request, receive: Receive) -> Response:
        """Carry a request out. Raises Failure."""
        if (
            where.kind.namespaced
            and not where.namespace
            and (where.name or request.method != "GET")
        ):
            raise failures.no_such_path()
        match (request.method, bool(where.name)):
            case ("GET", named):
                if request.flag("watch"):
                    return self._reader.watch(where, request, receive)
                if named:
                    return self._reader.get(where, request)
                return self._reader.list(where, request)
            case ("POST", False):
                return await self._create(where, request)
            case ("PUT", True):
                return await self._replace(where, request)
            case ("PATCH", True):
                return await self._patch(where, request)
            case ("DELETE", True):
                return await self._delete(where, request)
            case ("DELETE", False):
                return await self._delete_collection(where, request)
        raise failures.method_not_allowed(where.kind)

    async def _create(self, where: Target, request: Request) -> Response:
        how = _how("CreateOptions", request)
        obj = new_object(where, request, how)
        return _written(where.kind, await self._writer.create(where, obj, how), request, 201)

    async def _replace(self, where: Target, request: Request) -> Response:
        how = _how("UpdateOptions", request)
        change = replacement(where, request, how)
        return _written(where.kind, await self._writer.update(where, change, how), request)

    async def _patch(self, where: Target, request: Request) -> Response:
        how = _how("PatchOptions", request)
        if request.content_type == APPLY and not self._storage.get(where.kind.bucket, where.key):
            if where.subresource:
                raise failures.not_found(where.kind, where.name)
            obj = new_object(where, request, how)
            return _written(where.kind, await self._writer.create(where, obj, how), request, 201)
        change = revised(where, request, how)
        return _written(where.kind, await self._writer.update(where, change, how), request)

    async def _delete(self, where: Target, request: Request) -> Response:
        if where.subresource:
            raise failures.method_not_allowed(where.kind)
        wanted, how = _deletion(request)
        outcome = await self._deleter.delete(where, wanted, how)
        if outcome.gone and not where.kind.returns_deleted:
            return Response(encode(_success(where.kind, outcome)))
        return _written(where.kind, outcome.last, request)

    async def _delete_collection(self, where: Target, request: Request) -> Response:
        query = request.query
        wanted, how = _deletion(request)
        chosen = selector(
            where.kind, query.get("labelSelector", ""), query.get("fieldSelector", "")
        )
        bucket = self._storage.bucket(where.kind.bucket)
        going = [stored for stored in bucket.select(where.namespace) if chosen(stored)]
        for stored in going:
            namespace, name = stored.key
            each = Target(where.kind, namespace, name)
            try:
                await self._deleter.delete(each, wanted, how)
            except failures.Failure as failed:
                if failed.code != 404:
                    raise
        render = renderer(where.kind, request)
        body = render.many(going, self._storage.revision, "", 0)
        return Response(body, media_type=render.media_type)


def _deletion(request: Request) -> tuple[Wish, How]:
    options = load_object(request) if request.body else {}
    wanted = wish(options, request.query)
    how = _how("DeleteOptions", request)
    said = {key: value for key, value in options.items() if value is not None}
    if "dryRun" in said and not how.dry_run:
        how = How(dry_run=_dry(said["dryRun"]), warnings=request.warnings)
    options = {**how.options, **said, "kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
    return wanted, How(dry_run=how.dry_run, options=options, warnings=request.warnings)


def _dry(values: list[str]) -> bool:
    if any(value != "All" for value in values):
        raise failures.bad_request(f'dryRun: Unsupported value: {values}: supported values: "All"')
    return bool(values)


def _how(options: str, request: Request) -> How:
    dry = request.query.get("dryRun")
    validation = request.query.get("fieldValidation") or "Warn"
    if validation not in ("Strict", "Warn", "Ignore"):
        raise failures.bad_request(
            f'fieldValidation: Unsupported value: "{validation}": supported values: "Ignore", '
            '"Strict", "Warn"'
        )
    return How(
        dry_run=_dry([dry] if dry else []),
        field_validation=validation,
        options=create_options(options, request.query),
        warnings=request.warnings,
    )


def _success(kind: Kind, outcome: Outcome) -> dict[str, object]:
    details = {"name": outcome.last.key[1], "group": kind.group, "kind": kind.plural}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {**details, "uid": outcome.last.uid},
    }


def _written(kind: Kind, stored: Stored, request: Request, code: int = 200) -> Response:
    render = renderer(kind, request)
    return Response(render.one(stored), code, media_type=render.media_type)
