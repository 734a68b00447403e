"""Watch connections: frames out of changes, bookmarks, timeouts, and noticing who has gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass

from jobflow.sandbox.apiserver.http import Receive, encode
from jobflow.sandbox.apiserver.kinds import Kind
from jobflow.sandbox.apiserver.storage import (
    ADDED,
    DELETED,
    MODIFIED,
    Change,
    Storage,
    Stored,
    Watch,
)

INITIAL_EVENTS_END = "k8s.io/initial-events-end"

Select = Callable[[Stored], bool]
Render = Callable[[Stored], bytes]


@dataclass(frozen=True, slots=True)
class Terms:
    """What a watch asks for."""

    kind: Kind
    select: Select
    render: Render
    initial: list[Stored]
    """States to begin with, as ADDED."""
    bookmark_seconds: float
    """How often a bookmark is sent; 0: never."""
    timeout_seconds: float
    initial_end: bool = False
    """Whether a bookmark marks the end of the initial states (sendInitialEvents)."""


async def stream(
    storage: Storage, watch: Watch, terms: Terms, receive: Receive
) -> AsyncGenerator[bytes]:
    """The frames of one watch until its time is over, the client has gone or the server stops."""
    loop = asyncio.get_running_loop()
    bookmarks = _Bookmarks(watch, terms.bookmark_seconds)
    gone = asyncio.create_task(_until_gone(receive, watch))
    timer = loop.call_later(terms.timeout_seconds, watch.close)
    try:
        yield _initial(storage, terms)
        while not watch.closed or watch.pending:
            await watch.wake.wait()
            watch.wake.clear()
            frames = [frame for change in _drain(watch) if (frame := _frame(change, terms))]
            if bookmarks.due():
                frames.append(_bookmark(terms.kind, storage.revision))
            if frames:
                yield b"".join(frames)
    finally:
        timer.cancel()
        bookmarks.stop()
        storage.unwatch(terms.kind.bucket, watch)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)


async def _until_gone(receive: Receive, watch: Watch) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    watch.pending.clear()
    watch.close()


class _Bookmarks:
    """Wakes a watch whenever a bookmark is due."""

    def __init__(self, watch: Watch, seconds: float) -> None:
        self._watch = watch
        self._seconds = seconds
        self._due = False
        self._timer: asyncio.TimerHandle | None = None
        self._arm()

    def due(self) -> bool:
        due, self._due = self._due, False
        return due

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self) -> None:
        if self._seconds:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._ring)

    def _ring(self) -> None:
        self._due = True
        self._watch.wake.set()
        self._arm()


def _drain(watch: Watch) -> list[Change]:
    changes = list(watch.pending)
    watch.pending.clear()
    return changes


def _initial(storage: Storage, terms: Terms) -> bytes:
    frames = [_framed(ADDED, terms.render(stored)) for stored in terms.initial]
    if terms.initial_end:
        frames.append(_bookmark(terms.kind, storage.revision, {INITIAL_EVENTS_END: "true"}))
    return b"".join(frames)


def _framed(kind: str, body: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), body)


def _frame(change: Change, terms: Terms) -> bytes | None:
    """A change as this watcher sees it: an object may come into its selection or leave it."""
    was = change.old is not None and terms.select(change.old)
    if change.type == DELETED:
        return _framed(DELETED, terms.render(change.new)) if was else None
    if terms.select(change.new):
        return _framed(MODIFIED if was else ADDED, terms.render(change.new))
    return _framed(DELETED, terms.render(change.new)) if was else None


def _bookmark(kind: Kind, revision: int, annotations: dict[str, str] | None = None) -> bytes:
    metadata: dict[str, object] = {"resourceVersion": str(revision)}
    if annotations:
        metadata["annotations"] = annotations
    obj = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
    return _framed("BOOKMARK", encode(obj))


def error_frame(status: dict[str, object]) -> bytes:
    """A watch that ends with an error."""
    return _framed("ERROR", encode(status))
