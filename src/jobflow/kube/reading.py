"""An API server's answers, read as types. Whatever one holds, the only error is Unreadable."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable
from typing import Any, Generic, TypeVar

import msgspec

from jobflow.api.schema.nesting import cut
from jobflow.kube.errors import Unreadable

T = TypeVar("T")


class Reader(Generic[T]):
    """Reads answers as one type."""

    def __init__(self, type: type[T]) -> None:
        self._name = type.__name__
        self._decode = msgspec.json.Decoder(type).decode

    def decode(self, raw: bytes | msgspec.Raw) -> T:
        """The answer. Raises Unreadable, whatever it holds."""
        try:
            return self._decode(raw)
        except RecursionError:
            short = cut(bytes(raw))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._unreadable(error) from error
        try:
            return self._decode(short)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> Unreadable:
        return Unreadable(f"the API server's answer cannot be read as {self._name}: {error}")


_decoders: dict[Any, Reader[Any]] = {}


def decoder(type: type[T]) -> Reader[T]:
    """The one reader of a type: making one costs more than decoding a small object."""
    if (known := _decoders.get(type)) is None:
        known = _decoders[type] = Reader(type)
    return known


async def lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the whole lines of chunks that are cut anywhere, but no last line without an end."""
    begun: list[bytes] = []
    async for chunk in chunks:
        *ended, rest = chunk.split(b"\n")
        for line in ended:
            if begun:
                line = b"".join((*begun, line))
                begun.clear()
            if line:
                yield line
        if rest:
            begun.append(rest)


_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


def warnings_of(headers: Iterable[str]) -> list[str]:
    """The texts of `Warning` headers, each of which may hold several (RFC 7234 5.5, of which an
    API server uses code 299 alone)."""
    return [
        _ESCAPED.sub(r"\1", found[1]) for header in headers for found in _WARNING.finditer(header)
    ]
