"""Watch connections: event frames, bookmarks, timeouts and disconnects."""

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
    ObjectChange,
    PendingChanges,
    Storage,
    Stored,
)

INITIAL_EVENTS_END = "k8s.io/initial-events-end"

Select = Callable[[Stored], bool]
Render = Callable[[Stored], bytes]


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """Options of a watch."""

    kind: Kind
    select: Select
    render: Render
    initial: list[Stored]
    """Objects that are sent first, as ADDED."""
    bookmark_seconds: float
    """Interval of bookmarks; 0 means never."""
    timeout_seconds: float
    initial_end: bool = False
    """Whether a bookmark marks the end of the initial objects (sendInitialEvents)."""


async def stream(
    storage: Storage, watch: PendingChanges, terms: WatchOptions, receive: Receive
) -> AsyncGenerator[bytes]:
    """Yield the frames of one watch until it times out, the client leaves or the server stops."""
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


async def _until_gone(receive: Receive, watch: PendingChanges) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    watch.pending.clear()
    watch.close()


class _Bookmarks:
    def __init__(self, watch: PendingChanges, seconds: float) -> None:
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


def _drain(watch: PendingChanges) -> list[ObjectChange]:
    changes = list(watch.pending)
    watch.pending.clear()
    return changes


def _initial(storage: Storage, terms: WatchOptions) -> bytes:
    frames = [_framed(ADDED, terms.render(stored)) for stored in terms.initial]
    if terms.initial_end:
        frames.append(_bookmark(terms.kind, storage.revision, {INITIAL_EVENTS_END: "true"}))
    return b"".join(frames)


def _framed(kind: str, body: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), body)


def _frame(change: ObjectChange, terms: WatchOptions) -> bytes | None:
    """Return the frame for this watcher: an object may enter or leave its selection."""
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
    """Return the frame that ends a watch with an error."""
    return _framed("ERROR", encode(status))
