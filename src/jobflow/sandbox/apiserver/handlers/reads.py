"""Get, list and watch requests. The valid combinations of their options are those of
k8s.io/apimachinery pkg/apis/meta/internalversion."""

import asyncio
import base64
import binascii
import random
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

from jobflow.core.violations import Reason, Violation
from jobflow.sandbox.apiserver.kinds import Kind
from jobflow.sandbox.apiserver.requests import failures
from jobflow.sandbox.apiserver.requests.http import Receive, Request, Response, encode
from jobflow.sandbox.apiserver.requests.targets import Selector, Target
from jobflow.sandbox.apiserver.resources.table import Renderer, respond
from jobflow.sandbox.apiserver.storage import Expired, PendingChanges, Storage, Stored

_MATCH = "resourceVersionMatch"
_SNAPSHOTS = 64
"""Maximum number of unfinished paged lists; the oldest gets 410."""


class ReadHandler:
    def __init__(self, storage: Storage, *, bookmark_seconds: float) -> None:
        self._storage = storage
        self._bookmark_seconds = bookmark_seconds
        self.pages: OrderedDict[str, tuple[int, list[Stored]]] = OrderedDict()
        """Revision and rest of each list that was not read to its end, by its continue token."""

    def get(self, target: Target, request: Request) -> Response:
        self._check_reached(version(request))
        stored = self._storage.get(target.kind.bucket, target.key)
        if stored is None:
            raise failures.not_found(target.kind, target.name)
        return respond(target.kind, request, stored)

    def list(self, target: Target, request: Request) -> Response:
        check_options(request, watching=False)
        render, wanted = Renderer(target.kind, request), Selector(target, request)
        limit = max(request.number("limit"), 0)
        if token := request.query.get("continue", ""):
            if request.query.get("resourceVersion", "0") != "0":
                why = "specifying resource version is not allowed when using continue"
                raise failures.bad_request(why)
            check_token(token)
            if token not in self.pages:
                raise failures.expired(
                    "The provided continue parameter is too old to display a consistent list "
                    "result. You can start a new list without the continue parameter."
                )
            revision, found = self.pages[token]
        else:
            asked = version(request)
            self._check_reached(asked)
            is_exact = request.query.get("resourceVersionMatch") == "Exact"
            if is_exact and asked != self._storage.revision:
                why = "The provided resource version is too old to list at"
                raise failures.expired(f"{why}: only the newest is kept")
            found = self._storage.bucket(target.kind.bucket).select(target.namespace)
            if not wanted.everything:
                found = [stored for stored in found if wanted(stored)]
            revision = self._storage.revision
        items = found[: limit or None]
        rest, following = found[len(items) :], ""
        if rest:
            start = {"v": "meta.k8s.io/v1", "rv": revision, "id": random.getrandbits(64)}
            following = base64.urlsafe_b64encode(msgspec.json.encode(start)).decode().rstrip("=")
            self.pages[following] = revision, rest
            # A client may leave a list unfinished, and then nobody drops its page.
            while len(self.pages) > _SNAPSHOTS:
                self.pages.popitem(last=False)
        # As in kube-apiserver, which cannot count the rest of a selection.
        remaining = len(rest) if rest and wanted.everything else 0
        return render.response(render.many(items, revision, following, remaining))

    def watch(self, target: Target, request: Request, receive: Receive) -> Response:
        check_options(request, watching=True)
        kind, storage = target.kind, self._storage
        render, wanted = Renderer(kind, request), Selector(target, request)
        since = version(request, watching=True)
        send_initial = request.flag("sendInitialEvents")
        # Without a version a watch begins with all objects, as if they were added now.
        begin = send_initial or (not since and "sendInitialEvents" not in request.query)
        stored = storage.bucket(kind.bucket).select(target.namespace) if begin else []
        start = storage.revision if begin or not since else since
        try:
            watch = storage.watch(kind.bucket, start)
        except Expired as error:
            return render.response(_frame("ERROR", encode(failures.expired(str(error)).status)))
        initial = filter(wanted, stored)

        async def frames() -> AsyncGenerator[bytes]:
            """Yield the frames of the watch until it times out, the client leaves or the server
            stops: the `initial` objects as ADDED, then changes."""
            loop = asyncio.get_running_loop()
            has_bookmarks = request.flag("allowWatchBookmarks")
            due = loop.time() + self._bookmark_seconds if has_bookmarks else None
            # At random as in kube-apiserver, so that clients do not come back all at once.
            seconds = request.number("timeoutSeconds") or random.uniform(1800, 3600)
            timer = loop.call_later(seconds, watch.close)
            try:
                async with closing_with_client(storage, kind.bucket, watch, receive):
                    ready = [_frame("ADDED", render.event(each)) for each in initial]
                    if has_bookmarks and send_initial:
                        end = {"k8s.io/initial-events-end": "true"}
                        ready.append(_bookmark(kind, storage.revision, end))
                    yield b"".join(ready)
                    while not watch.closed or watch.pending:
                        with suppress(TimeoutError):
                            async with asyncio.timeout_at(due):
                                await watch.wake.wait()
                        watch.wake.clear()
                        ready = []
                        while watch.pending:
                            change = watch.pending.popleft()
                            # An object may enter or leave the selection of this watcher.
                            was = change.old is not None and wanted(change.old)
                            is_selected = change.type != "DELETED" and wanted(change.new)
                            if was or is_selected:
                                kept = "MODIFIED" if was else "ADDED"
                                what = kept if is_selected else "DELETED"
                                ready.append(_frame(what, render.event(change.new)))
                        # A bookmark moves the version of a client whose objects do not change.
                        if due is not None and loop.time() >= due:
                            due = loop.time() + self._bookmark_seconds
                            ready.append(_bookmark(kind, storage.revision))
                        if ready:
                            yield b"".join(ready)
            finally:
                timer.cancel()

        return Response(stream=frames(), media_type=render.media_type)

    def _check_reached(self, asked: int) -> None:
        if asked > self._storage.revision:
            raise failures.too_new(asked, self._storage.revision)


def check_options(request: Request, *, watching: bool) -> None:
    """Raise RequestFailure, 400 or 422, if the options of a list or a watch are invalid."""
    for name in ("limit", "timeoutSeconds"):
        request.number(name)
    match, asked = request.query.get(_MATCH, ""), request.query.get("resourceVersion", "")
    sends_initial = "sendInitialEvents" in request.query
    forbidden, supported = [], '"NotOlderThan"' if watching else '"Exact", "NotOlderThan", ""'
    if watching and match and not sends_initial:
        why = "is forbidden for watch unless sendInitialEvents is provided"
        forbidden.append(f"resourceVersionMatch {why}")
    if watching and sends_initial and match != "NotOlderThan":
        why = "requires setting resourceVersionMatch to NotOlderThan"
        forbidden.append(f"sendInitialEvents {why}")
    if not watching and match and not asked:
        forbidden.append("resourceVersionMatch is forbidden unless resourceVersion is provided")
    if not watching and match and request.query.get("continue"):
        forbidden.append("resourceVersionMatch is forbidden when continue is provided")
    if not watching and match == "Exact" and asked == "0":
        forbidden.append('resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
    faults = [Violation(_MATCH, Reason.FORBIDDEN, None, detail) for detail in forbidden]
    if match and f'"{match}"' not in supported:
        detail = f"supported values: {supported}"
        faults.append(Violation(_MATCH, Reason.NOT_SUPPORTED, match, detail))
    if faults:
        raise failures.invalid_as("meta.k8s.io", "ListOptions", "", faults)


def version(request: Request, *, watching: bool = False) -> int:
    """Return `resourceVersion`, or 0. Raises RequestFailure: 400, or 500 for a watch."""
    text = request.query.get("resourceVersion") or "0"
    if text.isdecimal():
        return int(text)
    why = f'strconv.ParseUint: parsing "{text}": invalid syntax'
    message = f'resourceVersion: Invalid value: "{text}": {why}'
    if watching:
        raise failures.failure(500, "", message)
    raise failures.bad_request(f"invalid resource version: {message}")


def check_token(token: str) -> None:
    fault = "invalid continue token: continue key is not valid"
    try:
        text = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        version = msgspec.json.decode(text, type=dict[str, Any]).get("v", "")
    except (binascii.Error, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise failures.bad_request(f"{fault}: {error}") from error
    if version != "meta.k8s.io/v1":
        why = f"server does not recognize this encoded version {version}"
        raise failures.bad_request(f"{fault}: {why}")


@asynccontextmanager
async def closing_with_client(
    storage: Storage, bucket: str, watch: PendingChanges, receive: Receive
) -> AsyncIterator[None]:
    """Close a watch once the client has left, and end it with the body."""

    async def until_gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        # Nobody reads them any more.
        watch.pending.clear()
        watch.close()

    gone = asyncio.create_task(until_gone())
    try:
        yield
    finally:
        storage.bucket(bucket).watches.discard(watch)
        # It would wait for a disconnect that was already reported, or never comes.
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)


def _frame(kind: str, body: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), body)


def _bookmark(kind: Kind, revision: int, annotations: dict[str, str] | None = None) -> bytes:
    metadata: dict[str, object] = {"resourceVersion": str(revision)}
    if annotations:
        metadata["annotations"] = annotations
    return _frame("BOOKMARK", encode(kind.type_meta | {"metadata": metadata}))
