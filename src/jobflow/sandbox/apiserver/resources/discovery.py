"""Descriptions of the server: API groups, resources, OpenAPI documents, its version, its user."""

import hashlib
from typing import Any

from jobflow.api.crd import struct_schema
from jobflow.api.resources import SELF_SUBJECT_REVIEWS, ObjectMeta
from jobflow.sandbox.apiserver.kinds import Kind, Registry
from jobflow.sandbox.apiserver.requests.failures import failure
from jobflow.sandbox.apiserver.requests.http import Request, Response, encode
from jobflow.sandbox.apiserver.requests.patches import APPLY, JSON_PATCH, MERGE
from jobflow.sandbox.apiserver.resources.metadata import now

# kubectl warns if its own version is too far from this one.
VERSION = {
    "major": "1",
    "minor": "32",
    "gitVersion": "v1.32.0+jobflow-sandbox",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    **dict.fromkeys(("goVersion", "compiler", "platform"), ""),
}
_OTHER_PATHS = ["/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]
_SUBRESOURCE_VERBS = {"log": ["get"], "status": ["get", "patch", "update"]}

_ROOT = "/openapi/v3"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_V2_MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_V2_PROTOBUF = b"\x0a\x032.0"
"""An OpenAPI v2 document (gnostic's openapi_v2.Document) that holds only its version. kubectl
requests it before it applies a `List`, and ignores kinds that it does not describe."""
_INFO = {"title": "Kubernetes", "version": "v1.32.0"}
_TEXT = {"type": "string"}


def discover(registry: Registry, request: Request) -> Response | None:
    """Return the answer to a request about the server; None for any other path or method."""
    path = request.path.strip("/")
    if request.method != "GET":
        return _own_user(request)
    found: dict[str, Any]
    groups = list(dict.fromkeys(kind.group for kind in registry if kind.group))
    match path.split("/"):
        case ["healthz" | "readyz" | "livez", *_]:
            return Response(b"ok", media_type="text/plain; charset=utf-8")
        case ["openapi", *_]:
            return _openapi(registry, request)
        case [""]:
            served = {*(f"/apis/{name}" for name in groups), *(f"/{k.base}" for k in registry)}
            found = {"paths": ["/api", "/apis", *sorted(served), *_OTHER_PATHS]}
        case ["version"]:
            found = VERSION
        case ["api"]:
            found = {"kind": "APIVersions", "versions": ["v1"]}
        case ["apis"]:
            entries = [_group(registry, name) for name in groups]
            found = {"kind": "APIGroupList", "apiVersion": "v1", "groups": entries}
        case ["apis", group] if group in groups:
            found = {"kind": "APIGroup", "apiVersion": "v1"} | _group(registry, group)
        case _:
            kinds = [kind for kind in registry if kind.base == path]
            if not kinds:
                return None
            resources = []
            for kind in kinds:
                common = {"namespaced": kind.namespaced, "kind": kind.kind}
                entry = {"name": kind.plural, "singularName": kind.one, "verbs": kind.verbs}
                names = {"shortNames": kind.short_names, "categories": kind.categories}
                given = {field: values for field, values in names.items() if values}
                resources.append({**entry, **common, **given})
                for name in sorted(kind.subresources):
                    entry = {"name": f"{kind.plural}/{name}", "singularName": ""}
                    resources.append({**entry, **common, "verbs": _SUBRESOURCE_VERBS[name]})
            head = {"kind": "APIResourceList", "apiVersion": "v1"}
            found = {**head, "groupVersion": kinds[0].api_version, "resources": resources}
    return Response(encode(found))


def _own_user(request: Request) -> Response | None:
    """Return the answer to a SelfSubjectReview (`kubectl auth whoami`); None for other requests."""
    if (request.method, request.path) != ("POST", SELF_SUBJECT_REVIEWS.path()):
        return None
    answer = {"metadata": {"creationTimestamp": now()}, "status": {"userInfo": request.user}}
    return Response(encode(SELF_SUBJECT_REVIEWS.type_meta | answer), 201)


def no_such_page(request: Request) -> Response:
    """Return 404 for an unknown path. Raises RequestFailure, 404, under /api."""
    if request.path.startswith("/api/"):
        raise failure(404, "NotFound", "the server could not find the requested resource")
    return Response(b"404 page not found\n", 404, "text/plain; charset=utf-8")


def _group(registry: Registry, name: str) -> dict[str, Any]:
    names = dict.fromkeys(kind.version for kind in registry if kind.group == name)
    versions = [{"groupVersion": f"{name}/{each}", "version": each} for each in names]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _openapi(registry: Registry, request: Request) -> Response | None:
    """Return an OpenAPI document, or their index; None for any other path."""
    if request.path == "/openapi/v2":
        # kubectl asks for this form.
        if "protobuf" in request.header(b"accept"):
            return Response(_V2_PROTOBUF, media_type=_V2_MEDIA_TYPE)
        return Response(encode({"swagger": "2.0", "info": _INFO, "paths": {}, "definitions": {}}))
    kinds: dict[str, list[Kind]] = {}
    for kind in registry:
        kinds.setdefault(kind.base, []).append(kind)
    if request.path == _ROOT:
        index = {}
        for base in kinds:  # with a hash, because clients cache by it
            digest = hashlib.sha256(encode(document(kinds[base]))).hexdigest().upper()
            index[base] = {"serverRelativeURL": f"{_ROOT}/{base}?hash={digest}"}
        return Response(encode({"paths": index}))
    asked = kinds.get(request.path.removeprefix(f"{_ROOT}/"))
    return Response(encode(document(asked))) if asked else None


def document(kinds: list[Kind]) -> dict[str, Any]:
    """Return the OpenAPI v3 document of one group and version: a schema for each kind, and the path
    under which it is patched."""
    schemas: dict[str, Any] = {_META: struct_schema(ObjectMeta)}
    paths: dict[str, Any] = {}
    metadata = {"allOf": [{"$ref": f"#/components/schemas/{_META}"}]}
    # PATCH announces field validation to kubectl. Strategic merge patches are accepted but not
    # announced, because kubectl would need a schema for them.
    options = ("dryRun", "fieldManager", "fieldValidation")
    content = {media: {"schema": {"type": "object"}} for media in (JSON_PATCH, MERGE, APPLY)}
    patch = {
        "parameters": [{"name": name, "in": "query", "schema": _TEXT} for name in options],
        "requestBody": {"content": content},
    }
    for kind in kinds:
        gvk = {"group": kind.group, "version": kind.version, "kind": kind.kind}
        group = ".".join(reversed(kind.group.split("."))) or "io.k8s.api.core"
        known = kind.openapi or {
            "type": "object",
            "description": f"{kind.kind}, without a schema.",
            "x-kubernetes-preserve-unknown-fields": True,
        }
        schemas[f"{group}.{kind.version}.{kind.kind}"] = {
            **known,
            "properties": {
                "apiVersion": _TEXT | {"description": "The version of this schema."},
                "kind": _TEXT | {"description": "The kind of this object."},
                **(known.get("properties") or {}),
                "metadata": metadata | {"description": "Standard object's metadata."},
            },
            "x-kubernetes-group-version-kind": [gvk],
        }
        scope = "/namespaces/{namespace}" if kind.namespaced else ""
        common = {"x-kubernetes-group-version-kind": gvk, "responses": {}}
        paths[f"/{kind.base}{scope}/{kind.plural}/{{name}}"] = {
            "get": {"x-kubernetes-action": "get", **common},
            "patch": {"x-kubernetes-action": "patch", **common, **patch},
        }
    parts = {"paths": paths, "components": {"schemas": schemas}}
    return {"openapi": "3.0.0", "info": _INFO, **parts}
