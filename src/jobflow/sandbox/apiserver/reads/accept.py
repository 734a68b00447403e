"""Output format that a client requests in its Accept header."""

from __future__ import annotations

from jobflow.sandbox.apiserver.http import Request
from jobflow.sandbox.apiserver.kinds import Kind
from jobflow.sandbox.apiserver.resources.table import PartialRenderer, Renderer, TableRenderer


def renderer(kind: Kind, request: Request) -> Renderer:
    """Return the renderer of the first supported media type; plain JSON by default."""
    for media_range in request.header(b"accept").split(","):
        media_type, *parameters = (part.strip() for part in media_range.split(";"))
        if media_type not in ("application/json", "*/*"):
            continue
        wanted = dict(parameter.partition("=")[::2] for parameter in parameters)
        form = wanted.get("as", "")
        if form == "Table":
            return TableRenderer(kind, request.query.get("includeObject", ""))
        if form in ("PartialObjectMetadata", "PartialObjectMetadataList"):
            return PartialRenderer(kind)
        if not form:
            break
    return Renderer(kind)
