"""Keeps a Cache level with one kind on the API server: lists, watches, starts over when it must.

Decides nothing about the objects. Every failure ends in another try after a backoff, so `run` ends
only by being cancelled. `level` is for who has to know now what the API server holds.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any, Generic, TypeVar

import msgspec
import structlog

from jobflow.api.meta import ListMeta, Object
from jobflow.api.resources import Resource, Status
from jobflow.api.schema.nesting import READABLE_DEPTH, is_deeper
from jobflow.kube.backoff import Backoff
from jobflow.kube.cache import Cache, Kept, Key, version_of
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client, Query, Unreadable, decoder

log = structlog.get_logger(__name__)

T = TypeVar("T", bound=Kept)

WATCH_SECONDS = 300
"""A watch is asked to end after this long and up to twice this long (client-go's figures), so that
watches do not all end together."""
ABSENT_SECONDS = 30.0
"""How long to wait before asking again for a kind that the server does not serve."""
LONGEST_WAIT = 30.0
LONGEST_WAIT_GONE = 5.0
"""The server is well, it only forgets fast: lists every few seconds keep the copy useful."""
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
READ_ONE_BY_ONE = 200
"""Up to so many objects that a copy lacks are read singly, sixteen at once; more by a list."""
READS_AT_ONCE = 16
DELETIONS_WITHIN = 5.0
"""How long the watch is given to bring the last objects of what was deleted."""


class Identity(msgspec.Struct, rename="camel"):
    """Which object it is, and in which version: all that `level` has to know of most."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class Identified(msgspec.Struct):
    """An object of which that is enough."""

    metadata: Identity


class IdentityList(msgspec.Struct):
    """A page of a list of which the metadata is enough."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[Identified] | None = None
    """Null where there are none: a real API server says so of metadata."""


class RawList(msgspec.Struct):
    """A page of a list whose items are read one by one."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[msgspec.Raw] | None = None


class Frame(msgspec.Struct):
    """One event of a watch; what `object` is depends on `type`."""

    type: str
    object: msgspec.Raw


class Reflector(Generic[T]):
    """List and watch of one kind into one cache."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        type: type[T],
        cache: Cache[T],
        *,
        namespace: str = "",
        query: Query = (),
        backoff: Backoff | None = None,
        after: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`after`: what is waited for before the first list."""
        self.resource = resource
        self.cache = cache
        self.heard_at: float | None = None
        """time.monotonic() of the last word of the server about this kind."""
        self._client = client
        self._decoder = decoder(type)
        self._namespace = namespace
        self._query = query
        self._before_listing = after
        self._backoff = backoff or Backoff(most=LONGEST_WAIT)
        self._version: str | None = None
        self.trouble = ""
        """Why the kind cannot be followed at the moment; empty where it can."""
        self._worked = False
        """Whether a watch has brought something since the last wait."""
        self._passed: dict[Key, Identity] = {}
        """The objects that cannot be read, as the last list or watch has them."""
        self._deletion = asyncio.Event()
        """Set by every DELETED event."""

    @property
    def passed_over(self) -> int:
        """How many objects cannot be read, so that the copy lacks them or has an older version."""
        return len(self._passed)

    async def run(self) -> None:
        """Keep the cache level until cancelled."""
        if self._before_listing is not None:
            await self._before_listing()
        while True:
            try:
                if self._version is None:
                    await self._list()
                quiet = await self._watch()
            except ApiError as error:
                await asyncio.sleep(self._after(error))
            except NETWORK_ERRORS as error:
                self._tell(f"{type(error).__name__}: {error}")
                self.cache.follow_fails(True)
                await asyncio.sleep(self._wait())
            else:
                await asyncio.sleep(self._wait() if quiet else 0)

    # ------------------------------------------------------------------ list

    async def _list(self) -> None:
        """One whole list; in one page where the paged one outlived its version (410)."""
        try:
            objects, version, unreadable = await self._pages(limit=500)
        except ApiError as error:
            if not error.gone:
                raise
            objects, version, unreadable = await self._pages(limit=0)
        self.cache.replace(objects, version, unreadable=unreadable)
        self._version = version
        self._hear()

    async def _pages(self, limit: int) -> tuple[list[T], str, set[str]]:
        objects: list[T] = []
        passed: dict[Key, Identity] = {}
        version = ""
        pages = self._client.list(
            self.resource, RawList, namespace=self._namespace, query=self._query, limit=limit
        )
        async with aclosing(pages):
            async for page in pages:
                version = page.metadata.resource_version
                for raw in page.items or ():
                    obj = self._read(raw, passed)
                    if obj is not None and (kept := self.cache.shared(obj)) is not None:
                        objects.append(kept)
        self._passed = passed
        return objects, version, {each.uid for each in passed.values()}

    # ------------------------------------------------------------------ level, on demand

    async def level(self) -> None:
        """Bring the cache level with what the API server holds now, by a consistent list of
        metadata and a read of what is newer than the copy. Raises ApiError, or a network's error.

        The last object of what was deleted tells how it ended, and only the watch brings that: it
        is waited for, for a while.
        """
        uids, lagging, version = await self._identities()
        newer = [each for each in lagging if self._lags(each)]
        if len(newer) > READ_ONE_BY_ONE:
            objects, _, _ = await self._pages(limit=500)
            for obj in objects:
                self.cache.learn(obj)
        else:
            slots = asyncio.Semaphore(READS_AT_ONCE)
            await asyncio.gather(*(self._catch_up(each, slots) for each in newer))
        gone = self.cache.lacking(uids, version)
        await self._deletions(gone)
        self.cache.level_with(version, gone)
        log.info("level", kind=self.resource.kind, newer=len(newer), gone=len(gone))

    def unsure(self) -> None:
        """Take the copy for unknown until it is level again."""
        self.cache.unsure()

    async def reread(self) -> None:
        """List anew and believe it, also where versions have not changed: for after the server
        has served the kind under another schema. Raises ApiError, or a network's error."""
        self.cache.doubt()
        await self._list()

    async def _identities(self) -> tuple[set[str], list[Identity], str]:
        """The UIDs of a whole list, what of it the copy lagged behind, and the list's version. Page
        by page: of a hundred thousand objects nothing else is kept."""
        uids: set[str] = set()
        lagging: list[Identity] = []
        version = ""
        pages = self._client.list(
            self.resource,
            IdentityList,
            namespace=self._namespace,
            query=self._query,
            accept=METADATA_ONLY,
        )
        async with aclosing(pages):
            async for page in pages:
                version = page.metadata.resource_version
                identities = [item.metadata for item in page.items or ()]
                uids.update(each.uid for each in identities)
                lagging += [each for each in identities if self._lags(each)]
        return uids, lagging, version

    def _lags(self, meta: Identity) -> bool:
        held = self.cache.get(meta.namespace, meta.name)
        mine = version_of(held.metadata.resource_version) if held is not None else 0
        return mine < version_of(meta.resource_version)

    async def _catch_up(self, meta: Identity, slots: asyncio.Semaphore) -> None:
        path = self.resource.path(meta.namespace, meta.name)
        try:
            async with slots:
                raw = msgspec.Raw(await self._client.request("GET", path))
        except ApiError as error:
            if not error.not_found:
                raise
            return
        if (obj := self._read(raw, self._passed)) is not None:
            self.cache.learn(obj)

    async def _deletions(self, gone: list[T]) -> None:
        """Return when the watch has told of all of them, or should have long ago."""
        try:
            async with asyncio.timeout(DELETIONS_WITHIN):
                while any(self._held(obj) for obj in gone):
                    self._deletion.clear()
                    await self._deletion.wait()
        except TimeoutError:
            log.warning("deletions not told by the watch", kind=self.resource.kind)

    def _held(self, obj: T) -> bool:
        held = self.cache.get(obj.metadata.namespace, obj.metadata.name)
        return held is not None and held.metadata.uid == obj.metadata.uid

    # ------------------------------------------------------------------ watch

    async def _watch(self) -> bool:
        """Follow one watch to its end. Returns whether it brought nothing and ended at once."""
        assert self._version is not None
        seconds = WATCH_SECONDS + random.randrange(WATCH_SECONDS)
        started, heard = time.monotonic(), False
        frames = self._client.watch(
            self.resource,
            namespace=self._namespace,
            resource_version=self._version,
            query=self._query,
            timeout_seconds=seconds,
        )
        async with aclosing(frames):
            async for line in frames:
                self._frame(line)
                if not heard:
                    heard = True
                    self._recovered()
                self._hear()
        return not heard and time.monotonic() - started < 1.0

    def _frame(self, line: bytes) -> None:
        """Take in one event. Raises ApiError for an ERROR and for what is no event."""
        frame = decoder(Frame).decode(line)
        match frame.type:
            case "ADDED" | "MODIFIED" | "DELETED":
                self._change(frame)
            case "BOOKMARK":
                self._version = decoder(Object).decode(frame.object).metadata.resource_version
                self.cache.bookmark(self._version)
            case "ERROR":
                raise ApiError(decoder(Status).decode(frame.object))
            case other:
                raise Unreadable(f"the API server sent a watch event of the unknown type {other!r}")

    def _change(self, frame: Frame) -> None:
        """Bring the copy level with one object, or pass it over."""
        obj = self._read(frame.object, self._passed)
        meta = obj.metadata if obj is not None else identity_of(frame.object)
        if frame.type == "DELETED":
            self._passed.pop((meta.namespace, meta.name), None)
            if obj is not None:
                self.cache.deleted(obj)
            else:
                self.cache.forgotten(meta.namespace, meta.name, meta.uid)
            self._deletion.set()
        elif obj is not None:
            self._passed.pop((meta.namespace, meta.name), None)
            self.cache.changed(obj)
        self._version = meta.resource_version or self._version

    def _read(self, raw: msgspec.Raw, passed: dict[Key, Identity]) -> T | None:
        """The object; None if it is nested too deeply or its fields are not those of its kind: it
        is then in `passed`, and has a line in the log, once a version.

        One object that came past the CRD's schema must not hide all others.
        """
        try:
            if not is_deeper(bytes(raw), READABLE_DEPTH):
                return self._decoder.decode(raw)
            error = f"it is nested more than {READABLE_DEPTH} deep"
        except Unreadable as fault:
            error = fault.message
        found = identity_of(raw)
        key = found.namespace, found.name
        if self._passed.get(key) != found:
            log.error(
                "object cannot be read, passing it over",
                kind=self.resource.kind,
                object="/".join(key),
                error=error,
            )
        passed[key] = found
        return None

    # ------------------------------------------------------------------ trouble

    def _after(self, error: ApiError) -> float:
        """Seconds to wait after an error of the server. Only throttling leaves the version good,
        and it says nothing of the kind."""
        self._tell(str(error))
        if error.gone:
            self._version = None
            return min(self._wait(), LONGEST_WAIT_GONE)
        if error.code in (403, 404):
            self._version = None
            self.cache.absent()
            return max(ABSENT_SECONDS if error.code == 404 else 0.0, self._wait())
        if error.code != 429:
            self._version = None
            self.cache.follow_fails(True)
        return max(self._wait(), min(error.retry_after or 0.0, LONGEST_WAIT))

    def _wait(self) -> float:
        """Seconds before the next try: none at first after a watch that worked."""
        if self._worked:
            self._worked = False
            return 0.0
        return self._backoff.next()

    def _hear(self) -> None:
        self.heard_at = time.monotonic()

    def _tell(self, trouble: str) -> None:
        """Log trouble once, not at every try."""
        if trouble != self.trouble:
            self.trouble = trouble
            log.warning("cannot follow", kind=self.resource.kind, error=trouble)

    def _recovered(self) -> None:
        self._backoff.reset()
        self._worked = True
        self.cache.follow_fails(False)
        if self.trouble:
            self.trouble = ""
            log.info("following again", kind=self.resource.kind)


class Bare(msgspec.Struct):
    """An object that may have any content; not even its metadata is known to be a map."""

    metadata: Any = None


def identity_of(raw: msgspec.Raw) -> Identity:
    """Which object it is, as far as that can be read."""
    try:
        metadata = decoder(Bare).decode(raw).metadata
    except Unreadable:
        metadata = None
    words = metadata if isinstance(metadata, dict) else {}
    texts = [words.get(each) for each in ("name", "namespace", "uid", "resourceVersion")]
    return Identity(*(each if isinstance(each, str) else "" for each in texts))
