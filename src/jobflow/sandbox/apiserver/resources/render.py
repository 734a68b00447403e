"""How stored objects are answered: as they are, as rows of a Table, or their metadata alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jobflow.sandbox.apiserver.http import JSON, encode
from jobflow.sandbox.apiserver.kinds import Kind, Object
from jobflow.sandbox.apiserver.storage import Stored


class Renderer:
    """Objects as they are stored."""

    media_type = JSON

    def __init__(self, kind: Kind) -> None:
        self._kind = kind

    def one(self, stored: Stored) -> bytes:
        """One object."""
        if self._kind.projection is None:
            return stored.body
        return encode(self.shown(stored))

    def shown(self, stored: Stored) -> Object:
        """The object in this kind's version."""
        projection = self._kind.projection
        return projection.show(stored.obj) if projection else stored.obj

    def many(self, page: Sequence[Stored], revision: int, following: str, remaining: int) -> bytes:
        """A page of a list; `following` is the token of the next one."""
        return b'{"apiVersion":"%b","kind":"%b","metadata":%b,"items":[%b]}' % (
            self._kind.api_version.encode(),
            self._kind.many.encode(),
            encode(list_metadata(revision, following, remaining, always=self._kind.custom)),
            b",".join(map(self.one, page)),
        )

    def event(self) -> Callable[[Stored], bytes]:
        """A renderer of the objects of one watch, in order."""
        return self.one


def list_metadata(
    revision: int, following: str, remaining: int, *, always: bool = False
) -> dict[str, Any]:
    """`metadata` of a list; `always`: with `continue` even where nothing follows, as lists of
    custom resources have it."""
    metadata: dict[str, Any] = {"resourceVersion": str(revision)}
    if following or always:
        metadata["continue"] = following
    if remaining:
        metadata["remainingItemCount"] = remaining
    return metadata
