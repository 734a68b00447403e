"""Answers of an API server, decoded into types. UnreadableAnswer is the only error."""

import re
from collections.abc import AsyncIterator, Iterable
from typing import Any, Generic, TypeVar

import msgspec

from jobflow.api.meta import ListMeta
from jobflow.api.schema.nesting import cut
from jobflow.kube.errors import UnreadableAnswer

T = TypeVar("T")


class AnswerReader(Generic[T]):
    """Decodes answers as one type."""

    def __init__(self, type: type[T]) -> None:
        self._name = type.__name__
        self._decode = msgspec.json.Decoder(type).decode

    def decode(self, raw: bytes | msgspec.Raw) -> T:
        """Decode an answer. Raises UnreadableAnswer."""
        try:
            try:
                return self._decode(raw)
            except RecursionError:
                return self._decode(cut(bytes(raw)))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            message = f"the API server's answer cannot be read as {self._name}: {error}"
            raise UnreadableAnswer(message) from error


_decoders: dict[Any, AnswerReader[Any]] = {}


def decoder(type: type[T]) -> AnswerReader[T]:
    """Return the reader of a type. Readers are shared: making one costs more than decoding."""
    if (known := _decoders.get(type)) is None:
        known = _decoders[type] = AnswerReader(type)
    return known


async def lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the complete lines of chunks that are cut anywhere."""
    unfinished: list[bytes] = []
    async for chunk in chunks:
        *complete, end = chunk.split(b"\n")
        for line in complete:
            if unfinished:
                line = b"".join((*unfinished, line))
                unfinished.clear()
            if line:
                yield line
        if end:
            unfinished.append(end)


async def line_batches(chunks: AsyncIterator[bytes], *, longest: int) -> AsyncIterator[list[bytes]]:
    """Yield the lines of chunks that are cut anywhere, as many at once as came. A line of more than
    `longest` bytes is cut, between characters; the last line may lack its line break."""
    rest = b""
    async for chunk in chunks:
        *batch, rest = (rest + chunk).split(b"\n")
        batch = [piece for line in batch for piece in _cut(line, longest)]
        *early, rest = _cut(rest, longest)
        if batch := [*batch, *early]:
            yield batch
    if rest:
        yield [rest]


def _cut(line: bytes, longest: int) -> list[bytes]:
    pieces, start = [], 0
    while len(line) - start > longest:
        end = start + longest
        while end > start + longest - 3 and line[end] & 0xC0 == 0x80:  # inside a character
            end -= 1
        pieces.append(line[start:end])
        start = end
    return [*pieces, line[start:]]


_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


def warnings_of(headers: Iterable[str]) -> list[str]:
    """Return the texts of `Warning` headers, each of which may hold several (RFC 7234 5.5; an API
    server uses code 299 only)."""
    return [
        _ESCAPED.sub(r"\1", found[1]) for header in headers for found in _WARNING.finditer(header)
    ]


class Identity(msgspec.Struct, rename="camel"):
    """Name, UID and version of an object."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    managed_fields: msgspec.Raw = msgspec.Raw(b"[]")
    """Who has written what, in a list (`status_writers`)."""


class Identified(msgspec.Struct):
    """An object of which only its identity is read."""

    metadata: Identity


class IdentityList(msgspec.Struct):
    """A page of a list of which only identities are read."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[Identified] | None = None
    """An API server sends null if a list of metadata is empty."""


class RawList(msgspec.Struct):
    """A page of a list whose items are decoded one by one."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[msgspec.Raw] | None = None


class WatchEvent(msgspec.Struct):
    """An event of a watch. The type of `object` depends on `type`."""

    type: str
    object: msgspec.Raw


class AnyObject(msgspec.Struct):
    """An object with any content; its metadata may not even be a map."""

    metadata: Any = None


def identity_of(raw: msgspec.Raw) -> Identity:
    """Return the identity of an object; parts that cannot be read are empty."""
    try:
        metadata = decoder(AnyObject).decode(raw).metadata
    except UnreadableAnswer:
        metadata = None
    values = metadata if isinstance(metadata, dict) else {}
    texts = [values.get(key) for key in ("name", "namespace", "uid", "resourceVersion")]
    name, namespace, uid, version = (text if isinstance(text, str) else "" for text in texts)
    return Identity(name, namespace, uid, version)
