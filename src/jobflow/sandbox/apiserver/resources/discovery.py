"""Discovery: API groups, resources and the server's version."""

from collections.abc import Iterable
from typing import Any

from jobflow.sandbox.apiserver.kinds import Kind, Registry
from jobflow.sandbox.apiserver.requests.failures import no_such_path
from jobflow.sandbox.apiserver.requests.http import Request, Response, encode

VERSION = {
    "major": "1",
    "minor": "32",
    "gitVersion": "v1.32.0+jobflow-sandbox",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    **dict.fromkeys(("goVersion", "compiler", "platform"), ""),
}
_STATUS_VERBS = ["get", "patch", "update"]


def discover(registry: Registry, request: Request) -> Response | None:
    """Return the answer to a discovery request; None for any other path or method."""
    if request.method != "GET":
        return None
    parts = request.path.strip("/").split("/")
    match parts:
        case [""]:
            return _json({"paths": _paths(registry)})
        case ["version"]:
            return _json(VERSION)
        case ["healthz" | "readyz" | "livez", *_]:
            return Response(b"ok", media_type="text/plain; charset=utf-8")
        case ["api"]:
            return _json({"kind": "APIVersions", "versions": ["v1"]})
        case ["apis"]:
            groups = [_group(registry, name) for name in _groups(registry) if name]
            return _json({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
        case ["apis", group] if group in _groups(registry):
            return _json({"kind": "APIGroup", "apiVersion": "v1"} | _group(registry, group))
    return _resource_list(registry, parts)


def no_such_page(request: Request) -> Response:
    """Return 404 for an unknown path. Raises RequestFailure, 404, under /api."""
    if request.path.startswith("/api/"):
        raise no_such_path()
    return Response(b"404 page not found\n", 404, "text/plain; charset=utf-8")


def _paths(registry: Registry) -> list[str]:
    groups = [name for name in _groups(registry) if name]
    versions = [f"/apis/{name}/{v}" for name in groups for v in _versions(registry, name)]
    named = [f"/apis/{name}" for name in groups]
    return ["/api", "/api/v1", "/apis", *sorted([*named, *versions]), *_OTHER_PATHS]


_OTHER_PATHS = ["/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]


def _resource_list(registry: Registry, parts: list[str]) -> Response | None:
    if parts[0] == "api" and len(parts) == 2:
        parts = ["apis", "", parts[1]]
    if parts[0] != "apis" or len(parts) != 3:
        return None
    kinds = [kind for kind in registry if [kind.group, kind.version] == parts[1:]]
    if not kinds:
        return None
    resources = [entry for kind in kinds for entry in _resources(kind)]
    found = {"groupVersion": kinds[0].api_version, "resources": resources}
    return _json({"kind": "APIResourceList", "apiVersion": "v1", **found})


def _json(answer: dict[str, Any]) -> Response:
    return Response(encode(answer))


def _groups(registry: Iterable[Kind]) -> list[str]:
    return list({kind.group: None for kind in registry})


def _group(registry: Registry, name: str) -> dict[str, Any]:
    versions = [
        {"groupVersion": f"{name}/{version}", "version": version}
        for version in _versions(registry, name)
    ]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _versions(registry: Registry, group: str) -> list[str]:
    return list({kind.version: None for kind in registry if kind.group == group})


def _resources(kind: Kind) -> list[dict[str, Any]]:
    common = {"namespaced": kind.namespaced, "kind": kind.kind}
    entry = {"name": kind.plural, "singularName": kind.one, "verbs": list(kind.verbs)}
    subresources = [
        {"name": f"{kind.plural}/{name}", "singularName": "", "verbs": _STATUS_VERBS, **common}
        for name in sorted(kind.subresources)
    ]
    names = {"shortNames": kind.short_names, "categories": kind.categories}
    given = {field: values for field, values in names.items() if values}
    return [{**entry, **common, **given}, *subresources]
