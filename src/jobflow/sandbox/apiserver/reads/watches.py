"""Watch connections: event frames, bookmarks, timeouts and disconnects."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress

from jobflow.sandbox.apiserver.kinds import Kind
from jobflow.sandbox.apiserver.requests.http import Receive, encode
from jobflow.sandbox.apiserver.storage import PendingChanges, Storage, Stored

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


async def stream(
    storage: Storage,
    watch: PendingChanges,
    receive: Receive,
    *,
    kind: Kind,
    select: Callable[[Stored], bool],
    render: Callable[[Stored], bytes],
    initial: list[Stored],
    bookmark_seconds: float | None,
    timeout_seconds: float,
    marks_initial_end: bool,
) -> AsyncGenerator[bytes]:
    """Yield the frames of one watch until it times out, the client leaves or the server stops: the
    `initial` objects as ADDED, with a bookmark at their end if `marks_initial_end`, then changes,
    and bookmarks at this interval."""
    loop = asyncio.get_running_loop()
    due = None if bookmark_seconds is None else loop.time() + bookmark_seconds
    gone = asyncio.create_task(until_gone(receive, watch))
    timer = loop.call_later(timeout_seconds, watch.close)
    try:
        frames = [_frame("ADDED", render(stored)) for stored in initial]
        if marks_initial_end:
            frames.append(_bookmark(kind, storage.revision, {INITIAL_EVENTS_END: "true"}))
        yield b"".join(frames)
        while not watch.closed or watch.pending:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(due):
                    await watch.wake.wait()
            watch.wake.clear()
            frames = []
            while watch.pending:
                change = watch.pending.popleft()
                # An object may enter or leave the selection of this watcher.
                was = change.old is not None and select(change.old)
                is_selected = change.type != "DELETED" and select(change.new)
                if was or is_selected:
                    what = "DELETED" if not is_selected else "MODIFIED" if was else "ADDED"
                    frames.append(_frame(what, render(change.new)))
            # A bookmark moves the version of a client whose objects do not change.
            if bookmark_seconds is not None and due is not None and loop.time() >= due:
                due = loop.time() + bookmark_seconds
                frames.append(_bookmark(kind, storage.revision))
            if frames:
                yield b"".join(frames)
    finally:
        timer.cancel()
        storage.unwatch(kind.bucket, watch)
        # It would wait for a disconnect that was already reported, or never comes.
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)


async def until_gone(receive: Receive, watch: PendingChanges) -> None:
    """Close the watch once the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
    # Nobody reads them any more.
    watch.pending.clear()
    watch.close()


def _frame(kind: str, body: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), body)


def _bookmark(kind: Kind, revision: int, annotations: dict[str, str] | None = None) -> bytes:
    metadata: dict[str, object] = {"resourceVersion": str(revision)}
    if annotations:
        metadata["annotations"] = annotations
    obj = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
    return _frame("BOOKMARK", encode(obj))


def error_frame(status: dict[str, object]) -> bytes:
    """Return the frame that ends a watch with an error."""
    return _frame("ERROR", encode(status))
