"""Output formats of objects: JSON, `meta.k8s.io/v1` Table, metadata only."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from jobflow.sandbox.apiserver.kinds import Column, Kind, Object
from jobflow.sandbox.apiserver.requests.http import JSON, Request, Response, encode
from jobflow.sandbox.apiserver.storage import Stored

TABLE, PARTIAL = "Table", "PartialObjectMetadata"
"""Forms of answers besides the whole object."""
_UNIQUE = "Name must be unique within a namespace."
NAME = Column("Name", lambda obj: obj["metadata"]["name"], format="name", description=_UNIQUE)

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "y": 365 * 86400}
_UNITS = (
    *((120, "s", "s"), (600, "m", "s"), (180 * 60, "m", "m"), (8 * 3600, "h", "m")),
    *((48 * 3600, "h", "h"), (8 * 86400, "d", "h"), (730 * 86400, "d", "d")),
    *((2920 * 86400, "y", "d"), (math.inf, "y", "y")),
)
"""Limit of a duration in seconds, and its units (apimachinery's duration.HumanDuration)."""


def age(timestamp: str | None) -> str:
    """Return the time since a timestamp as kubectl prints it: 5s, 3m10s, 2h, 4d."""
    if not timestamp:
        return "<unknown>"
    try:
        then = datetime.fromisoformat(timestamp)
    except ValueError:
        return "<invalid>"
    seconds = int((datetime.now(UTC) - then.astimezone(UTC)).total_seconds())
    if seconds < -1:
        return "<invalid>"
    seconds = max(seconds, 0)
    unit, inner = next(units for below, *units in _UNITS if seconds < below)
    count, rest = divmod(seconds, _SECONDS[unit])
    rest //= _SECONDS[inner]
    return f"{count}{unit}{rest}{inner}" if inner != unit and rest else f"{count}{unit}"


AGE = Column("Age", lambda obj: age(obj["metadata"].get("creationTimestamp")))
CREATED = Column("Created At", lambda obj: obj["metadata"].get("creationTimestamp"), type="date")


def crd_column(given: dict[str, Any]) -> Column:
    """Return the column that an entry of `additionalPrinterColumns` describes."""
    find, kind = compile_path(given["jsonPath"]), given["type"]

    def value(obj: Object) -> Any:
        found = find(obj)
        if not found:
            return None
        if kind == "date":
            return age(str(found[0]))
        if kind in ("integer", "number", "boolean"):
            return found[0]
        # Text as it is, anything else as JSON.
        texts = (each if isinstance(each, str) else encode(each).decode() for each in found)
        return " ".join(texts)

    optional = {name: given[name] for name in ("priority", "description") if name in given}
    return Column(given["name"], value, type=kind, **optional)


class Renderer:
    """Objects as a client wants them: whole, as table rows, or only their metadata."""

    def __init__(self, kind: Kind, request: Request) -> None:
        self._kind = kind
        self._form = ""
        # Which part of its object a row holds.
        self._include = request.query.get("includeObject") or "Metadata"
        self._has_columns = True
        # The first media type that is supported counts.
        for media_range in request.header(b"accept").split(","):
            media_type, *parameters = (part.strip() for part in media_range.split(";"))
            # kubectl prefers protobuf for some kinds, and takes the next type in its list.
            if media_type not in (JSON, "*/*"):
                continue
            form = dict(parameter.partition("=")[::2] for parameter in parameters).get("as", "")
            form = PARTIAL if form == f"{PARTIAL}List" else form
            if form in ("", TABLE, PARTIAL):
                self._form = form
                break

    @property
    def media_type(self) -> str:
        return f"{JSON};as={self._form};v=v1;g=meta.k8s.io" if self._form else JSON

    def response(self, body: bytes, code: int = 200) -> Response:
        return Response(body, code, media_type=self.media_type)

    def one(self, stored: Stored) -> bytes:
        if self._form == TABLE:
            return self._table([stored], {"resourceVersion": str(stored.revision)})
        if self._form == PARTIAL:
            return encode(partial(stored.obj))
        kind = self._kind
        return encode(kind.show(stored.obj)) if kind.stored_as else stored.body

    def event(self, stored: Stored) -> bytes:
        """Render an object of a watch, whose first table alone names the columns."""
        body = self.one(stored)
        # The other tables of a watch repeat them for nothing.
        self._has_columns = False
        return body

    def many(self, page: Sequence[Stored], revision: int, following: str, remaining: int) -> bytes:
        metadata: dict[str, Any] = {"resourceVersion": str(revision)}
        if following or (self._kind.custom and self._form != TABLE):
            metadata["continue"] = following
        if remaining:
            metadata["remainingItemCount"] = remaining
        if self._form == TABLE:
            return self._table(page, metadata)
        names = (self._kind.api_version, self._kind.many)
        if self._form == PARTIAL:
            names = ("meta.k8s.io/v1", "PartialObjectMetadataList")
        return b'{"apiVersion":"%b","kind":"%b","metadata":%b,"items":[%b]}' % (
            *(name.encode() for name in names),
            encode(metadata),
            b",".join(map(self.one, page)),
        )

    def _table(self, page: Sequence[Stored], metadata: dict[str, Any]) -> bytes:
        columns = self._kind.columns or (NAME, CREATED)
        names = ("name", "type", "format", "description", "priority")
        definitions = [{name: getattr(each, name) for name in names} for each in columns]
        rows = []
        for stored in page:
            shown = self._kind.show(stored.obj) if self._include == "Object" else None
            if self._include == "Metadata":
                shown = partial(stored.obj)
            rows.append({"cells": [each.value(stored.obj) for each in columns], "object": shown})
        head = {"kind": TABLE, "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
        shown_columns = definitions if self._has_columns else None
        return encode({**head, "columnDefinitions": shown_columns, "rows": rows})


def partial(obj: Object) -> Object:
    return {"kind": PARTIAL, "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


def respond(kind: Kind, request: Request, stored: Stored, code: int = 200) -> Response:
    render = Renderer(kind, request)
    return render.response(render.one(stored), code)


_TOKEN = re.compile(
    r"""\.(?P<field>(?:[^.\[\]\\]|\\.)+)
    |\[(?P<index>-?\d+)\]
    |(?P<all>\[\*\]|\.\*)
    |\['(?P<quoted>[^']+)'\]
    |\[\?\(@\.(?P<left>[^=!<>\s]+)\s*(?P<sign>==|!=)\s*["']?(?P<right>[^"')]*)["']?\)\]""",
    re.VERBOSE,
)


def compile_path(path: str) -> Callable[[Any], list[Any]]:
    """Compile a JSONPath into a function that returns all values found, in order."""
    tokens: list[re.Match[str]] = []
    at = 0
    text = path if path.startswith((".", "[")) else f".{path}"
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            return lambda obj: []
        tokens.append(token)
        at = token.end()

    def find(obj: Any) -> list[Any]:
        values = [obj]
        for token in tokens:
            values = [inner for value in values for inner in _step(token, value)]
        return values

    return find


def _step(token: re.Match[str], value: Any) -> Iterable[Any]:
    if token["field"] or token["quoted"]:
        name = token["quoted"] or re.sub(r"\\(.)", r"\1", token["field"])
        found = value.get(name) if isinstance(value, dict) else None
        return () if found is None else (found,)
    if token["all"] and isinstance(value, dict):
        return value.values()
    if not isinstance(value, list):
        return ()
    if token["index"]:
        index = int(token["index"])
        return value[index : index + 1 or None] if -len(value) <= index else ()
    if token["left"]:
        inner, equal = compile_path(token["left"]), token["sign"] == "=="
        return [item for item in value if (token["right"] in map(str, inner(item))) is equal]
    return value
