"""List and watch of one kind, which keep a Cache up to date. Every error leads to another attempt
after a backoff, so `run` ends only if it is cancelled."""

import asyncio
import logging
import math
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, Generic, TypeVar

import msgspec

from jobflow.api.nesting import READABLE_DEPTH, is_deeper
from jobflow.api.resources import Object, Resource, Status
from jobflow.kube import answers
from jobflow.kube.cache import Cache, Key, KubeObject
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client, Query, UnreadableAnswer, decoder
from jobflow.kube.clock import ExponentialBackoff, boot_clock
from jobflow.kube.connections import METADATA_ONLY

log = logging.getLogger(__name__)

T = TypeVar("T", bound=KubeObject)
A = TypeVar("A")
Look = Callable[[answers.Identity], None]

WATCH_SECONDS = 300
"""Minimum length of a watch in seconds; the maximum is twice as long (client-go's values), so that
watches do not all end together."""
SILENCE_SECONDS = 90.0
"""Seconds without an event or a bookmark after which a watch is repeated: its connection may be
dead. A kind that does not change may bring neither."""
PROOFS = 3
"""Requests within the maximum age of a copy. The server ends each watch in time and accepts the
next, which proves that the copy is up to date although nothing changes."""
ABSENT_SECONDS = 30.0
"""Pause before another request for a kind that the server does not serve."""
LONGEST_WAIT = 30.0
LONGEST_WAIT_GONE = 5.0
"""The server works, it only forgets versions soon: lists every few seconds keep the copy useful."""
READ_ONE_BY_ONE = 200
"""Missing objects are read one by one up to this number, and by a list above it."""
READS_AT_ONCE = 16
DELETIONS_WITHIN = 5.0
"""How long the watch may take to bring the last state of deleted objects."""


class Reflector(Generic[T]):
    def __init__(
        self,
        client: Client,
        resource: Resource,
        type: type[T],
        cache: Cache[T],
        *,
        namespace: str = "",
        query: Query = (),
        backoff: ExponentialBackoff | None = None,
        after: Callable[[], Awaitable[object]] | None = None,
        max_age: float | None = None,
    ) -> None:
        """`after` is awaited before the first list. `max_age`: seconds within which `age` stays
        while the server answers; None: no such limit, and fewer requests."""
        self.resource = resource
        self.cache = cache
        self.heard_at: float | None = None
        """Time on `boot_clock` at which the copy was known to be up to date: of the server's last
        message about this kind, or of the request for the last list."""
        self._client = client
        self._decoder = decoder(type)
        self._namespace = namespace
        self._query = query
        self._before_listing = after
        self.max_age = max_age
        longest = LONGEST_WAIT if max_age is None else min(LONGEST_WAIT, max_age / PROOFS)
        self._backoff = backoff or ExponentialBackoff(most=longest)
        self._version: str | None = None
        self.trouble = ""
        """Why the kind cannot be followed at present; "" if it can."""
        self.error: ApiError | None = None
        self._worked = False
        """Whether a watch has brought an event since the last wait."""
        self._unreadable: dict[Key, answers.Identity] = {}
        self._deletion = asyncio.Event()

    @property
    def unreadable(self) -> int:
        """Number of objects that cannot be read, so that the copy lacks them or is older."""
        return len(self._unreadable)

    @property
    def age(self) -> float:
        """Seconds since the copy was known to be up to date."""
        return math.inf if self.heard_at is None else boot_clock() - self.heard_at

    @property
    def outdated(self) -> bool:
        """Whether the copy has been read, and may be older than its maximum age."""
        return self.max_age is not None and self.max_age < self.age < math.inf

    async def run(self) -> None:
        """Keep the cache up to date until cancelled. A watch continues from the version of the one
        before only if the server has ended that: behind a connection that broke, the server may
        have gone back in time."""
        # pods are listed after flows and jobs, which decide which pods to keep
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
                self._version = self.error = None
                self._report(answers.describe_network_error(error))
                self.cache.follow_fails()
                await asyncio.sleep(self._wait())
            else:
                # a server that ends each watch at once is not asked in a hot loop
                await asyncio.sleep(self._wait() if quiet else 0)

    # ------------------------------------------------------------------ list

    async def _list(self) -> None:
        cache, asked_at, known = self.cache, boot_clock(), self.cache.newest
        objects, version, unreadable = await self._whole_list()
        # a restored etcd counts versions again, so an old list looks like a new one
        is_older = any(cache.includes_older(obj.metadata, version) for obj in objects)
        if is_older or cache.suspect or cache.precedes(version, known):
            return await self._start_over(known)
        cache.replace(objects, version, unreadable=unreadable)
        # it may lack what happened after its request was sent
        self._version, self.heard_at = version, asked_at

    async def _start_over(self, known: int) -> None:
        # an object may have the version of its copy, and yet be another one
        self.cache.doubt()
        asked_at = boot_clock()
        objects, version, _ = await self._whole_list()
        log.error(
            "the API server went back in time, starting over",
            extra={"kind": self.resource.kind, "known": known, "version": version},
        )
        self.cache.start_over(objects, version)
        self._version, self.heard_at = version, asked_at

    async def _whole_list(self) -> tuple[list[T], str, set[str]]:
        """Return the objects of a list, its version, and the UIDs of those that cannot be read."""
        try:
            return await self._pages(limit=500)
        except ApiError as error:
            # the server has forgotten the version between two pages; a single page needs none
            if not error.gone:
                raise
            return await self._pages(limit=0)

    def _list_of(
        self, type_of_list: type[answers.ItemList[A]], **options: Any
    ) -> AsyncGenerator[answers.ItemList[A], None]:
        given = {"namespace": self._namespace, "query": self._query, **options}
        return self._client.list(self.resource, type_of_list, **given)

    async def _pages(self, limit: int) -> tuple[list[T], str, set[str]]:
        objects: list[T] = []
        unreadable: dict[Key, answers.Identity] = {}
        version = ""
        async with aclosing(self._list_of(answers.RawList, limit=limit)) as pages:
            async for page in pages:
                version = page.metadata.resource_version
                for raw in page.items or ():
                    obj = self._read(raw, unreadable)
                    if obj is not None and (kept := self.cache.shared(obj)) is not None:
                        objects.append(kept)
        self._unreadable = unreadable
        return objects, version, {identity.uid for identity in unreadable.values()}

    # ------------------------------------------------------------------ catch up, on demand

    async def catch_up(self, look: Look | None = None) -> None:
        """Bring the cache up to what the API server holds now, by a consistent list of metadata and
        reads of the objects that are newer than the copy. Calls `look` with the metadata of each
        object in the list. Raises ApiError or a network error."""
        known = self.cache.newest
        uids, lagging, version, is_older = await self._identities(look)
        if is_older or self.cache.suspect or self.cache.precedes(version, known):
            return await self._start_over(known)
        newer = [identity for identity in lagging if self.cache.lags(identity)]
        if len(newer) > READ_ONE_BY_ONE:
            objects, _, _ = await self._pages(limit=500)
            for obj in objects:
                self.cache.learn(obj)
        else:
            # a busy server should not answer hundreds of reads at once
            slots = asyncio.Semaphore(READS_AT_ONCE)

            async def read(identity: answers.Identity) -> None:
                path = self.resource.path(identity.namespace, identity.name)
                try:
                    async with slots:
                        raw = msgspec.Raw(await self._client.request("GET", path))
                except ApiError as error:
                    if not error.not_found:
                        raise
                    return
                if (obj := self._read(raw, self._unreadable)) is not None:
                    self.cache.learn(obj)

            await asyncio.gather(*map(read, newer))
        gone = self.cache.lacking(uids, version)
        try:
            async with asyncio.timeout(DELETIONS_WITHIN):
                # how an object ended is in its last state, which only the watch brings
                while any(self.cache.same(obj) for obj in gone):
                    self._deletion.clear()
                    await self._deletion.wait()
        except TimeoutError:
            log.warning("deletions not reported by the watch", extra={"kind": self.resource.kind})
        self.cache.level_with(version, gone)
        extra = {"kind": self.resource.kind, "newer": len(newer), "gone": len(gone)}
        log.info("level", extra=extra)

    async def reread(self) -> None:
        """Read a list and replace copies of the same version too, after the server has served the
        kind under another schema. Raises ApiError or a network error."""
        self.cache.doubt()
        await self._list()

    async def _identities(
        self, look: Look | None
    ) -> tuple[set[str], list[answers.Identity], str, bool]:
        """Return the UIDs of a whole list, its objects that the copy lags behind, its version, and
        whether it has objects that are older than it must include."""
        uids: set[str] = set()
        lagging: list[answers.Identity] = []
        version, is_older = "", False
        found = self._list_of(answers.ItemList[answers.Identified], accept=METADATA_ONLY)
        async with aclosing(found) as pages:
            async for page in pages:
                version = page.metadata.resource_version
                # nothing else is kept of a page: a list may have a hundred thousand objects
                identities = [item.metadata for item in page.items or ()]
                if look is not None:
                    for identity in identities:
                        look(identity)
                uids.update(identity.uid for identity in identities)
                lagging += [identity for identity in identities if self.cache.lags(identity)]
                is_older |= any(self.cache.includes_older(each, version) for each in identities)
        return uids, lagging, version, is_older

    # ------------------------------------------------------------------ watch

    async def _watch(self) -> bool:
        """Follow one watch to its end. Returns whether it ended at once, without an event."""
        assert self._version is not None
        seconds, silence = WATCH_SECONDS + random.randrange(WATCH_SECONDS), SILENCE_SECONDS
        if self.max_age is not None:
            proof = self.max_age / PROOFS
            seconds, silence = max(1, int(proof)), proof * 1.5
        started, heard = boot_clock(), False

        def opened() -> None:
            self.heard_at = boot_clock()
            # the server has accepted the version, so what it said before is over
            self.error = None

        events = self._client.watch(
            self.resource,
            namespace=self._namespace,
            resource_version=self._version,
            query=self._query,
            timeout_seconds=seconds,
            silence=silence,
            opened=opened,
        )
        try:
            async with aclosing(events):
                async for line in events:
                    self._apply(line)
                    if not heard:
                        heard = True
                        self._recovered()
                    self.heard_at = boot_clock()
        except answers.Silence:
            if self.max_age is not None:
                raise  # the server would have ended the watch
            # the next watch shows whether the server is still there
        quiet = not heard and boot_clock() - started < 1.0
        if not quiet:
            self._recovered()
        return quiet

    def _apply(self, line: bytes) -> None:
        """Apply one event. Raises ApiError for an ERROR and for an unknown type."""
        event = decoder(answers.WatchEvent).decode(line)
        match event.type:
            case "ADDED" | "MODIFIED" | "DELETED":
                self._change(event)
            case "BOOKMARK":
                self._version = decoder(Object).decode(event.object).metadata.resource_version
                self.cache.bookmark(self._version)
            case "ERROR":
                raise ApiError(decoder(Status).decode(event.object))
            case other:
                raise UnreadableAnswer(f"the API server sent a watch event of type {other!r}")

    def _change(self, event: answers.WatchEvent) -> None:
        obj = self._read(event.object, self._unreadable)
        meta = obj.metadata if obj is not None else answers.identity_of(event.object)
        if event.type == "DELETED":
            self._unreadable.pop((meta.namespace, meta.name), None)
            if obj is not None:
                self.cache.deleted(obj)
            else:
                self.cache.forgotten(meta.namespace, meta.name, meta.uid)
            self._deletion.set()
        elif obj is not None:
            self._unreadable.pop((meta.namespace, meta.name), None)
            self.cache.changed(obj)
        self._version = meta.resource_version or self._version

    def _read(self, raw: msgspec.Raw, unreadable: dict[Key, answers.Identity]) -> T | None:
        """Decode an object, or add it to `unreadable` if it is nested too deeply or does not fit
        its kind, so that one such object does not hide all others. Each version is logged once."""
        try:
            if not is_deeper(bytes(raw), READABLE_DEPTH):
                return self._decoder.decode(raw)
            error = f"it is nested more than {READABLE_DEPTH} deep"
        except UnreadableAnswer as fault:
            error = fault.message
        identity = answers.identity_of(raw)
        key = identity.namespace, identity.name
        if self._unreadable.get(key) != identity:
            log.error(
                "object cannot be read, passing it over",
                extra={"kind": self.resource.kind, "object": "/".join(key), "error": error},
            )
        # its copy stays: an old state is better than a deletion that did not happen
        unreadable[key] = identity
        return None

    # ------------------------------------------------------------------ errors

    def _after(self, error: ApiError) -> float:
        """Seconds to wait after an error of the server. Throttling (429) says nothing about the
        kind, and the version stays valid."""
        self.error = error
        self._report(str(error))
        if error.gone:
            # the next list starts from a version that the server still has
            self._version = None
            return min(self._wait(), LONGEST_WAIT_GONE)
        if error.code in (403, 404):
            # a kind or a right may come later, so this is no reason to give up
            self._version = None
            self.cache.absent()
            return max(ABSENT_SECONDS if error.code == 404 else 0.0, self._wait())
        if error.code != 429:
            self._version = None
            self.cache.follow_fails()
        return max(self._wait(), min(error.retry_after or 0.0, LONGEST_WAIT))

    def _wait(self) -> float:
        """Seconds before the next attempt: 0 at first after a watch that worked."""
        if self._worked:
            self._worked = False
            return 0.0
        return self._backoff.next()

    def _report(self, trouble: str) -> None:
        if trouble != self.trouble:
            self.trouble = trouble
            log.warning("cannot follow", extra={"kind": self.resource.kind, "error": trouble})

    def _recovered(self) -> None:
        self._backoff.reset()
        # the next wait is 0: the server has only ended a watch in time
        self._worked = True
        if self.trouble:
            self.trouble = ""
            log.info("following again", extra={"kind": self.resource.kind})
