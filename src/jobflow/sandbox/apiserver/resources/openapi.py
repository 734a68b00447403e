"""OpenAPI v3, one document for each group and version, for `kubectl explain` and apply.

A document holds a schema for each kind, and the paths under which it is patched.
"""

import hashlib
from typing import Any

from jobflow.api.meta import ObjectMeta
from jobflow.api.schema.crd import struct_schema
from jobflow.sandbox.apiserver.bodies.patches import APPLY, JSON_PATCH, MERGE
from jobflow.sandbox.apiserver.kinds import Kind, Registry
from jobflow.sandbox.apiserver.requests.http import Request, Response, encode

_ROOT = "/openapi/v3"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_V2_MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_V2_PROTOBUF = b"\x0a\x032.0"
"""An OpenAPI v2 document (gnostic's openapi_v2.Document) that holds only its version. kubectl
requests it before it applies a `List`, and ignores kinds that it does not describe."""
_INFO = {"title": "Kubernetes", "version": "v1.32.0"}
_TEXT = {"type": "string"}


def openapi(registry: Registry, request: Request) -> Response | None:
    """Return the answer to a request for OpenAPI documents; None for any other path or method."""
    if request.method != "GET" or not request.path.startswith("/openapi/"):
        return None
    if request.path == "/openapi/v2":
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
    """Return the OpenAPI v3 document of the kinds of one group and version."""
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
