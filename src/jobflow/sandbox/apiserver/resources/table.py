"""Output formats of objects: JSON, `meta.k8s.io/v1` Table, metadata only."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from itertools import chain, repeat
from typing import Any

from jobflow.sandbox.apiserver.kinds import Column, Kind, Object
from jobflow.sandbox.apiserver.requests.http import JSON, Request, Response, encode
from jobflow.sandbox.apiserver.storage import Stored

_UNIQUE = "Name must be unique within a namespace."
NAME = Column("Name", "string", lambda obj: obj["metadata"]["name"], 0, "name", _UNIQUE)


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


AGE = Column("Age", "string", lambda obj: age(obj["metadata"].get("creationTimestamp")))
CREATED = Column("Created At", "date", lambda obj: obj["metadata"].get("creationTimestamp"))


def printed(name: str, kind: str, path: str, priority: int, description: str) -> Column:
    """Return a column of a CRD, whose path is a JSONPath."""
    find = compile_path(path)

    def value(obj: Object) -> Any:
        found = find(obj)
        if not found:
            return None
        if kind == "date":
            return age(str(found[0]))
        if kind in ("integer", "number", "boolean"):
            return found[0]
        return " ".join(map(_text, found))

    return Column(name, kind, value, priority, description=description)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else encode(value).decode()


class Renderer:
    """Objects in JSON."""

    media_type = JSON

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._list = (kind.api_version, kind.many)

    def response(self, body: bytes, code: int = 200) -> Response:
        return Response(body, code, media_type=self.media_type)

    def one(self, stored: Stored) -> bytes:
        return encode(self.converted(stored)) if self._kind.stored_as else stored.body

    def converted(self, stored: Stored) -> Object:
        return self._kind.projection.show(stored.obj)

    def many(self, page: Sequence[Stored], revision: int, following: str, remaining: int) -> bytes:
        """Render a page of a list; `following` is the continue token."""
        metadata = list_metadata(revision, following, remaining, always=self._kind.custom)
        return b'{"apiVersion":"%b","kind":"%b","metadata":%b,"items":[%b]}' % (
            *(name.encode() for name in self._list),
            encode(metadata),
            b",".join(map(self.one, page)),
        )

    def event(self) -> Callable[[Stored], bytes]:
        """Return the renderer of a watch's objects."""
        return self.one


class TableRenderer(Renderer):
    """Objects as table rows; `include` says which part of the object a row holds."""

    media_type = "application/json;as=Table;v=v1;g=meta.k8s.io"

    def __init__(self, kind: Kind, include: str) -> None:
        super().__init__(kind)
        self._columns: Sequence[Column] = kind.columns or (NAME, CREATED)
        self._include = include or "Metadata"

    def one(self, stored: Stored) -> bytes:
        return self._table([stored], {"resourceVersion": str(stored.revision)}, has_columns=True)

    def many(self, page: Sequence[Stored], revision: int, following: str, remaining: int) -> bytes:
        return self._table(page, list_metadata(revision, following, remaining), has_columns=True)

    def event(self) -> Callable[[Stored], bytes]:
        is_first = chain([True], repeat(False))

        def render(stored: Stored) -> bytes:
            metadata = {"resourceVersion": str(stored.revision)}
            return self._table([stored], metadata, has_columns=next(is_first))

        return render

    def _table(self, page: Sequence[Stored], metadata: dict[str, Any], has_columns: bool) -> bytes:
        names = ("name", "type", "format", "description", "priority")
        definitions = [{name: getattr(each, name) for name in names} for each in self._columns]
        rows: list[dict[str, Any]] = []
        for stored in page:
            shown = self.converted(stored) if self._include == "Object" else None
            if self._include == "Metadata":
                shown = partial(stored.obj)
            cells = [column.value(stored.obj) for column in self._columns]
            rows.append({"cells": cells, "object": shown})
        head = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
        columns = definitions if has_columns else None
        return encode({**head, "columnDefinitions": columns, "rows": rows})


def partial(obj: Object) -> Object:
    head = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    return {**head, "metadata": obj["metadata"]}


class PartialRenderer(Renderer):
    """Objects as PartialObjectMetadata."""

    media_type = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"

    def __init__(self, kind: Kind) -> None:
        super().__init__(kind)
        self._list = ("meta.k8s.io/v1", "PartialObjectMetadataList")

    def one(self, stored: Stored) -> bytes:
        return encode(partial(stored.obj))


def renderer(kind: Kind, request: Request) -> Renderer:
    """Return the renderer of the first media type in the Accept header that is supported."""
    for media_range in request.header(b"accept").split(","):
        media_type, *parameters = (part.strip() for part in media_range.split(";"))
        if media_type not in ("application/json", "*/*"):
            continue
        form = dict(parameter.partition("=")[::2] for parameter in parameters).get("as", "")
        if form == "Table":
            return TableRenderer(kind, request.query.get("includeObject", ""))
        if form in ("PartialObjectMetadata", "PartialObjectMetadataList"):
            return PartialRenderer(kind)
        if not form:
            break
    return Renderer(kind)


def list_metadata(
    revision: int, following: str, remaining: int, *, always: bool = False
) -> dict[str, Any]:
    """Return `metadata` of a list; with `always`, `continue` may be empty."""
    rest = {"continue": following} if following or always else {}
    count = {"remainingItemCount": remaining} if remaining else {}
    return {"resourceVersion": str(revision), **rest, **count}


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
