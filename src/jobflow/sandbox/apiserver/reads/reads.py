"""Get, list and watch requests: versions, selectors, pages."""

import base64
import random
from collections import OrderedDict
from dataclasses import dataclass

import msgspec

from jobflow.sandbox.apiserver.reads.list_options import check_options, check_token, version
from jobflow.sandbox.apiserver.reads.watches import WatchOptions, error_frame, stream
from jobflow.sandbox.apiserver.requests import failures
from jobflow.sandbox.apiserver.requests.http import Receive, Request, Response
from jobflow.sandbox.apiserver.requests.operations import Target
from jobflow.sandbox.apiserver.requests.selectors import selector
from jobflow.sandbox.apiserver.resources.table import renderer
from jobflow.sandbox.apiserver.storage import Expired, Storage, Stored

_SNAPSHOTS = 64
"""Maximum number of unfinished paged lists; the oldest gets 410."""


@dataclass(frozen=True, slots=True)
class _Page:
    """Remaining objects of a paged list."""

    revision: int
    start: int
    items: list[Stored]


class ReadHandler:
    """Handler of get, list and watch requests."""

    def __init__(self, storage: Storage, *, bookmark_seconds: float) -> None:
        self._storage = storage
        self._bookmark_seconds = bookmark_seconds
        self._pages: OrderedDict[str, _Page] = OrderedDict()

    def get(self, target: Target, request: Request) -> Response:
        """Return one object. Raises RequestFailure."""
        self._check_reached(version(request))
        stored = self._storage.get(target.kind.bucket, target.key)
        if stored is None:
            raise failures.not_found(target.kind, target.name)
        render = renderer(target.kind, request)
        return render.response(render.one(stored))

    def list(self, target: Target, request: Request) -> Response:
        """Return a collection, or a page of it. Raises RequestFailure."""
        check_options(request, watching=False)
        render = renderer(target.kind, request)
        wanted = selector(target.kind, request, target.name)
        limit = max(request.number("limit"), 0)
        if token := request.query.get("continue", ""):
            page = self._continued(token, request)
        else:
            self._check_version(request)
            found = self._storage.bucket(target.kind.bucket).select(target.namespace)
            if not wanted.everything:
                found = [stored for stored in found if wanted(stored)]
            page = _Page(self._storage.revision, 0, found)
        items = page.items[: limit or None]
        rest = page.items[len(items) :]
        following = self._remember(_Page(page.revision, page.start + len(items), rest))
        remaining = len(rest) if rest and wanted.everything else 0
        return render.response(render.many(items, page.revision, following, remaining))

    def watch(self, target: Target, request: Request, receive: Receive) -> Response:
        """Return a stream of changes. Raises RequestFailure."""
        check_options(request, watching=True)
        render = renderer(target.kind, request)
        wanted = selector(target.kind, request, target.name)
        since = version(request, watching=True)
        send_initial = request.flag("sendInitialEvents")
        begin = send_initial or (not since and "sendInitialEvents" not in request.query)
        stored = self._storage.bucket(target.kind.bucket).select(target.namespace) if begin else []
        start = self._storage.revision if begin or not since else since
        try:
            watch = self._storage.watch(target.kind.bucket, start)
        except Expired as error:
            return render.response(error_frame(failures.expired(str(error)).status))
        bookmarks = request.flag("allowWatchBookmarks")
        options = WatchOptions(
            target.kind,
            lambda stored: target.namespace in ("", stored.key[0]) and wanted(stored),
            render.event(),
            [state for state in stored if wanted(state)],
            self._bookmark_seconds if bookmarks else 0,
            request.number("timeoutSeconds") or random.uniform(1800, 3600),
            initial_end=send_initial and bookmarks,
        )
        frames = stream(self._storage, watch, options, receive)
        return Response(stream=frames, media_type=render.media_type)

    def _check_version(self, request: Request) -> None:
        asked = version(request)
        self._check_reached(asked)
        exact = request.query.get("resourceVersionMatch") == "Exact"
        if exact and asked != self._storage.revision:
            message = "The provided resource version is too old to list at: only the newest is kept"
            raise failures.expired(message)

    def _check_reached(self, asked: int) -> None:
        if asked > self._storage.revision:
            raise failures.too_new(asked, self._storage.revision)

    def _remember(self, page: _Page) -> str:
        """Return a continue token for the rest of a list, or "" if nothing remains."""
        if not page.items:
            return ""
        start = {"v": "meta.k8s.io/v1", "rv": page.revision, "start": page.start}
        start["id"] = random.getrandbits(32)
        token = base64.urlsafe_b64encode(msgspec.json.encode(start)).decode().rstrip("=")
        self._pages[token] = page
        while len(self._pages) > _SNAPSHOTS:
            self._pages.popitem(last=False)
        return token

    def _continued(self, token: str, request: Request) -> _Page:
        if request.query.get("resourceVersion", "0") != "0":
            message = "specifying resource version is not allowed when using continue"
            raise failures.bad_request(message)
        check_token(token)
        if token not in self._pages:
            raise failures.expired(
                "The provided continue parameter is too old to display a consistent list result. "
                "You can start a new list without the continue parameter."
            )
        return self._pages[token]

    def forget_pages(self) -> None:
        self._pages.clear()
