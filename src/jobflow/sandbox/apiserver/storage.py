"""Objects, resource versions and the changes that watches live on. Knows nothing of HTTP or kinds.

One revision counts all writes, as etcd's does. What is stored is never changed in place, so a
page of a list or a watch may hold on to it. Every write is one step of the event loop.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

Object = dict[str, Any]
Key = tuple[str, str]
"""Namespace (empty for a cluster's object) and name."""

MAX_OBJECT = 1536 * 1024
"""Bytes of a stored object: etcd's limit of one request."""

MAX_HISTORY = 16 * 1024 * 1024
"""Bytes of the changes that are kept of one kind."""

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"

encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Stored:
    """One state of an object."""

    key: Key
    obj: Object
    body: bytes
    """The object as JSON."""
    revision: int

    @property
    def labels(self) -> dict[str, str]:
        """Its labels; empty where there are none."""
        return self.obj["metadata"].get("labels") or {}

    @property
    def uid(self) -> str:
        """`metadata.uid`."""
        return str(self.obj["metadata"]["uid"])


@dataclass(frozen=True, slots=True)
class Change:
    """One write. `new` of a deletion is the last state with the deletion's own revision."""

    type: str
    new: Stored
    old: Stored | None

    @property
    def revision(self) -> int:
        """The revision this change made."""
        return self.new.revision


class Watch:
    """What one watcher has not been told yet."""

    def __init__(self, since: int, limit: int) -> None:
        self.pending: deque[Change] = deque()
        self.wake = asyncio.Event()
        self.closed = False
        self._since = since
        self._limit = limit

    def offer(self, change: Change) -> None:
        """A change for this watcher; one that is too far behind is cut off."""
        if change.revision <= self._since:
            return
        if len(self.pending) >= self._limit:
            self.close()
            return
        self.pending.append(change)
        self.wake.set()

    def close(self) -> None:
        """End the watch once what is pending has been sent."""
        self.closed = True
        self.wake.set()


@dataclass(slots=True)
class Bucket:
    """The objects of one kind and the last changes among them."""

    remembered: int
    """The most changes that are kept; fewer where they are large."""
    history: deque[Change] = field(default_factory=deque)
    objects: dict[Key, Stored] = field(default_factory=dict)
    keys: list[Key] = field(default_factory=list)
    """In order, as a list is answered."""
    watches: set[Watch] = field(default_factory=set)
    forgotten: int = 0
    """The last revision whose change is no longer in `history`."""
    held: int = 0
    """Bytes of the changes in `history`."""

    def select(self, namespace: str) -> list[Stored]:
        """All objects, or a namespace's, in order."""
        if not namespace:
            return [self.objects[key] for key in self.keys]
        start = bisect_left(self.keys, (namespace, ""))
        end = bisect_left(self.keys, (namespace + "\0", ""))
        return [self.objects[key] for key in self.keys[start:end]]

    def put(self, stored: Stored) -> Stored | None:
        """Keep a state; returns the one before."""
        old = self.objects.get(stored.key)
        if old is None:
            insort(self.keys, stored.key)
        self.objects[stored.key] = stored
        return old

    def drop(self, key: Key) -> Stored:
        """Forget an object. KeyError where there is none."""
        old = self.objects.pop(key)
        del self.keys[bisect_left(self.keys, key)]
        return old

    def publish(self, change: Change) -> None:
        """Remember a change and tell the watchers."""
        self.history.append(change)
        self.held += len(change.new.body)
        while len(self.history) > self.remembered or self.held > MAX_HISTORY:
            oldest = self.history.popleft()
            self.held -= len(oldest.new.body)
            self.forgotten = oldest.revision
        for watch in list(self.watches):
            watch.offer(change)


class Expired(Exception):
    """The revision is older than what is remembered. `oldest` can still be watched from."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {asked} ({oldest})")


class TooLarge(Exception):
    """The object is over `MAX_OBJECT`."""


class Storage:
    """Everything the server holds."""

    def __init__(self, *, history: int = 10_000) -> None:
        self.revision = 1
        self.listeners: list[Callable[[str, Change], None]] = []
        """Told of every change, in the same step of the event loop, with its bucket."""
        self._history = history
        self._buckets: dict[str, Bucket] = {}

    def bucket(self, name: str) -> Bucket:
        """The bucket of this name; made where there is none."""
        found = self._buckets.get(name)
        if found is None:
            found = self._buckets[name] = Bucket(self._history)
        return found

    def buckets(self) -> Iterator[tuple[str, Bucket]]:
        """All buckets with their names."""
        return iter(list(self._buckets.items()))

    def get(self, bucket: str, key: Key) -> Stored | None:
        """The object, if it is there."""
        return self.bucket(bucket).objects.get(key)

    def put(self, bucket: str, key: Key, obj: Object) -> Stored:
        """Store an object's next state. Takes `obj` over and sets its version. Raises TooLarge."""
        where = self.bucket(bucket)
        stored = self._next(key, obj)
        old = where.put(stored)
        self._publish(bucket, Change(MODIFIED if old else ADDED, stored, old))
        return stored

    def remove(self, bucket: str, key: Key, last: Object | None = None) -> Stored:
        """Delete an object; `last` is a final state of it. Returns that, at its new revision."""
        old = self.bucket(bucket).drop(key)
        obj = dict(last or old.obj)
        obj["metadata"] = dict(obj["metadata"])
        gone = self._next(key, obj)
        self._publish(bucket, Change(DELETED, gone, old))
        return gone

    def watch(self, bucket: str, since: int, *, limit: int = 100_000) -> Watch:
        """A watch that is told of all changes after `since`, be it yet to come. Raises Expired."""
        where = self.bucket(bucket)
        if since < where.forgotten:
            raise Expired(since, where.forgotten + 1)
        watch = Watch(since, limit)
        for change in where.history:
            watch.offer(change)
        where.watches.add(watch)
        return watch

    def unwatch(self, bucket: str, watch: Watch) -> None:
        """Tell this watch nothing more."""
        self.bucket(bucket).watches.discard(watch)

    def close_watches(self) -> None:
        """End all watches, as a server does that restarts or a proxy that has had enough."""
        for _, bucket in self.buckets():
            for watch in list(bucket.watches):
                watch.close()

    def compact(self) -> None:
        """Forget all changes so far: an older resource version is answered 410."""
        for _, bucket in self.buckets():
            bucket.history.clear()
            bucket.held = 0
            bucket.forgotten = self.revision

    def _next(self, key: Key, obj: Object) -> Stored:
        revision = self.revision + 1
        obj["metadata"]["resourceVersion"] = str(revision)
        body = encode(obj)
        if len(body) > MAX_OBJECT:
            raise TooLarge
        self.revision = revision
        return Stored(key, obj, body, revision)

    def _publish(self, bucket: str, change: Change) -> None:
        self.bucket(bucket).publish(change)
        for listener in self.listeners:
            listener(bucket, change)
