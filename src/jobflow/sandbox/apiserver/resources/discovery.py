"""Discovery: API groups, resources, the server's version, and who the user is."""

from typing import Any

from jobflow.api.resources import SELF_SUBJECT_REVIEWS
from jobflow.sandbox.apiserver.kinds import Kind, Registry
from jobflow.sandbox.apiserver.requests.failures import failure
from jobflow.sandbox.apiserver.requests.http import Request, Response, encode
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


def discover(registry: Registry, request: Request) -> Response | None:
    """Return the answer to a discovery request; None for any other path or method."""
    path = request.path.strip("/")
    if request.method != "GET":
        return None
    if path.partition("/")[0] in ("healthz", "readyz", "livez"):
        return Response(b"ok", media_type="text/plain; charset=utf-8")
    found: dict[str, Any]
    groups = list(dict.fromkeys(kind.group for kind in registry if kind.group))
    match path.split("/"):
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
            resources = [entry for kind in kinds for entry in _resources(kind)]
            head = {"kind": "APIResourceList", "apiVersion": "v1"}
            found = {**head, "groupVersion": kinds[0].api_version, "resources": resources}
    return Response(encode(found))


def own_user(request: Request) -> Response | None:
    """Return the answer to a SelfSubjectReview (`kubectl auth whoami`); None for other requests."""
    if (request.method, request.path) != ("POST", SELF_SUBJECT_REVIEWS.path()):
        return None
    review = {"kind": SELF_SUBJECT_REVIEWS.kind, "apiVersion": SELF_SUBJECT_REVIEWS.api_version}
    metadata = {"creationTimestamp": now()}
    answer = {**review, "metadata": metadata, "status": {"userInfo": request.user}}
    return Response(encode(answer), 201)


def no_such_page(request: Request) -> Response:
    """Return 404 for an unknown path. Raises RequestFailure, 404, under /api."""
    if request.path.startswith("/api/"):
        raise failure(404, "NotFound", "the server could not find the requested resource")
    return Response(b"404 page not found\n", 404, "text/plain; charset=utf-8")


def _group(registry: Registry, name: str) -> dict[str, Any]:
    names = dict.fromkeys(kind.version for kind in registry if kind.group == name)
    versions = [{"groupVersion": f"{name}/{each}", "version": each} for each in names]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _resources(kind: Kind) -> list[dict[str, Any]]:
    common = {"namespaced": kind.namespaced, "kind": kind.kind}
    entry = {"name": kind.plural, "singularName": kind.one, "verbs": list(kind.verbs)}
    subresources = [
        {"name": f"{kind.plural}/{name}", "singularName": "", "verbs": verbs, **common}
        for name, verbs in _SUBRESOURCE_VERBS.items()
        if name in kind.subresources
    ]
    names = {"shortNames": kind.short_names, "categories": kind.categories}
    given = {field: values for field, values in names.items() if values}
    return [{**entry, **common, **given}, *subresources]
